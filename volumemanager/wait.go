package volumemanager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volsim/volsim/sim"
)

// waitTimeout is how long a pod waits for its volumes before it is asked why.
//
// Upstream: pkg/kubelet/volumemanager podAttachAndMountTimeout (v1.36).
const waitTimeout = 2*time.Minute + 3*time.Second

// waitReportPeriod is how long nothing more is told of a pod whose volumes cannot be processed.
//
// Upstream: pkg/kubelet backOffPeriod (v1.36), without its jitter.
const waitReportPeriod = 10 * time.Second

// WaitError says which volumes of a pod are not mounted when a wait for them has ended, by their names in the pod, sorted.
//
// Upstream: pkg/kubelet/volumemanager WaitForAttachAndMount (v1.36).
type WaitError struct {
	Unmounted   []string // of the volumes that containers use
	Unattached  []string // of these
	Unprocessed []string // of which nobody knows yet what they are
	Err         error    // why the wait ended: context.DeadlineExceeded, or why volumes could not be processed
}

// Error is upstream's text.
func (e *WaitError) Error() string {
	return fmt.Sprintf("unmounted volumes=%v, unattached volumes=%v, failed to process volumes=%v: %v",
		e.Unmounted, e.Unattached, e.Unprocessed, e.Err)
}

// Unwrap is why the wait ended.
func (e *WaitError) Unwrap() error { return e.Err }

// UnmountError says which volumes a pod still has, or may have, when a wait for them to go has ended.
//
// Upstream: pkg/kubelet/volumemanager WaitForUnmount (v1.36).
type UnmountError struct {
	Mounted []corev1.UniqueVolumeName // sorted
	Err     error                     // why the wait ended
}

// Error is upstream's text.
func (e *UnmountError) Error() string { return fmt.Sprintf("mounted volumes=%v: %v", e.Mounted, e.Err) }

// Unwrap is why the wait ended.
func (e *UnmountError) Unwrap() error { return e.Err }

// WaitForAttachAndMount adds the pod, as AddPod does, and returns when all volumes that its containers use are mounted. It
// leaves the component. After 2m3s, or as soon as a volume turns out to be one that cannot be processed, it gives up: the error
// is a *WaitError, or a *LimitError for a pod that cannot run here. All goes on nevertheless, and who waits again may find the
// volumes mounted.
//
// Differs: upstream looks each 300 ms; here those who wait are told. ctx is looked at then only.
//
// Upstream: pkg/kubelet/volumemanager WaitForAttachAndMount (v1.36).
func (m *Manager) WaitForAttachAndMount(ctx context.Context, pod *corev1.Pod) error {
	if pod == nil || len(usedVolumes(pod)) == 0 {
		return nil
	}
	since := m.cfg.Process.Now()
	m.AddPod(pod)
	err := m.await(ctx, pod, "mounted", func() bool { return m.Mounted(pod.UID) })
	if err == nil {
		return nil
	}
	why := m.waitError(pod, err)
	if len(why.Unmounted) == 0 {
		return nil
	}
	if p := m.desired.pods[pod.UID]; p != nil && m.exhausted(ctx, p, since) {
		return &LimitError{*why}
	}
	return why
}

// WaitForUnmount returns when nothing of the pod is mounted any more: RemovePod has told that it is to be. It leaves the
// component. After 2m3s it gives up, with an *UnmountError.
//
// Differs: upstream's does not see mounts it is not sure of.
//
// Upstream: pkg/kubelet/volumemanager WaitForUnmount (v1.36).
func (m *Manager) WaitForUnmount(ctx context.Context, pod *corev1.Pod) error {
	if pod == nil {
		return nil
	}
	err := m.await(ctx, pod, "unmounted", func() bool { return !m.HasVolumes(pod.UID) })
	if err == nil || !m.HasVolumes(pod.UID) {
		return nil
	}
	return &UnmountError{Mounted: m.actual.volumesOf(pod.UID), Err: err}
}

