package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/plugins"
)

// protectionFinalizer keeps a claim that is in use from going.
const protectionFinalizer = "kubernetes.io/pvc-protection"

// resolve finds out what a volume of a pod is, and which plugin serves it. It reads the claim and the volume from the API
// server.
//
// Upstream: pkg/kubelet/volumemanager/populator createVolumeSpec (v1.36).
func (m *Manager) resolve(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) (*plugins.Spec, plugins.Capabilities, error) {
	spec := &plugins.Spec{Volume: volume}
	if source := volume.PersistentVolumeClaim; source != nil {
		var err error
		spec, err = m.resolveClaim(ctx, pod.Namespace, source)
		if err != nil {
			return nil, plugins.Capabilities{}, fmt.Errorf("error processing PVC %s/%s: %w", pod.Namespace, source.ClaimName, err)
		}
	}
	caps, err := m.cfg.Plugins.FindBySpec(spec)
	if err != nil {
		return nil, caps, fmt.Errorf("failed to get Plugin from volumeSpec for volume %q: %w", volume.Name, err)
	}
	if caps.Mounter == nil {
		return nil, caps, fmt.Errorf("volume %q: plugin %s does not mount volumes", volume.Name, caps.Name())
	}
	return spec, caps, nil
}

func (m *Manager) resolveClaim(ctx context.Context, namespace string, source *corev1.PersistentVolumeClaimVolumeSource) (*plugins.Spec, error) {
	claim, err := m.cfg.Client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, source.ClaimName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("failed to fetch PVC from API server: %w", err)
	}
	if err := usable(claim); err != nil {
		return nil, err
	}
	name := claim.Spec.VolumeName
	volume, err := m.cfg.Client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("failed to fetch PV %s from API server: %w", name, err)
	}
	switch ref := volume.Spec.ClaimRef; {
	case ref == nil:
		return nil, fmt.Errorf("found PV object %s but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim", name)
	case ref.UID != claim.UID:
		return nil, fmt.Errorf("found PV object %s but its pv.Spec.ClaimRef.UID %s does not point to claim.UID %s", name, ref.UID, claim.UID)
	}
	if mode := volume.Spec.VolumeMode; mode != nil && *mode == corev1.PersistentVolumeBlock {
		return nil, fmt.Errorf("PV %s is a block volume, which is not served yet", name)
	}
	return &plugins.Spec{PersistentVolume: volume, ReadOnly: source.ReadOnly}, nil
}

// usable tells why a pod must not use the claim; nil when it may.
//
// Upstream: pkg/kubelet/volumemanager/populator getPVCExtractPV (v1.36).
func usable(claim *corev1.PersistentVolumeClaim) error {
	switch {
	case claim.DeletionTimestamp != nil && !slices.Contains(claim.Finalizers, protectionFinalizer):
		return errors.New("PVC is being deleted")
	case claim.Status.Phase != corev1.ClaimBound:
		return errors.New("PVC is not bound")
	case claim.Spec.VolumeName == "":
		return errors.New("PVC has empty pvc.Spec.VolumeName")
	default:
		return nil
	}
}
