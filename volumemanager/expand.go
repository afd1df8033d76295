package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/internal/resize"
	"github.com/volsim/volsim/plugins"
)

// notRequiredAnnotation, on a claim, says that a volume expanded by one node needs no expansion on
// others.
//
// Upstream: pkg/volume/util/types NodeExpansionNotRequired (v1.36).
const notRequiredAnnotation = "volume.kubernetes.io/node-expansion-not-required"

// A nodeSize is the size of a volume on this node, and the result of expanding it.
//
// Upstream: pkg/kubelet/volumemanager/cache ActualStateOfWorld: persistentVolumeSize,
// volumeInUseErrorForExpansion, volumesWithFinalExpansionErrors (v1.36).
type nodeSize struct {
	size    resource.Quantity // first as the claim's status says, then as expanded; zero: unknown
	inUse   bool              // the driver does not expand it while it is in use
	final   bool              // the last attempt failed with a final error
	settled bool              // nothing to do here until the claim changes
}

// observe updates the size from the API server. It keeps a known size, which is more accurate.
//
// Upstream: pkg/kubelet/volumemanager/cache ActualStateOfWorld.InitializeClaimSize (v1.36).
func (g *nodeSize) observe(v *desiredVolume) {
	g.settled = false
	if g.size.IsZero() {
		g.size = v.claimSize
	}
}

// needsExpansion reports whether the volume should be larger than it is here, and can be expanded.
//
// Differs: upstream asks the API server every 100 ms until the claim says that it is the node's
// turn.
//
// Upstream: pkg/kubelet/volumemanager/cache ActualStateOfWorld.volumeNeedsExpansion (v1.36).
func (v *desiredVolume) needsExpansion(actual *actualVolume) bool {
	g := &actual.nodeSize
	if g.inUse || g.settled || g.size.IsZero() || v.size.IsZero() || v.size.Cmp(g.size) <= 0 {
		return false
	}
	return actual.caps.NodeExpander != nil && actual.caps.NodeExpander.RequiresFSResize()
}

// expandOperation returns the operation that expands a volume through a pod. The pod must not use
// it read-only.
//
// Differs: upstream takes any pod, and reports every 100 ms that a read-only one is read-only.
//
// Upstream: pkg/volume/util/operationexecutor GenerateExpandInUseVolumeFunc (v1.36).
func (m *Manager) expandOperation(name corev1.UniqueVolumeName, pod types.UID) executor.Operation {
	want := m.desired.volumes[name].pods[pod]
	return executor.Operation{
		Key: executor.Key{Volume: name}, Name: opExpandInUse,
		Run: func(ctx context.Context) error { return m.expand(ctx, name, pod) },
		Done: func(_ executor.Outcome, err error) {
			if err != nil {
				m.cfg.Recorder.Event(want.pod, corev1.EventTypeWarning, reasonVolumeResizeFailed, err.Error())
			}
		},
	}
}

// expand expands a volume while a pod uses it.
func (m *Manager) expand(ctx context.Context, name corev1.UniqueVolumeName, pod types.UID) error {
	wanted, actual := m.desired.volumes[name], m.actual.volumes[name]
	if wanted == nil || actual == nil || !wanted.wantedBy(pod) || actual.mountState(pod) != mounted ||
		!wanted.needsExpansion(actual) {
		return nil
	}
	actual.lastPod = pod
	want := wanted.pods[pod]
	a := &expansion{m: m, actual: actual, want: want}
	a.options.NewSize, a.options.OldSize = wanted.size, actual.nodeSize.size
	done := false
	err := a.prepare(ctx)
	if err == nil {
		done, err = a.run(ctx)
	}
	if err != nil {
		return fmt.Errorf("NodeExpandVolume.NodeExpandVolume failed for volume %q : %w", want.spec.Name(), err)
	}
	a.finishAttempt(done)
	return nil
}