// await waits until done. The error says that it took too long, or which volumes cannot be processed.
func (m *Manager) await(ctx context.Context, pod *corev1.Pod, what string, done func() bool) error {
	news := m.signals[pod.UID]
	if news == nil {
		news = &sim.Signal{}
		m.signals[pod.UID] = news
	}
	var failed error
	over := func() bool {
		if failed == nil {
			failed = cmp.Or(m.popPodErrors(pod.UID), ctx.Err())
		}
		return failed != nil || done()
	}
	ended := m.cfg.Process.WaitOn(news, fmt.Sprintf("volumes of %s/%s to be %s", pod.Namespace, pod.Name, what), waitTimeout, over)
	if !news.HasWaiters() {
		delete(m.signals, pod.UID)
	}
	if !ended {
		return context.DeadlineExceeded
	}
	return failed
}

// notify tells that a pod may have become mounted or unmounted, or that a volume of it could not be processed.
func (m *Manager) notify(uid types.UID) {
	if news := m.signals[uid]; news != nil {
		news.Broadcast()
	}
}

// popPodErrors is TakeErrors as one error.
func (m *Manager) popPodErrors(uid types.UID) error {
	if errs := m.PopPodErrors(uid); len(errs) > 0 {
		return errors.New(strings.Join(errs, "; "))
	}
	return nil
}

// problems says why volumes of the pod could not be processed.
func (p *desiredPod) problems() error {
	errs := slices.Compact(slices.Sorted(maps.Values(p.errors)))
	return errors.New(strings.Join(errs[:min(len(errs), errorsMax)], "; "))
}

// usedVolumes are the volumes that containers of the pod use.
func usedVolumes(pod *corev1.Pod) sets.Set[string] {
	p := desiredPod{pod: pod, mounts: sets.New[string](), devices: sets.New[string]()}
	p.useVolumes()
	return p.wanted
}

// waitError is how things are with the volumes of a pod.
func (m *Manager) waitError(pod *corev1.Pod, why error) *WaitError {
	e := &WaitError{Unattached: []string{}, Unmounted: []string{}, Unprocessed: []string{}, Err: why}
	p := m.desired.pods[pod.UID]
	if p != nil {
		e.Unattached = m.unattached(p)
	}
	for _, outerName := range sets.List(usedVolumes(pod)) {
		name, found := corev1.UniqueVolumeName(""), false
		if p != nil {
			name, found = p.volumes[outerName]
		}
		if !found {
			e.Unprocessed = append(e.Unprocessed, outerName)
		}
		if !found || !m.actual.mounted(name, pod.UID) {
			e.Unmounted = append(e.Unmounted, outerName)
		}
	}
	return e
}

// unattached are the volumes of a pod that are not attached, by their names in the pod, sorted.
func (m *Manager) unattached(p *desiredPod) []string {
	names := []string{}
	for _, outerName := range slices.Sorted(maps.Keys(p.volumes)) {
		name := p.volumes[outerName]
		actual := m.actual.volumes[name]
		if m.desired.volumes[name].attachable && (actual == nil || actual.attaching) {
			names = append(names, outerName)
		}
	}
	return names
}

// volumesOf are the volumes that a pod has, or may have, sorted.
func (a *actualState) volumesOf(pod types.UID) []corev1.UniqueVolumeName {
	var names []corev1.UniqueVolumeName
	for _, v := range a.podVolumes[pod] {
		names = append(names, v.name)
	}
	slices.Sort(names)
	return names
}

// waitReport is what was told of a pod whose volumes cannot be processed.
type waitReport struct {
	failures  int       // looks at the pod in a row that found such a volume
	text      string    // last
	notBefore time.Time // not before
}

// reportWait lets it be known that a pod waits for volumes that cannot be processed: when a second look has found the same, and again
// when something else is to be told.
//
// Differs: upstream tells it again each 10 to 15 s, whether anything has changed or not.
//
// Upstream: pkg/kubelet SyncPod, by WaitForAttachAndMount, which gives up where a volume cannot be processed (v1.36).
func (m *Manager) reportWait(p *desiredPod) {
	if len(p.errors) == 0 {
		p.waitReport.failures = 0
		return
	}
	p.waitReport.failures++
	now := m.cfg.Process.Now()
	if m.cfg.WaitFailed == nil || p.waitReport.failures < 2 || now.Before(p.waitReport.notBefore) {
		return
	}
	why := m.waitError(p.pod, p.problems())
	if text := why.Error(); text != p.waitReport.text {
		p.waitReport.text, p.waitReport.notBefore = text, now.Add(waitReportPeriod)
		m.cfg.WaitFailed(p.pod.UID, why)
	}
}
