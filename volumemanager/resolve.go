package volumemanager

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/plugins"
)

// protectionFinalizer protects a claim in use from deletion.
const protectionFinalizer = "kubernetes.io/pvc-protection"

// migrated translates the in-tree plugins whose volumes CSI drivers mount. Upstream checks whether
// a migration is enabled; in v1.36 all are.
//
// Upstream: pkg/volume/csimigration IsMigratable (v1.36).
var migrated = plugins.Migrated()

// A resolved is a volume of a pod as resolved.
type resolved struct {
	spec  *plugins.Spec
	caps  plugins.Capabilities
	claim *corev1.PersistentVolumeClaim // nil: the volume is inline in the pod

	labelled selinuxLabels
}

// An unusableError says why a pod must not use a volume. A retry will not help until an object
// changes.
type unusableError struct{ text string }

func (e *unusableError) Error() string { return e.text }

func unusable(format string, args ...any) error { return &unusableError{fmt.Sprintf(format, args...)} }

// resolve finds out what a volume of a pod is, and its plugin. It reads the claim and the volume
// from the API server. If the API server does not answer, the error is not an *unusableError.
//
// Upstream: pkg/kubelet/volumemanager/populator createVolumeSpec (v1.36).
func (m *Manager) resolve(ctx context.Context, p *desiredPod, volume *corev1.Volume) (resolved, error) {
	var found resolved
	if name := podclaims.Name(p.pod, volume); name != "" {
		var err error
		if found, err = m.resolveClaim(ctx, p, volume, name); err != nil {
			return found, err
		}
	} else {
		spec, err := migrated.Translate(&plugins.Spec{Volume: volume}, p.pod.Namespace)
		if err != nil {
			return found, unusable("%v", err)
		}
		found.spec = spec
	}
	var err error
	if found.caps, err = m.cfg.Plugins.FindBySpec(found.spec); err != nil {
		return found, fmt.Errorf("failed to get Plugin from volumeSpec for volume %q err=%w", found.spec.Name(), err)
	}
	switch block := isBlock(found.spec); {
	case block && found.caps.BlockMapper == nil:
		return found, unusable("volume %q: plugin %s does not map block volumes", volume.Name, found.caps.Name())
	case !block && found.caps.Mounter == nil:
		return found, unusable("volume %q: plugin %s does not mount volumes", volume.Name, found.caps.Name())
	}
	return found, nil
}

// resolveClaim finds the volume behind a claim of the pod's namespace. The claim of an ephemeral
// volume must be the pod's own.
//
// Upstream: pkg/kubelet/volumemanager/populator createVolumeSpec, getPVCExtractPV, getPVSpec
// (v1.36).
func (m *Manager) resolveClaim(ctx context.Context, p *desiredPod, volume *corev1.Volume,
	name string,
) (resolved, error) {
	none := func(err error) (resolved, error) {
		return resolved{}, fmt.Errorf("error processing PVC %s/%s: %w", p.pod.Namespace, name, err)
	}
	claim, err := m.readClaim(ctx, p.pod.Namespace, name)
	if err == nil {
		err = usable(claim)
	}
	if err != nil {
		return none(err)
	}
	source, isOwn := volume.PersistentVolumeClaim, volume.Ephemeral != nil
	if isOwn {
		if err := ephemeral.VolumeIsForPod(p.pod, claim); err != nil {
			return resolved{}, unusable("%v", err)
		}
	}
	pv, err := m.readVolume(ctx, claim)
	if err != nil {
		return none(err)
	}
	spec, err := migrated.Translate(&plugins.Spec{PersistentVolume: pv, ReadOnly: !isOwn && source.ReadOnly},
		p.pod.Namespace)
	if err != nil {
		return resolved{}, unusable("%v", err)
	}
	return resolved{spec: spec, claim: claim}, checkMode(p, volume.Name, spec)
}

func (m *Manager) readClaim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	claim, err := m.cfg.Client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	return claim, readError("failed to fetch PVC from API server", err)
}

// readVolume reads the volume that a claim is bound to, and checks that it is bound to the claim.
func (m *Manager) readVolume(ctx context.Context,
	claim *corev1.PersistentVolumeClaim,
) (*corev1.PersistentVolume, error) {
	name := claim.Spec.VolumeName
	volume, err := m.cfg.Client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, readError(fmt.Sprintf("failed to fetch PV %s from API server", name), err)
	}
	switch ref := volume.Spec.ClaimRef; {
	case ref == nil:
		return nil, unusable("found PV object %s but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim", name)
	case ref.UID != claim.UID:
		return nil, unusable("found PV object %s but its pv.Spec.ClaimRef.UID %s does not point to claim.UID %s", name,
			ref.UID, claim.UID)
	}
	return volume, nil
}

// readError returns the error of a read. A missing object is certain, and so unusable.
func readError(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return unusable("%s: %v", what, err)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}

// usable returns an error if a pod must not use the claim.
//
// Upstream: pkg/kubelet/volumemanager/populator getPVCExtractPV (v1.36).
func usable(claim *corev1.PersistentVolumeClaim) error {
	switch {
	case claim.DeletionTimestamp != nil && !slices.Contains(claim.Finalizers, protectionFinalizer):
		return unusable("PVC is being deleted")
	case claim.Status.Phase != corev1.ClaimBound:
		return unusable("PVC is not bound")
	case claim.Spec.VolumeName == "":
		return unusable("PVC has empty pvc.Spec.VolumeName")
	default:
		return nil
	}
}

// checkMode returns an error if the pod's containers do not use the volume in its mode: mounted, or
// as a device.
//
// Upstream: pkg/kubelet/volumemanager/populator createVolumeSpec, pkg/volume/util GetVolumeMode
// (v1.36).
func checkMode(p *desiredPod, outerName string, spec *plugins.Spec) error {
	mode := spec.PersistentVolume.Spec.VolumeMode
	switch {
	case mode == nil:
		return unusable("cannot get volumeMode for volume: %s", spec.Name())
	case p.mounts.Has(outerName) && *mode != corev1.PersistentVolumeFilesystem:
		return unusable("volume %s has volumeMode %s, but is specified in volumeMounts", outerName, *mode)
	case p.devices.Has(outerName) && *mode != corev1.PersistentVolumeBlock:
		return unusable("volume %s has volumeMode %s, but is specified in volumeDevices", outerName, *mode)
	default:
		return nil
	}
}