// expandAtMount expands a volume that has just been set up for a pod, if it is larger than its
// claim says. After an error the pod must not use it yet.
//
// Differs: upstream reads the claim at each mount; here only if the volume was larger than its
// claim at the last read. A mounted volume is not expanded here, but while it is in use.
//
// Upstream: pkg/volume/util/operationexecutor expandVolumeDuringMount (v1.36).
func (m *Manager) expandAtMount(ctx context.Context, actual *actualVolume, want desiredMount) error {
	expander, wanted := actual.caps.NodeExpander, m.desired.volumes[actual.name]
	if expander == nil || !expander.RequiresFSResize() || want.spec.PersistentVolume == nil || want.spec.Inline ||
		wanted == nil {
		return nil
	}
	capacity := want.spec.PersistentVolume.Spec.Capacity[corev1.ResourceStorage]
	if wanted.claimSeen == 0 || wanted.claimSize.Cmp(capacity) >= 0 {
		return nil
	}
	a := &expansion{m: m, actual: actual, want: want}
	if err := a.prepare(ctx); err != nil {
		return err
	}
	a.options.NewSize, a.options.OldSize = capacity, resize.Capacity(a.claim)
	if a.options.OldSize.Cmp(capacity) >= 0 {
		return nil
	}
	if want.spec.ReadOnly {
		text := fmt.Sprintf("MountVolume.NodeExpandVolume failed for volume %q requested read-only file system",
			want.spec.Name())
		m.cfg.Recorder.Event(want.pod, corev1.EventTypeWarning, reasonFileSystemResizeFailed, text)
		m.cfg.Recorder.Event(a.claim, corev1.EventTypeWarning, reasonFileSystemResizeFailed, text)
		return nil
	}
	done, err := a.run(ctx)
	if err == nil {
		a.finishAttempt(done)
	}
	return err
}

// An expansion is one attempt to expand a volume on this node.
//
// Upstream: pkg/volume/util/operationexecutor NodeExpander (v1.36).
type expansion struct {
	m       *Manager
	actual  *actualVolume
	want    desiredMount
	claim   *corev1.PersistentVolumeClaim // as last read or written
	options plugins.ExpandOptions
}

// prepare reads the claim.
func (a *expansion) prepare(ctx context.Context) error {
	ref := a.want.spec.PersistentVolume.Spec.ClaimRef
	claim, err := a.m.cfg.Client.CoreV1().PersistentVolumeClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("mountVolume.NodeExpandVolume get PVC failed : %w", err)
	}
	a.claim = claim
	a.options.Spec, a.options.Pod, a.options.DevicePath = a.want.spec, a.want.pod.UID, a.actual.devicePath
	return nil
}

// finishAttempt records the result of an attempt that did not fail. Nothing is left to do here
// until the claim changes, unless it has changed already.
func (a *expansion) finishAttempt(done bool) {
	g := &a.actual.nodeSize
	if done {
		g.size, g.final = a.options.NewSize, false
	}
	if wanted := a.m.desired.volumes[a.actual.name]; wanted != nil {
		g.settled = wanted.claimSeen <= revision(a.claim) && wanted.size.Cmp(g.size) > 0
	}
}

// run expands the volume as its claim allows. It returns false without an error if it is not this
// node's turn, or if the driver does not expand a volume in use.
func (a *expansion) run(ctx context.Context) (done bool, err error) {
	if !resize.Recoverable(a.claim) {
		return a.runOld(ctx)
	}
	if allocated := resize.Allocated(a.claim); !allocated.IsZero() {
		a.options.NewSize = allocated
	}
	status := resize.Status(a.claim)
	there := status == "" && a.claimHas(a.options.NewSize)
	everywhere := there && a.everyNodeExpands()
	if !everywhere && status != corev1.PersistentVolumeClaimNodeResizePending &&
		status != corev1.PersistentVolumeClaimNodeResizeInProgress {
		return there, nil
	}
	failsForGood := a.actual.nodeSize.final && a.requestChanged()
	if !there {
		progress := resize.WithStatus(a.claim, corev1.PersistentVolumeClaimNodeResizeInProgress)
		if a.claim, err = resize.Patch(ctx, a.m.cfg.Client, a.claim, progress, false); err != nil {
			return false, err
		}
	}
	switch err := a.actual.caps.NodeExpander.NodeExpand(ctx, a.options); {
	case err == nil:
	case errors.Is(err, plugins.ErrUnsupported) && there:
		return true, nil
	default:
		return false, a.recordFailure(ctx, err, failsForGood)
	}
	a.recordGrown()
	if there {
		return true, nil
	}
	return true, a.finish(ctx)
}

