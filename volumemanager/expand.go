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

// notRequiredAnnotation, on a claim, says that nodes need not follow when its volume has grown.
//
// Upstream: pkg/volume/util/types NodeExpansionNotRequired (v1.36).
const notRequiredAnnotation = "volume.kubernetes.io/node-expansion-not-required"

// nodeSize is how large a volume is on this node, and what became of making it larger.
//
// Upstream: pkg/kubelet/volumemanager/cache ActualStateOfWorld: persistentVolumeSize, volumeInUseErrorForExpansion,
// volumesWithFinalExpansionErrors (v1.36).
type nodeSize struct {
	size    resource.Quantity // as its claim said first, or as it was grown to; zero: not known
	inUse   bool              // the driver does not grow it while it is in use
	final   bool              // the last attempt failed for good
	settled bool              // it is nobody's turn here, until the claim says something new
}

// observe notes what is known from the API server. A size that is known already is better known here.
//
// Upstream: pkg/kubelet/volumemanager/cache ActualStateOfWorld.InitializeClaimSize (v1.36).
func (g *nodeSize) observe(v *desiredVolume) {
	g.settled = false
	if g.size.IsZero() {
		g.size = v.claimSize
	}
}

// needsExpansion tells whether the volume is to be larger than it is here, and can be made so.
//
// Differs: upstream asks the API server again every 100 ms as long as the claim does not say that it is the node's turn.
//
// Upstream: pkg/kubelet/volumemanager/cache ActualStateOfWorld.volumeNeedsExpansion (v1.36).
func (v *desiredVolume) needsExpansion(actual *actualVolume) bool {
	g := &actual.nodeSize
	if g.inUse || g.settled || g.size.IsZero() || v.size.IsZero() || v.size.Cmp(g.size) <= 0 {
		return false
	}
	return actual.caps.NodeExpander != nil && actual.caps.NodeExpander.RequiresFSResize()
}

// expandOperation grows a volume that a pod has. Of the pods that have it those that only read it do not grow it.
//
// Differs: upstream takes any pod; one that only reads is told each 100 ms that it does.
//
// Upstream: pkg/volume/util/operationexecutor GenerateExpandInUseVolumeFunc (v1.36).
func (m *Manager) expandOperation(name corev1.UniqueVolumeName, pod types.UID) executor.Operation {
	want := m.desired.volumes[name].pods[pod]
	return executor.Operation{
		Key: executor.Key{Volume: name}, Name: executor.ExpandInUse,
		Run: func(ctx context.Context) error { return m.expand(ctx, name, pod) },
		Done: func(_ executor.Outcome, err error) {
			if err != nil {
				m.cfg.Recorder.Event(want.pod, corev1.EventTypeWarning, reasonVolumeResizeFailed, err.Error())
			}
		},
	}
}

// expand grows a volume while a pod uses it.
func (m *Manager) expand(ctx context.Context, name corev1.UniqueVolumeName, pod types.UID) error {
	wanted, actual := m.desired.volumes[name], m.actual.volumes[name]
	if wanted == nil || actual == nil || !wanted.wantedBy(pod) || actual.mountState(pod) != mounted || !wanted.needsExpansion(actual) {
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

// expandAtMount grows a volume that has just been set up for a pod, if it is larger than its claim says. The error is a
// reason not to let the pod use it yet.
//
// Differs: upstream reads the claim at each mount; here only if the volume was larger than its claim said when they were read
// last. What a pod has already is not looked at: it grows while it is used.
//
// Upstream: pkg/volume/util/operationexecutor expandVolumeDuringMount (v1.36).
func (m *Manager) expandAtMount(ctx context.Context, actual *actualVolume, want desiredMount) error {
	expander, wanted := actual.caps.NodeExpander, m.desired.volumes[actual.name]
	if expander == nil || !expander.RequiresFSResize() || want.spec.PersistentVolume == nil || want.spec.Inline || wanted == nil {
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
		text := fmt.Sprintf("MountVolume.NodeExpandVolume failed for volume %q requested read-only file system", want.spec.Name())
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

// expansion is one attempt to grow a volume on this node.
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

// finishAttempt notes what came of an attempt that did not fail. Nothing is left to do here before the claim says something new, unless
// it has already.
func (a *expansion) finishAttempt(done bool) {
	g := &a.actual.nodeSize
	if done {
		g.size, g.final = a.options.NewSize, false
	}
	if wanted := a.m.desired.volumes[a.actual.name]; wanted != nil {
		g.settled = wanted.claimSeen <= revision(a.claim) && wanted.size.Cmp(g.size) > 0
	}
}

// run grows the volume as its claim allows. It returns false, and no error, where it is not this node's turn, or the driver
// does not grow what is in use.
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
	if !everywhere && status != corev1.PersistentVolumeClaimNodeResizePending && status != corev1.PersistentVolumeClaimNodeResizeInProgress {
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

// runOld grows the volume where the resizer is an old one: whenever the claim's capacity is behind.
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

// everyNodeExpands tells whether each node that uses the volume has to grow it, also after another one did.
func (a *expansion) everyNodeExpands() bool {
	_, notRequired := a.claim.Annotations[notRequiredAnnotation]
	return !notRequired && slices.Contains(a.claim.Spec.AccessModes, corev1.ReadWriteMany)
}

// requestChanged tells whether somebody wants another size meanwhile than the one that is being made.
func (a *expansion) requestChanged() bool {
	asked := a.claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return asked.Cmp(a.options.NewSize) != 0
}

// recordFailure says in the claim what has failed for good, and returns what is to be tried again. What fails as long as the volume
// is used is not.
//
// Differs: an error that leaves open what became of the volume is not told as final; upstream takes each error of a driver
// for final.
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
	text := fmt.Sprintf("MountVolume.NodeExpandVolume succeeded for volume %q %s", a.want.spec.Name(), a.want.pod.Spec.NodeName)
	a.m.cfg.Recorder.Event(a.want.pod, corev1.EventTypeNormal, reasonFileSystemResizeSuccess, text)
	a.m.cfg.Recorder.Event(a.claim, corev1.EventTypeNormal, reasonFileSystemResizeSuccess, text)
}

// finish says in the claim how large its volume is now.
func (a *expansion) finish(ctx context.Context) error {
	claim, err := resize.Patch(ctx, a.m.cfg.Client, a.claim, resize.Finished(a.claim, a.options.NewSize), false)
	if err != nil {
		return fmt.Errorf("mountVolume.NodeExpandVolume update pvc status failed: %w", err)
	}
	a.claim = claim
	return nil
}
