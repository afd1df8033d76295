package volumemanager

import (
	"context"
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/plugins"
)

// errorsMax is the maximum number of errors of a pod's volumes that are reported at once.
//
// Upstream: pkg/kubelet/volumemanager/cache maxPodErrors (v1.36).
const errorsMax = 10

// populate resolves those volumes of a pod that are unknown or may have changed. An error requeues
// the pod.
//
// Differs: upstream resolves each pod's claims and volumes whenever the pod is synced, at least
// once a minute; here they are resolved again when ClaimResized announces a change.
//
// Upstream: pkg/kubelet/volumemanager/populator processPodVolumes (v1.36).
func (m *Manager) populate(ctx context.Context, uid types.UID) error {
	p, ok := m.desired.pods[uid]
	if !ok {
		return nil
	}
	var failed error
	for i := range p.pod.Spec.Volumes {
		volume := &p.pod.Spec.Volumes[i]
		if !p.unknown(volume.Name) && !p.stale.Has(volume.Name) {
			continue
		}
		p.stale.Delete(volume.Name) // before the read: later changes are newer
		found, err := m.resolve(ctx, p, volume)
		if m.desired.pods[uid] != p {
			return nil // the pod was removed meanwhile
		}
		if err == nil {
			err = m.addDesired(p, volume.Name, found)
		}
		p.failed(volume.Name, err)
		if err != nil && m.shouldRetry(p, volume.Name, err) {
			failed = err
		}
	}
	m.desired.markPopulated(p)
	m.reportWait(p)
	m.checkReady()
	if failed == nil {
		m.requeueVolumesOf(uid)
	}
	m.cfg.PodChanged(uid)
	return failed
}

// shouldRetry reports whether to resolve a volume again after an error. A volume that was known
// before keeps its state, and is retried only if the API server did not answer.
func (m *Manager) shouldRetry(p *desiredPod, outerName string, err error) bool {
	if p.unknown(outerName) {
		return true
	}
	if unfit := (*unusableError)(nil); errors.As(err, &unfit) {
		return false
	}
	p.stale.Insert(outerName)
	return true
}

// addDesired adds a resolved volume to a pod's needs.
func (m *Manager) addDesired(p *desiredPod, outerName string, found resolved) error {
	var err error
	if found.labelled, err = m.labelOf(p.pod, outerName, found); err != nil {
		return err
	}
	name, err := m.desired.addVolume(p, outerName, found)
	if err != nil {
		return err
	}
	if actual := m.actual.volumes[name]; actual != nil {
		actual.nodeSize.observe(m.desired.volumes[name])
	}
	m.volumes.Add(name)
	if m.desired.volumes[name].attachable && found.caps.Limiter != nil && found.caps.Limiter.Limited(found.spec) {
		m.scheduleLimitCheck(p)
	}
	return nil
}

// PopPodErrors returns why volumes of a pod could not be processed since the last call: distinct,
// sorted, and at most ten. Pods that were not added and volumes processed meanwhile have none.
//
// Upstream: pkg/kubelet/volumemanager/cache PopPodErrors (v1.36).
func (m *Manager) PopPodErrors(uid types.UID) []string {
	p, ok := m.desired.pods[uid]
	if !ok {
		return nil
	}
	errs := slices.Compact(slices.Sorted(maps.Values(p.errors)))
	clear(p.errors)
	return errs[:min(len(errs), errorsMax)]
}

// IsNodeResize reports whether the change of a claim may mean that its volume should be or was
// expanded on the nodes that use it. was is nil for a new claim.
func IsNodeResize(was, is *corev1.PersistentVolumeClaim) bool {
	if is == nil || is.Status.Phase != corev1.ClaimBound {
		return false
	}
	if was == nil {
		return len(is.Status.AllocatedResourceStatuses) > 0 || len(is.Status.Conditions) > 0
	}
	return was.Status.Phase == corev1.ClaimBound && !equality.Semantic.DeepEqual(was.Status, is.Status)
}

// ClaimResized resolves the volume of a claim again for the pods that use it. Call it for changes
// for which IsNodeResize returns true.
func (m *Manager) ClaimResized(claim *corev1.PersistentVolumeClaim) {
	using := m.desired.claimants[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}]
	for _, uid := range slices.Compact(slices.Sorted(slices.Values(using))) {
		p := m.desired.pods[uid]
		for i := range p.pod.Spec.Volumes {
			volume := &p.pod.Spec.Volumes[i]
			if podclaims.Name(p.pod, volume) != claim.Name || !p.wanted.Has(volume.Name) ||
				m.readAfter(p, volume.Name, claim) {
				continue
			}
			p.stale.Insert(volume.Name)
			m.pods.Add(uid)
		}
	}
}

// readAfter reports whether a pod's volume was resolved with this version of the claim, or a newer
// one.
func (m *Manager) readAfter(p *desiredPod, outerName string, claim *corev1.PersistentVolumeClaim) bool {
	v := m.desired.volumes[p.volumes[outerName]]
	return v != nil && v.claimSeen >= revision(claim)
}

// DriversChanged handles a change of CSIDriver objects: volumes that need no attach any more are no
// longer waited for.
//
// Differs: upstream asks each plugin about each volume every 100 ms.
//
// Upstream: pkg/kubelet/volumemanager/populator findAndRemoveDeletedPods, cache
// MarkVolumeAttachability (v1.36).
func (m *Manager) DriversChanged() {
	for _, name := range slices.Sorted(maps.Keys(m.desired.volumes)) {
		v := m.desired.volumes[name]
		if !v.attachable {
			continue
		}
		if attachable, err := v.caps.Attachable(v.anySpec()); err == nil && !attachable {
			v.attachable = false
			m.volumes.Add(name)
			m.cfg.ReportChanged()
		}
	}
}

// anySpec returns the volume as one of its pods uses it, always the same one.
func (v *desiredVolume) anySpec() *plugins.Spec { return v.pods[v.firstPod()].spec }
