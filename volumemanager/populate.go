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

// errorsMax is how many reasons why a pod's volumes could not be processed are told at once.
//
// Upstream: pkg/kubelet/volumemanager/cache maxPodErrors (v1.36).
const errorsMax = 10

// populate finds out what the volumes of a pod are, as far as that is not known, or may have changed. An error is a reason to
// look again later.
//
// Differs: upstream looks at each pod's claims and volumes again whenever the pod is synced, each minute at least; here they
// are looked at again when ClaimResized tells that there is something new.
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
		p.stale.Delete(volume.Name) // before it is read: what is told from now on is newer
		found, err := m.resolve(ctx, p, volume)
		if m.desired.pods[uid] != p {
			return nil // the pod went meanwhile
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

// shouldRetry tells whether to look at a volume again that could not be processed. One that was known before stays as it was: it
// is looked at again if only the API server did not answer.
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

// addDesired adds a volume that was found to what a pod needs, or says what became of it.
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

// PopPodErrors returns why volumes of a pod could not be processed since it was last called: distinct, sorted, and ten at most.
// Pods that were not added, and volumes that could be processed meanwhile, have none.
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

// IsNodeResize tells whether a change of a claim, or a claim that comes (was is nil), may say that its volume is to grow on the
// nodes that use it, or has grown.
func IsNodeResize(was, is *corev1.PersistentVolumeClaim) bool {
	if is == nil || is.Status.Phase != corev1.ClaimBound {
		return false
	}
	if was == nil {
		return len(is.Status.AllocatedResourceStatuses) > 0 || len(is.Status.Conditions) > 0
	}
	return was.Status.Phase == corev1.ClaimBound && !equality.Semantic.DeepEqual(was.Status, is.Status)
}

// ClaimResized tells of a claim of which Resized is true. Those pods that use it have their volume looked at again.
func (m *Manager) ClaimResized(claim *corev1.PersistentVolumeClaim) {
	using := m.desired.claimants[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}]
	for _, uid := range slices.Compact(slices.Sorted(slices.Values(using))) {
		p := m.desired.pods[uid]
		for i := range p.pod.Spec.Volumes {
			volume := &p.pod.Spec.Volumes[i]
			if podclaims.Name(p.pod, volume) != claim.Name || !p.wanted.Has(volume.Name) || m.readAfter(p, volume.Name, claim) {
				continue
			}
			p.stale.Insert(volume.Name)
			m.pods.Add(uid)
		}
	}
}

// readAfter tells whether a pod's volume was found when the claim was as it is now, or newer.
func (m *Manager) readAfter(p *desiredPod, outerName string, claim *corev1.PersistentVolumeClaim) bool {
	v := m.desired.volumes[p.volumes[outerName]]
	return v != nil && v.claimSeen >= revision(claim)
}

// DriversChanged tells that CSIDriver objects have changed. Volumes that need not be attached any more are not waited for.
//
// Differs: upstream asks each plugin about each volume every 100 ms.
//
// Upstream: pkg/kubelet/volumemanager/populator findAndRemoveDeletedPods, cache MarkVolumeAttachability (v1.36).
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

// anySpec is the volume as one of its pods uses it, always the same one.
func (v *desiredVolume) anySpec() *plugins.Spec { return v.pods[v.firstPod()].spec }