// runOld expands the volume where the resizer does not support recovery: whenever the claim's
// capacity is behind.
//
// Upstream: pkg/volume/util/operationexecutor legacyCallNodeExpandOnPlugin (v1.36).
func (a *expansion) runOld(ctx context.Context) (done bool, err error) {
	switch err := a.actual.caps.NodeExpander.NodeExpand(ctx, a.options); {
	case err == nil:
	case errors.Is(err, plugins.ErrUnsupported):
		return true, nil
	case errors.Is(err, plugins.ErrExpandInUse):
		a.actual.nodeSize.inUse = true
		return true, nil
	default:
		return false, err
	}
	a.recordGrown()
	if a.claimHas(a.options.NewSize) {
		return true, nil
	}
	return true, a.finish(ctx)
}

func (a *expansion) claimHas(size resource.Quantity) bool {
	has := resize.Capacity(a.claim)
	return has.Cmp(size) >= 0
}

// everyNodeExpands reports whether each node that uses the volume must expand it, also after
// another one did.
func (a *expansion) everyNodeExpands() bool {
	_, notRequired := a.claim.Annotations[notRequiredAnnotation]
	return !notRequired && slices.Contains(a.claim.Spec.AccessModes, corev1.ReadWriteMany)
}

// requestChanged reports whether the claim now requests another size than the one in progress.
func (a *expansion) requestChanged() bool {
	asked := a.claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return asked.Cmp(a.options.NewSize) != 0
}

// recordFailure records a final failure in the claim, and returns the error if it must be retried.
// A failure because the volume is in use is not retried.
//
// Differs: an error that leaves the result open is not recorded as final; upstream treats every
// error of a driver as final.
func (a *expansion) recordFailure(ctx context.Context, err error, forGood bool) error {
	if plugins.ClassOf(err) == plugins.Final {
		a.actual.nodeSize.final = true
		told := a.claim
		if errors.Is(err, plugins.ErrExpandInfeasible) || forGood {
			told = resize.WithStatus(told, corev1.PersistentVolumeClaimNodeResizeInfeasible)
		}
		told = resize.WithConditions(told, true, resize.Condition(corev1.PersistentVolumeClaimNodeResizeError,
			metav1.NewTime(a.m.cfg.Process.Now()), fmt.Sprintf("failed to expand pvc with %v", err)))
		if patched, patchErr := resize.Patch(ctx, a.m.cfg.Client, a.claim, told, true); patchErr == nil {
			a.claim = patched
		}
	}
	if errors.Is(err, plugins.ErrExpandInUse) {
		a.actual.nodeSize.inUse = true
		return nil
	}
	return err
}

func (a *expansion) recordGrown() {
	text := fmt.Sprintf("MountVolume.NodeExpandVolume succeeded for volume %q %s",
		a.want.spec.Name(), a.want.pod.Spec.NodeName)
	a.m.cfg.Recorder.Event(a.want.pod, corev1.EventTypeNormal, reasonFileSystemResizeSuccess, text)
	a.m.cfg.Recorder.Event(a.claim, corev1.EventTypeNormal, reasonFileSystemResizeSuccess, text)
}

// finish writes the new size into the claim.
func (a *expansion) finish(ctx context.Context) error {
	claim, err := resize.Patch(ctx, a.m.cfg.Client, a.claim, resize.Finished(a.claim, a.options.NewSize), false)
	if err != nil {
		return fmt.Errorf("mountVolume.NodeExpandVolume update pvc status failed: %w", err)
	}
	a.claim = claim
	return nil
}
