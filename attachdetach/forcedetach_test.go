package attachdetach_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/attachdetach"
)

// deadNode is a world in which node-1 has stopped, with disk-1 mounted, and pod a was moved to node-2.
func deadNode(t *testing.T, configure ...func(*attachdetach.Config)) *world {
	t.Helper()
	w := oneNode(t, configure...)
	w.node("node-2")
	w.kubelet("node-1").dead = true
	w.ready("node-1", corev1.ConditionUnknown)
	w.deletePod("a")
	w.pod("b", "node-2", "disk-1")
	return w
}

func noForce(cfg *attachdetach.Config) { cfg.DisableForceDetach = true }

func taint(w *world) {
	node := w.nodeNow("node-1").DeepCopy()
	node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
	_, err := w.user.CoreV1().Nodes().Update(context.Background(), node, metav1.UpdateOptions{})
	w.must(err)
}

func TestForceDetach(t *testing.T) {
	t.Parallel()
	attached := "0s Attach disk-1 node-1"
	for _, test := range []struct {
		name      string
		configure func(*attachdetach.Config)
		then      func(w *world)
		want      []string
	}{{
		name: "after six minutes from a node that is not ready",
		want: []string{attached, "6m0s Detach disk-1 node-1", "6m0s Attach disk-1 node-2"},
	}, {
		name:      "after another time if so configured",
		configure: func(cfg *attachdetach.Config) { cfg.MaxWaitForUnmount = minute },
		want:      []string{attached, "1m0s Detach disk-1 node-1", "1m0s Attach disk-1 node-2"},
	}, {
		name: "never from a node that is ready",
		then: func(w *world) { w.ready("node-1", corev1.ConditionTrue) },
		want: []string{attached},
	}, {
		name: "from a node that stops being ready later",
		then: func(w *world) {
			w.ready("node-1", corev1.ConditionTrue)
			w.run()
			w.host.SetTime(w.host.Now().Add(minute))
			w.ready("node-1", corev1.ConditionFalse)
		},
		want: []string{attached, "7m0s Detach disk-1 node-1", "7m0s Attach disk-1 node-2"},
	}, {
		name: "never from a node that turns out to be ready after all",
		then: func(w *world) { w.beforeGet = func() { w.ready("node-1", corev1.ConditionTrue) } },
		want: []string{attached},
	}, {
		name:      "not when disabled",
		configure: noForce,
		want:      []string{attached},
	}, {
		name: "at once from a node out of service",
		then: taint,
		want: []string{attached, "0s Detach disk-1 node-1", "0s Attach disk-1 node-2"},
	}, {
		name:      "from a node out of service even when disabled",
		configure: noForce,
		then:      taint,
		want:      []string{attached, "0s Detach disk-1 node-1", "0s Attach disk-1 node-2"},
	}, {
		name: "after six minutes from a node that is gone",
		then: func(w *world) {
			w.must(w.user.CoreV1().Nodes().Delete(context.Background(), "node-1", metav1.DeleteOptions{}))
		},
		want: []string{attached, "6m0s Detach disk-1 node-1", "6m0s Attach disk-1 node-2"},
	}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			configure := test.configure
			if configure == nil {
				configure = func(*attachdetach.Config) {}
			}
			w := deadNode(t, configure)
			if test.then != nil {
				test.then(w)
			}
			w.run()
			w.same("calls", test.want, w.backend.calls)
			w.same("what must not happen", nil, w.backend.wrong)
			w.same("strands waiting", nil, w.host.Waiting())
		})
	}
}

// The clock of an unmount stops when the volume is wanted again.
func TestVolumeThatWasWantedAgainHasItsSixMinutesAnew(t *testing.T) {
	t.Parallel()
	w := oneNode(t)
	w.kubelet("node-1").dead = true
	w.ready("node-1", corev1.ConditionUnknown)
	w.deletePod("a")
	w.until("the clock runs", func() bool { return !w.controller.Actual().Attachments(disk1)[0].DetachRequested.IsZero() })
	w.host.SetTime(w.host.Now().Add(5 * minute))
	w.pod("b", "node-1", "disk-1")
	w.until("the clock stands", func() bool { return w.controller.Actual().Attachments(disk1)[0].DetachRequested.IsZero() })
	w.deletePod("b")
	w.run()
	w.same("calls", []string{"0s Attach disk-1 node-1", "11m0s Detach disk-1 node-1"}, w.backend.calls)
}
