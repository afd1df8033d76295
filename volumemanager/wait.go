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

// waitTimeout is how long a pod waits for its volumes before the reason is determined.
//
// Upstream: pkg/kubelet/volumemanager podAttachAndMountTimeout (v1.36).
const waitTimeout = 2*time.Minute + 3*time.Second

// waitReportPeriod is the minimum interval between two reports about a pod whose volumes cannot be
// processed.
//
// Upstream: pkg/kubelet backOffPeriod (v1.36), without its jitter.
const waitReportPeriod = 10 * time.Second

// A waitError lists the volumes of a pod that are not mounted when a wait has ended, by their names
// in the pod, sorted.
//
// Upstream: pkg/kubelet/volumemanager WaitForAttachAndMount (v1.36).
type waitError struct {
	Unmounted   []string // of the volumes that containers use
	Unattached  []string // of these
	Unprocessed []string // those not resolved yet
	Err         error    // why the wait ended: context.DeadlineExceeded, or why volumes could not be processed
}

// Error returns upstream's text.
func (e *waitError) Error() string {
	return fmt.Sprintf("unmounted volumes=%v, unattached volumes=%v, failed to process volumes=%v: %v",
		e.Unmounted, e.Unattached, e.Unprocessed, e.Err)
}

// Unwrap returns why the wait ended.
func (e *waitError) Unwrap() error { return e.Err }

// An unmountError lists the volumes that a pod still has, or may have, when a wait for their
// unmount has ended.
//
// Upstream: pkg/kubelet/volumemanager WaitForUnmount (v1.36).
type unmountError struct {
	Mounted []corev1.UniqueVolumeName // sorted
	Err     error                     // why the wait ended
}

// Error returns upstream's text.
func (e *unmountError) Error() string { return fmt.Sprintf("mounted volumes=%v: %v", e.Mounted, e.Err) }

// Unwrap returns why the wait ended.
func (e *unmountError) Unwrap() error { return e.Err }

// WaitForAttachAndMount adds the pod, as AddPod does, and returns when all volumes that its
// containers use are mounted. It is a suspension point. It gives up after 2m3s, or as soon as a
// volume cannot be processed. The error is then a *WaitError, or a *LimitError for a pod that
// cannot run here. The work continues nevertheless, and a later wait may find the volumes mounted.
//
// Differs: upstream polls every 300 ms; here waiting tasks are notified. ctx is checked only then.
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

// WaitForUnmount returns when nothing of the pod is mounted any more. RemovePod must have been
// called. It is a suspension point. After 2m3s it gives up with an *UnmountError.
//
// Differs: upstream's ignores uncertain mounts.
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
	return &unmountError{Mounted: m.actual.volumesOf(pod.UID), Err: err}
}

// await waits until done returns true. It fails after waitTimeout, or if volumes cannot be
// processed.
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
	ended := m.cfg.Process.WaitOn(news,
		fmt.Sprintf("volumes of %s/%s to be %s", pod.Namespace, pod.Name, what), waitTimeout, over)
	if !news.HasWaiters() {
		delete(m.signals, pod.UID)
	}
	if !ended {
		return context.DeadlineExceeded
	}
	return failed
}

// notify wakes the waits for a pod: it may have become mounted or unmounted, or a volume of it
// could not be processed.
func (m *Manager) notify(uid types.UID) {
	if news := m.signals[uid]; news != nil {
		news.Broadcast()
	}
}

// popPodErrors returns PopPodErrors as one error.
func (m *Manager) popPodErrors(uid types.UID) error {
	if errs := m.PopPodErrors(uid); len(errs) > 0 {
		return errors.New(strings.Join(errs, "; "))
	}
	return nil
}

// problems returns why volumes of the pod could not be processed.
func (p *desiredPod) problems() error {
	errs := slices.Compact(slices.Sorted(maps.Values(p.errors)))
	return errors.New(strings.Join(errs[:min(len(errs), errorsMax)], "; "))
}

// usedVolumes returns the names of the volumes that containers of the pod use.
func usedVolumes(pod *corev1.Pod) sets.Set[string] {
	p := desiredPod{pod: pod, mounts: sets.New[string](), devices: sets.New[string]()}
	p.useVolumes()
	return p.wanted
}

// waitError returns the current state of the volumes of a pod as an error.
func (m *Manager) waitError(pod *corev1.Pod, why error) *waitError {
	e := &waitError{Unattached: []string{}, Unmounted: []string{}, Unprocessed: []string{}, Err: why}
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

// unattached returns the volumes of a pod that are not attached, by their names in the pod, sorted.
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

// volumesOf returns the volumes that a pod has, or may have, sorted.
func (a *actualState) volumesOf(pod types.UID) []corev1.UniqueVolumeName {
	var names []corev1.UniqueVolumeName
	for _, v := range a.podVolumes[pod] {
		names = append(names, v.name)
	}
	slices.Sort(names)
	return names
}

// A waitReport is what was reported of a pod whose volumes cannot be processed.
type waitReport struct {
	failures  int       // consecutive attempts that found such a volume
	text      string    // of the last report
	notBefore time.Time // time of the next report at the earliest
}

// reportWait reports a pod that waits for volumes that cannot be processed: after the second
// consecutive failure, and again when the reason changes.
//
// Differs: upstream reports every 10 to 15 s, even without a change.
//
// Upstream: pkg/kubelet SyncPod, by WaitForAttachAndMount, which gives up where a volume cannot be
// processed (v1.36).
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
