package volumemanager_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// waited is the result of a wait, with its time.
type waited struct {
	At  time.Duration
	Err string
}

// wait starts a wait as a task of the kubelet; the result is available when the wait has ended.
func (w *world) wait(f func(context.Context) error) *waited {
	r := &waited{At: -1}
	w.kubelet.User("waits", func(ctx context.Context) {
		err := f(ctx)
		r.At = w.Host.Now().Sub(sim.Epoch)
		if err != nil {
			r.Err = err.Error()
		}
	})
	return r
}

func (w *world) waitMounted(pod *corev1.Pod) *waited {
	return w.wait(func(ctx context.Context) error { return w.manager.WaitForAttachAndMount(ctx, pod) })
}

func TestWaitForAttachAndMount(t *testing.T) {
	t.Parallel()
	uncertain := fault{call: "SetUp disk-1 a", err: errUncertain, after: true}
	tests := []struct {
		name   string
		world  func(w *world)
		claims []string
		want   waited
	}{
		{"all is mounted", func(w *world) { w.disk("disk-1"); w.attach("disk-1") }, []string{"disk-1"}, waited{0, ""}},
		{"a pod without volumes", func(*world) {}, nil, waited{0, ""}},
		{"a mount that is retried", func(w *world) {
			w.disk("disk-1")
			w.attach("disk-1")
			w.backend.faults = []fault{uncertain}
		}, []string{"disk-1"}, waited{500 * time.Millisecond, ""}},
		{"not attached", func(w *world) { w.disk("disk-1"); w.disk("disk-2"); w.attach("disk-2") }, []string{
			"disk-2",
			"disk-1",
		}, waited{
			123 * time.Second,
			"unmounted volumes=[disk-1], unattached volumes=[disk-1], failed to process volumes=[]: context deadline exceeded",
		}},
		{"attached, and not mounted", func(w *world) {
			w.disk("disk-1")
			w.attach("disk-1")
			for range 100 {
				w.backend.faults = append(w.backend.faults, uncertain)
			}
		}, []string{"disk-1"}, waited{
			123 * time.Second,
			"unmounted volumes=[disk-1], unattached volumes=[], failed to process volumes=[]: context deadline exceeded",
		}},
		{"claims that are not bound end the wait", func(w *world) {
			w.claim("b")
			w.claim("a")
			w.disk("disk-1")
		}, []string{"b", "a", "disk-1"}, waited{
			0, "unmounted volumes=[a b disk-1], unattached volumes=[disk-1], failed to process volumes=[a b]: " +
				"error processing PVC default/a: PVC is not bound; error processing PVC default/b: PVC is not bound",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			tt.world(w)
			got := w.waitMounted(newPod("a", tt.claims...))
			w.Until("the wait to end", func() bool { return got.At >= 0 })
			testcheck.Equal(w, "wait", tt.want, *got)
		})
	}
}

// TestRepeatedWaitSucceeds is a retry of upstream's pod worker.
func TestRepeatedWaitSucceeds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.claim("disk-1")
	w.attach("disk-1")
	first := w.waitMounted(newPod("a", "disk-1"))
	w.Until("the wait to end", func() bool { return first.At >= 0 })
	w.volume("disk-1", func(*corev1.PersistentVolume) {})
	w.bind("disk-1")
	second := w.waitMounted(newPod("a", "disk-1"))
	w.Run()
	if first.Err == "" {
		t.Error("the claim is not bound: want an error")
	}
	testcheck.Equal(w, "error of the second wait", "", second.Err)
	w.pod("a", true, true)
	w.quiet()
}

// TestWaitForUnmount also waits for uncertain mounts.
func TestWaitForUnmount(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	pod := newPod("a", "disk-1")
	for range 100 {
		w.backend.faults = append(w.backend.faults, fault{call: "TearDown disk-1 a", err: errUncertain, after: true})
	}
	w.remove("a")
	first := w.wait(func(ctx context.Context) error {
		err := w.manager.WaitForUnmount(ctx, pod)
		if !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("error %v, want the deadline's", err)
		}
		return err
	})
	w.Until("the wait to end", func() bool { return first.At >= 0 })
	testcheck.Equal(w, "first wait",
		waited{123 * time.Second, "mounted volumes=[example.com/shelf/disk-1]: context deadline exceeded"}, *first)
	w.backend.faults = nil
	second := w.wait(func(ctx context.Context) error { return w.manager.WaitForUnmount(ctx, pod) })
	w.Run()
	testcheck.Equal(w, "second wait's error", "", second.Err)
	w.pod("a", false, false)
	w.quiet()
}

// TestProcessingErrorsAreReported once, and not at the first look, which may have been unlucky; and
// again when there is something else to tell.
func TestProcessingErrorsAreReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.claim("disk-1")
	w.attach("disk-1")
	w.add("a", "disk-1")
	w.moveAll("volume populator")
	testcheck.Equal(w, "reported after one attempt", nil, w.waitErrors)
	w.Run()
	const words = "a: unmounted volumes=[disk-1], unattached volumes=[], failed to process volumes=[disk-1]: error processing PVC default/disk-1: "
	testcheck.Equal(w, "reported", []string{words + "PVC is not bound"}, w.waitErrors)
	w.pass(time.Hour)
	testcheck.Equal(w, "reported an hour later", []string{words + "PVC is not bound"}, w.waitErrors)
	w.bind("disk-1")
	w.pass(time.Second)
	testcheck.Equal(w, "reported when the claim is bound to a missing volume", []string{
		words + "PVC is not bound",
		words + `failed to fetch PV disk-1 from API server: persistentvolumes "disk-1" not found`,
	}, w.waitErrors)
	w.volume("disk-1", func(*corev1.PersistentVolume) {})
	w.Run()
	w.pod("a", true, true)
	testcheck.Equal(w, "number of reports", 2, len(w.waitErrors))
	w.quiet()
}
