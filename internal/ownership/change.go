package ownership

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// When a slow change is reported to the pod.
//
// Upstream: pkg/volume firstEventReportDuration, progressReportDuration (v1.36).
const (
	firstReport = 30 * time.Second
	nextReport  = time.Minute
)

// reasonInProgress is the reason of the events.
//
// Upstream: pkg/kubelet/events VolumePermissionChangeInProgress.
const reasonInProgress = "VolumePermissionChangeInProgress"

// A Change changes the group of the files of one volume for a pod. All fields but Policy and
// Recorder are required.
type Change struct {
	Process  *sim.Process
	FS       nodefs.FS
	Volume   string // for the record: driver/handle
	Dir      string // where it is mounted for the pod
	Pod      *corev1.Pod
	Group    int64
	Policy   *corev1.PodFSGroupChangePolicy // nil: always
	ReadOnly bool
	Recorder record.EventRecorder // nil: no events
}

// Run changes the group of the files if that is necessary. It leaves the process meanwhile. After
// an error some files may have been changed; the directory itself is changed last. Call it in a
// task of the process.
//
// Upstream: pkg/volume VolumeOwnership.ChangePermissions (v1.36).
func (c Change) Run(ctx context.Context) error {
	if !NeedsChange(c.FS, c.Dir, c.Group, c.Policy, c.ReadOnly) {
		return nil
	}
	w := &progress{Change: c}
	if c.Recorder != nil {
		c.Process.Spawn("slow ownership of "+c.Dir, func(context.Context) { w.report() })
	}
	action := trace.Action{Kind: trace.KindDriver, Verb: "ChangeOwnership", Object: c.Volume}
	out := c.Process.Call(action, func() trace.Outcome {
		err := Apply(ctx, c.FS, c.Dir, c.Group, c.ReadOnly, &w.files)
		return trace.Outcome{Err: err, Detail: fmt.Sprintf("path=%s group=%d", c.Dir, c.Group)}
	})
	w.done = true
	w.doneSignal.Broadcast()
	return out.Err
}

// progress reports a slow change to the pod.
type progress struct {
	Change
	files      atomic.Int64
	done       bool
	doneSignal sim.Signal
}

func (w *progress) report() {
	over := func(within time.Duration) bool {
		return w.Process.WaitOn(&w.doneSignal, "ownership of "+w.Dir, within, func() bool { return w.done })
	}
	if over(firstReport) {
		return
	}
	w.event("Setting volume ownership for %s is taking longer than expected, consider using OnRootMismatch - "+
		"https://kubernetes.io/docs/tasks/configure-pod-container/security-context/"+
		"#configure-volume-permission-and-ownership-change-policy-for-pods", w.displayPath())
	for !over(nextReport) {
		w.event("Setting volume ownership for %s, processed %d files.", w.displayPath(), w.files.Load())
	}
}

func (w *progress) event(format string, args ...any) {
	w.Recorder.Event(w.Pod, corev1.EventTypeWarning, reasonInProgress, fmt.Sprintf(format, args...))
}

// displayPath returns the directory as shown in events: from the pod's UID on.
func (w *progress) displayPath() string {
	if i := strings.Index(w.Dir, string(w.Pod.UID)); i >= 0 {
		return w.Dir[i:]
	}
	return w.Dir
}
