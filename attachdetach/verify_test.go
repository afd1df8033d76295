package attachdetach_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// verifier is a disk that verifies attachments. Its first answers are set by the test; later ones
// are correct.
type verifier struct {
	disk
	answers   []plugins.AttachState
	unwatched bool
}

func (v *verifier) Watched() bool { return !v.unwatched }

func (v *verifier) LastSeen(name string, node types.NodeName) plugins.AttachState {
	if v.b.attached[name][node] {
		return plugins.Attached
	}
	return plugins.Detached
}

func (v *verifier) Verify(
	_ context.Context, _ *plugins.Spec, name string, node types.NodeName,
) (plugins.AttachState, error) {
	var is plugins.AttachState
	v.c.Call(trace.Action{
		Kind: trace.KindDriver, Verb: "Verify",
		Object: name + " " + string(node),
	}, func() trace.Outcome {
		is = v.LastSeen(name, node)
		if len(v.answers) > 0 {
			is, v.answers = v.answers[0], v.answers[1:]
		}
		v.b.calls = append(v.b.calls,
			v.b.w.Host.Now().Sub(sim.Epoch).String()+" Verify "+name+" "+string(node)+": "+is.String())
		return trace.Outcome{}
	})
	return is, nil
}

// verifying starts the controller with a disk that verifies attachments.
func verifying(w *world, answers ...plugins.AttachState) {
	w.Helper()
	w.start(func(cfg *attachdetach.Config) {
		cfg.Plugins = &plugins.Manager{}
		w.NoError(cfg.Plugins.Register(&verifier{disk: disk{c: cfg.Process, b: w.backend}, answers: answers}))
	})
}

func verifiedWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, nil)
	w.node("node-1")
	w.node("node-2")
	w.disk("disk-1", rwo)
	return w
}

func TestCertainAttachmentIsNotVerified(t *testing.T) {
	t.Parallel()
	w := verifiedWorld(t)
	w.pod("a", "node-1", "disk-1")
	verifying(w)
	w.Run()
	w.deletePod("a")
	w.Run()
	w.quiet()
	testcheck.Equal(w, "calls", []string{"0s Attach disk-1 node-1", "0s Detach disk-1 node-1"}, w.backend.calls)
}

// TestUncertainAttachIsConfirmed makes an attach fail, and the next one succeed by a stale cache.
func TestUncertainAttachIsConfirmed(t *testing.T) {
	t.Parallel()
	w := verifiedWorld(t)
	w.pod("a", "node-1", "disk-1")
	w.backend.faults = []fault{{call: "Attach disk-1 node-1", err: errBroken}}
	verifying(w, plugins.Changing)
	w.Run()
	w.quiet()
	testcheck.Equal(w, "calls", []string{
		"0s Attach disk-1 node-1: broken", "500ms Attach disk-1 node-1", "500ms Verify disk-1 node-1: changing",
		"1.5s Attach disk-1 node-1", "1.5s Verify disk-1 node-1: attached",
	}, w.backend.calls)
}

// TestUncertainDetachIsConfirmed makes a detach fail, and the next one succeed before the volume is
// detached.
func TestUncertainDetachIsConfirmed(t *testing.T) {
	t.Parallel()
	w := verifiedWorld(t)
	w.pod("a", "node-1", "disk-1")
	verifying(w, plugins.Changing)
	w.Run()
	w.backend.faults = []fault{{call: "Detach disk-1 node-1", err: errBroken}}
	w.deletePod("a")
	w.pod("b", "node-2", "disk-1")
	w.Run()
	w.quiet()
	testcheck.Equal(w, "calls", []string{
		"0s Attach disk-1 node-1",
		"0s Detach disk-1 node-1: broken", "500ms Detach disk-1 node-1", "500ms Verify disk-1 node-1: changing",
		"1.5s Detach disk-1 node-1", "1.5s Verify disk-1 node-1: detached", "1.5s Attach disk-1 node-2",
	}, w.backend.calls)
}

func TestReportedVolumeThatIsNotAttachedIsAttachedAgain(t *testing.T) {
	t.Parallel()
	w := verifiedWorld(t)
	w.kubelet("node-1").dead = true
	w.status("node-1", "volumesAttached", []corev1.AttachedVolume{{Name: disk1}})
	w.pod("a", "node-1", "disk-1")
	verifying(w)
	w.Run()
	w.quiet()
	testcheck.Equal(w, "calls",
		[]string{"0s Attach disk-1 node-1", "0s Verify disk-1 node-1: attached"}, w.backend.calls)
}

func TestVolumeDetachedByAnotherClientIsAttachedAgain(t *testing.T) {
	t.Parallel()
	w := verifiedWorld(t)
	w.attachment("disk-1", "node-1")
	w.pod("a", "node-1", "disk-1")
	verifying(w)
	w.Run()
	w.backend.calls = nil
	delete(w.backend.attached["disk-1"], "node-1")
	w.NoError(w.User.StorageV1().VolumeAttachments().Delete(context.Background(),
		"disk-1.node-1", metav1.DeleteOptions{}))
	w.Run()
	w.quiet()
	testcheck.Equal(w, "calls",
		[]string{"0s Attach disk-1 node-1", "0s Verify disk-1 node-1: attached"}, w.backend.calls)
}

