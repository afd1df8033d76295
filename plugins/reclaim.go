package plugins

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// ProvisionOptions is what a volume is to be like.
//
// Upstream: pkg/volume VolumeOptions (v1.36), and the arguments of its Provisioner.
type ProvisionOptions struct {
	// Name is that of the PersistentVolume to be, "pvc-<UID of the claim>": what was made under it before is found again.
	Name              string
	Claim             *corev1.PersistentVolumeClaim // read-only
	ReclaimPolicy     corev1.PersistentVolumeReclaimPolicy
	MountOptions      []string
	Parameters        map[string]string
	SelectedNode      *corev1.Node // nil: any
	AllowedTopologies []corev1.TopologySelectorTerm
}

// Provisioner is offered by plugins that make volumes for claims.
//
// Differs: upstream's plugins make another volume each time they are asked. One who was killed before he could create the
// PersistentVolume then leaves a volume behind that nobody knows of.
//
// Upstream: pkg/volume ProvisionableVolumePlugin, Provisioner (v1.36).
type Provisioner interface {
	// SupportsMountOptions tells whether volumes can have the mount options of a class.
	SupportsMountOptions() bool
	// CanProvision says why the plugin would not even try. It leaves nothing.
	CanProvision(opts ProvisionOptions) error
	// Provision makes the volume and returns the PersistentVolume that stands for it: its source, capacity, access modes,
	// policy and whatever else the plugin knows of. It is idempotent by opts.Name. With an Uncertain error the volume may be
	// there: it is asked for again, and deleted if nobody wants it any more.
	Provision(ctx context.Context, opts ProvisionOptions) (*corev1.PersistentVolume, error)
}

// Deleter is offered by plugins that delete volumes.
//
// Upstream: pkg/volume DeletableVolumePlugin, Deleter (v1.36).
type Deleter interface {
	// CanDelete says why the plugin would not even try. It leaves nothing.
	CanDelete(spec *Spec) error
	// Delete deletes the volume and what is in it. Nothing there is success. The error may be an *InUseError.
	Delete(ctx context.Context, spec *Spec) error
}

// RecycleOptions is what volume is to be emptied, and who wants to know.
type RecycleOptions struct {
	Volume string // the PersistentVolume's name
	Spec   *Spec
	// RecordEvent is called with what is worth telling on the way, with an event's type.
	RecordEvent func(severity, text string)
	// Acquire is called before anything is removed, by whoever alone can empty the volume from then on; by names it, and no
	// two times the same. Its error says that the volume may be somebody's by now: then nothing is removed.
	//
	// Differs: upstream's recyclers begin at once. Of two controllers, one that has been slow since it looked whether the
	// volume was released then removes what its next user wrote.
	Acquire func(by string) error
}

// Recycler is offered by plugins that can empty a volume for its next claim.
//
// Upstream: pkg/volume RecyclableVolumePlugin (v1.36).
type Recycler interface {
	// Recycle removes what is in the volume.
	Recycle(ctx context.Context, opts RecycleOptions) error
}

// InUseError is returned by Delete for a volume that is used for a while yet: it is to be tried again, and has not failed.
//
// Upstream: k8s.io/cloud-provider/volume/errors NewDeletedVolumeInUseError (v1.36).
type InUseError struct{ Text string }

// Error is the text.
func (e *InUseError) Error() string { return e.Text }

// FindProvisionable returns the plugin of that name, which makes volumes. The error matches ErrNoPlugin or ErrUnsupported.
//
// Upstream: pkg/volume FindProvisionablePluginByName (v1.36).
func (m *Manager) FindProvisionable(name string) (Capabilities, error) {
	c, err := m.FindByName(name)
	return requireCapability(c, err, c.Provisioner != nil, "provisionable")
}

// FindDeletable returns the plugin of that name, which deletes volumes. The error matches ErrNoPlugin or ErrUnsupported.
//
// Upstream: pkg/volume FindDeletablePluginByName (v1.36).
func (m *Manager) FindDeletable(name string) (Capabilities, error) {
	c, err := m.FindByName(name)
	return requireCapability(c, err, c.Deleter != nil, "deletable")
}

// FindDeletableBySpec returns the one plugin that supports the volume, which deletes volumes. The error matches ErrNoPlugin,
// ErrSeveralPlugins or ErrUnsupported.
//
// Upstream: pkg/volume FindDeletablePluginBySpec (v1.36).
func (m *Manager) FindDeletableBySpec(spec *Spec) (Capabilities, error) {
	c, err := m.FindBySpec(spec)
	return requireCapability(c, err, c.Deleter != nil, "deletable")
}

// FindRecyclableBySpec returns the one plugin that supports the volume, which recycles volumes. The error matches ErrNoPlugin,
// ErrSeveralPlugins or ErrUnsupported.
//
// Upstream: pkg/volume FindRecyclablePluginBySpec (v1.36).
func (m *Manager) FindRecyclableBySpec(spec *Spec) (Capabilities, error) {
	c, err := m.FindBySpec(spec)
	return requireCapability(c, err, c.Recycler != nil, "recyclable")
}

// capabilityError says that the plugin that was found does not do this. It matches ErrUnsupported.
//
// Differs: upstream says the same of a plugin that is not there.
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

// IsInUse tells whether an error says that a volume is in use for a while yet.
func IsInUse(err error) bool {
	var e *InUseError
	return errors.As(err, &e)
}
