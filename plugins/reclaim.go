package plugins

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// ProvisionOptions are the properties of a volume to provision.
//
// Upstream: pkg/volume VolumeOptions (v1.36), and the arguments of its Provisioner.
type ProvisionOptions struct {
	// Name is the name of the PersistentVolume, "pvc-<UID of the claim>". An earlier attempt under
	// the name is found again.
	Name              string
	Claim             *corev1.PersistentVolumeClaim // read-only
	ReclaimPolicy     corev1.PersistentVolumeReclaimPolicy
	MountOptions      []string
	Parameters        map[string]string
	SelectedNode      *corev1.Node // nil: any
	AllowedTopologies []corev1.TopologySelectorTerm
}

// A Provisioner is a plugin that creates volumes for claims.
//
// Differs: upstream's plugins create another volume at each call. A controller that crashes before
// it creates the PersistentVolume then leaks a volume.
//
// Upstream: pkg/volume ProvisionableVolumePlugin, Provisioner (v1.36).
type Provisioner interface {
	// SupportsMountOptions reports whether volumes can have the mount options of a class.
	SupportsMountOptions() bool
	// CanProvision returns the reason why Provision would refuse. It creates nothing.
	CanProvision(opts ProvisionOptions) error
	// Provision creates the volume and returns the PersistentVolume that represents it: source,
	// capacity, access modes, reclaim policy and whatever else the plugin knows. It is idempotent
	// by opts.Name. After an Uncertain error the volume may exist: the caller retries, and deletes
	// the volume if it is no longer wanted.
	Provision(ctx context.Context, opts ProvisionOptions) (*corev1.PersistentVolume, error)
}

// A Deleter is a plugin that deletes volumes.
//
// Upstream: pkg/volume DeletableVolumePlugin, Deleter (v1.36).
type Deleter interface {
	// CanDelete returns the reason why Delete would refuse. It deletes nothing.
	CanDelete(spec *Spec) error
	// Delete deletes the volume and its contents. It succeeds if the volume does not exist. The
	// error may be an *InUseError.
	Delete(ctx context.Context, spec *Spec) error
}

// RecycleOptions describe the volume to recycle, and the callbacks of the recycling.
type RecycleOptions struct {
	Volume string // the PersistentVolume's name
	Spec   *Spec
	// RecordEvent records an event of the recycling, with an event type.
	RecordEvent func(eventType, message string)
	// Acquire is called before anything is removed, with a name of the only party that can remove
	// from then on. The name is unique to the call. If Acquire fails, the volume may have been
	// claimed again: nothing is removed.
	//
	// Differs: upstream's recyclers have no such step. Of two controllers, a slow one that saw the
	// volume released earlier can then remove the next user's data.
	Acquire func(holder string) error
}

// A Recycler is a plugin that can empty a volume for its next claim.
//
// Upstream: pkg/volume RecyclableVolumePlugin (v1.36).
type Recycler interface {
	// Recycle removes the volume's contents.
	Recycle(ctx context.Context, opts RecycleOptions) error
}

// An InUseError is returned by Delete for a volume that is still in use. The deletion has not
// failed: retry it later.
//
// Upstream: k8s.io/cloud-provider/volume/errors NewDeletedVolumeInUseError (v1.36).
type InUseError struct{ Text string }

// Error returns the text.
func (e *InUseError) Error() string { return e.Text }

// FindProvisionable returns the plugin of that name, which is a Provisioner. The error matches
// ErrNoPlugin or ErrUnsupported.
//
// Upstream: pkg/volume FindProvisionablePluginByName (v1.36).
func (m *Manager) FindProvisionable(name string) (Capabilities, error) {
	c, err := m.FindByName(name)
	return requireCapability(c, err, c.Provisioner != nil, "provisionable")
}

// FindDeletable returns the plugin of that name, which is a Deleter. The error matches ErrNoPlugin
// or ErrUnsupported.
//
// Upstream: pkg/volume FindDeletablePluginByName (v1.36).
func (m *Manager) FindDeletable(name string) (Capabilities, error) {
	c, err := m.FindByName(name)
	return requireCapability(c, err, c.Deleter != nil, "deletable")
}

// FindDeletableBySpec returns the one plugin that supports the volume, which is a Deleter. The
// error matches ErrNoPlugin, ErrSeveralPlugins or ErrUnsupported.
//
// Upstream: pkg/volume FindDeletablePluginBySpec (v1.36).
func (m *Manager) FindDeletableBySpec(spec *Spec) (Capabilities, error) {
	c, err := m.FindBySpec(spec)
	return requireCapability(c, err, c.Deleter != nil, "deletable")
}

// FindRecyclableBySpec returns the one plugin that supports the volume, which is a Recycler. The
// error matches ErrNoPlugin, ErrSeveralPlugins or ErrUnsupported.
//
// Upstream: pkg/volume FindRecyclablePluginBySpec (v1.36).
func (m *Manager) FindRecyclableBySpec(spec *Spec) (Capabilities, error) {
	c, err := m.FindBySpec(spec)
	return requireCapability(c, err, c.Recycler != nil, "recyclable")
}

// A capabilityError reports that the plugin that was found lacks a capability. It matches
// ErrUnsupported.
//
// Differs: upstream does not distinguish this from a plugin that does not exist.
type capabilityError struct{ capability string }

func (e *capabilityError) Error() string {
	return fmt.Sprintf("no %s volume plugin matched", e.capability)
}

func (e *capabilityError) Is(target error) bool { return target == ErrUnsupported }

func requireCapability(c Capabilities, err error, has bool, tier string) (Capabilities, error) {
	switch {
	case err != nil:
		return Capabilities{}, err
	case !has:
		return Capabilities{}, &capabilityError{tier}
	default:
		return c, nil
	}
}

// IsInUse reports whether err is that a volume is still in use.
func IsInUse(err error) bool {
	var e *InUseError
	return errors.As(err, &e)
}