func TestAttachmentThatAppearsLateIsDetached(t *testing.T) {
	t.Parallel()
	t.Run("the attachment", func(t *testing.T) {
		t.Parallel()
		w := verifiedWorld(t)
		verifying(w)
		w.Run()
		w.attachment("disk-1", "node-1")
		w.Run()
		w.quiet()
		testcheck.Equal(w, "calls",
			[]string{"0s Detach disk-1 node-1", "0s Verify disk-1 node-1: detached"}, w.backend.calls)
	})
	t.Run("its volume", func(t *testing.T) {
		t.Parallel()
		w := verifiedWorld(t)
		w.attachment("disk-2", "node-1")
		verifying(w)
		w.Run()
		w.disk("disk-2", rwo)
		w.Run()
		w.quiet()
		testcheck.Equal(w, "calls",
			[]string{"0s Detach disk-2 node-1", "0s Verify disk-2 node-1: detached"}, w.backend.calls)
	})
}

// TestStaleReportIsNotWrittenAgain has a volume of a node's stale list that is not attached, and
// another that is removed from the list.
func TestStaleReportIsNotWrittenAgain(t *testing.T) {
	t.Parallel()
	w := verifiedWorld(t)
	w.kubelet("node-1").dead = true
	w.disk("disk-2", rwo)
	w.backend.attached["disk-1"] = map[types.NodeName]bool{"node-1": true}
	disk2 := plugins.UniqueVolumeName(diskName, "disk-2")
	w.status("node-1", "volumesAttached", []corev1.AttachedVolume{{Name: disk1}, {Name: disk2}})
	w.pod("a", "node-1", "disk-2")
	verifying(w)
	w.Until("the first list", func() bool { return len(w.attachedIn("node-1")) < 2 })
	testcheck.Equal(w, "volumes attached", []string{string(disk1) + "="}, w.attachedIn("node-1"))
	w.Run()
	w.quiet()
}

// TestVolumeDetachedByAnotherClientDuringAnOperation deletes the attachment to one node while that
// to another is detached.
func TestVolumeDetachedByAnotherClientDuringAnOperation(t *testing.T) {
	t.Parallel()
	w := verifiedWorld(t)
	w.attachment("disk-1", "node-1")
	w.pod("a", "node-1", "disk-1")
	verifying(w)
	w.Run()
	w.backend.calls = nil
	w.attachment("disk-1", "node-2")
	w.Until("a detach", func() bool { return len(w.backend.calls) == 1 })
	delete(w.backend.attached["disk-1"], "node-1")
	w.NoError(w.User.StorageV1().VolumeAttachments().Delete(context.Background(),
		"disk-1.node-1", metav1.DeleteOptions{}))
	w.Run()
	w.quiet()
	testcheck.Equal(w, "calls", []string{
		"0s Detach disk-1 node-2", "0s Verify disk-1 node-2: detached", "0s Attach disk-1 node-1",
		"0s Verify disk-1 node-1: attached",
	}, w.backend.calls)
}

// A plugin without VolumeAttachments is asked each minute.
func TestUnwatchedVolumeIsVerifiedEachMinute(t *testing.T) {
	t.Parallel()
	w := verifiedWorld(t)
	w.pod("a", "node-1", "disk-1")
	w.start(func(cfg *attachdetach.Config) {
		cfg.Plugins = &plugins.Manager{}
		w.NoError(cfg.Plugins.Register(&verifier{
			disk: disk{c: cfg.Process, b: w.backend}, unwatched: true,
			answers: []plugins.AttachState{plugins.Attached, plugins.Detached, plugins.Attached},
		}))
	})
	w.Until("the third verification", func() bool { return len(w.backend.calls) == 5 })
	w.Until("the end of the operation",
		func() bool { return w.controller.Actual().State(disk1, "node-1") == attachdetach.Attached })
	testcheck.Equal(w, "calls", []string{
		"0s Attach disk-1 node-1", "1m0s Verify disk-1 node-1: attached", "2m0s Verify disk-1 node-1: detached",
		"2m0s Attach disk-1 node-1", "2m0s Verify disk-1 node-1: attached",
	}, w.backend.calls)
}

func TestVerifyCanBeDisabled(t *testing.T) {
	t.Parallel()
	w := verifiedWorld(t)
	w.pod("a", "node-1", "disk-1")
	w.start(func(cfg *attachdetach.Config) {
		cfg.VerifyPeriod = -1
		cfg.Plugins = &plugins.Manager{}
		w.NoError(cfg.Plugins.Register(&verifier{disk: disk{c: cfg.Process, b: w.backend}, unwatched: true}))
	})
	w.Run()
	testcheck.Equal(w, "calls", []string{"0s Attach disk-1 node-1"}, w.backend.calls)
}

// TestAbsentPluginIsAskedAgain removes the plugin while it should be asked.
func TestAbsentPluginIsAskedAgain(t *testing.T) {
	t.Parallel()
	w := verifiedWorld(t)
	w.pod("a", "node-1", "disk-1")
	w.start(func(cfg *attachdetach.Config) {
		manager := &plugins.Manager{}
		v := &verifier{disk: disk{c: cfg.Process, b: w.backend}, unwatched: true}
		cfg.Plugins = manager
		w.NoError(manager.Put(v))
		cfg.Process.NewTimer("away", func() { manager.Remove(diskName) }).Reset(30 * time.Second)
		cfg.Process.Spawn("back", func(context.Context) {
			cfg.Process.Sleep(90 * time.Second)
			cfg.Process.Call(trace.Action{Kind: trace.KindDriver, Verb: "Probe"},
				func() trace.Outcome { return trace.Outcome{} })
			w.NoError(manager.Put(v))
		})
	})
	w.Until("a verification", func() bool { return len(w.backend.calls) == 2 })
	testcheck.Equal(w, "calls",
		[]string{"0s Attach disk-1 node-1", "2m30s Verify disk-1 node-1: attached"}, w.backend.calls)
}
