package upstreamad_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/volume/attachdetach/cache"
	"k8s.io/kubernetes/pkg/volume"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/test/conformance/histories"
)

// The tests of this file show faults of upstream's controller. TestUpstreamsFaults of package
// explore shows the same faults in a variant of ours, and that ours does not have them.

// detachFails makes all detach calls fail.
func detachFails(_ *storagev1.VolumeAttachment, attach bool) bool { return !attach }

// settle lets the controller come to rest. The period of its loop is 100 ms, and it polls for up to
// seven seconds.
func settle() { time.Sleep(20 * time.Second) }

// kubernetes#71276.
func TestUpstreamAttachesElsewhereAfterAFailedDetach(t *testing.T) {
	run(t, detachFails, func(w *world) {
		w.volume("v", driver, "v")
		w.pod("web", "n1", "v")
		defer w.start(nil)()
		settle()
		w.remove("web")
		w.pod("next", "n2", "v")
		settle()
		w.wantAttachments("upstream attaches a single-node volume to a second node", "v n1 deleting", "v n2")
	})
}

// kubernetes#120595.
func TestUpstreamAttachesElsewhereAVolumeInUse(t *testing.T) {
	run(t, neverFails, func(w *world) {
		var lagging atomic.Bool
		w.volume("v", driver, "v")
		w.pod("web", "n1", "v")
		defer w.start(delayNodes(&lagging))()
		settle()
		lagging.Store(true)
		w.reportInUse("n1", "v")
		w.remove("web")
		w.pod("next", "n2", "v")
		settle()
		w.wantAttachments("upstream attaches a volume to a second node while the first one has mounted it", "v n1", "v n2")
	})
}

// delayNodes drops the events of nodes while lagging is set.
func delayNodes(lagging *atomic.Bool) histories.Interceptor {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if histories.Is(r, "watch", "nodes") && lagging.Load() {
			return nil, errDropped
		}
		return serve()
	}
}

// kubernetes#75213.
func TestUpstreamResetsAlternatingBackOffs(t *testing.T) {
	fails := func(a *storagev1.VolumeAttachment, attach bool) bool { return !attach || a.Spec.NodeName == "n2" }
	run(t, fails, func(w *world) {
		var detaches atomic.Int32
		w.volume("v", driver, "v")
		w.pod("web", "n1", "v")
		defer w.start(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if histories.Is(r, "delete", "volumeattachments") {
				detaches.Add(1)
			}
			return serve()
		})()
		settle()
		w.remove("web")
		w.pod("next", "n2", "v")
		time.Sleep(2 * time.Minute)
		// With a back-off of 500 ms that doubles, there would be 8.
		if n := detaches.Load(); n < 50 {
			w.Errorf("%d detach attempts in two minutes, want at least 50: upstream's back-off does not grow", n)
		}
	})
}

func TestUpstreamCannotDetachAHandleWithASeparator(t *testing.T) {
	run(t, neverFails, func(w *world) {
		w.volume("v", driver, "a^b")
		w.pod("web", "n1", "v")
		defer w.start(nil)()
		settle()
		w.remove("web")
		time.Sleep(10 * time.Minute)
		w.wantAttachments("upstream never detaches the volume", "v n1")
	})
}

func TestUpstreamForcesADetachWithoutCheckingTheNode(t *testing.T) {
	run(t, neverFails, func(w *world) {
		var lagging atomic.Bool
		w.volume("v", driver, "v")
		w.pod("web", "n1", "v")
		defer w.start(delayNodes(&lagging))()
		settle()
		w.reportInUse("n1", "v")
		w.status("n1", `{"conditions":[{"type":"Ready","status":"Unknown"}]}`)
		settle()
		w.remove("web")
		time.Sleep(5 * time.Minute)
		w.wantAttachments("upstream waits for a node that is not ready", "v n1")
		lagging.Store(true)
		w.status("n1", `{"conditions":[{"type":"Ready","status":"True"}]}`)
		time.Sleep(2 * time.Minute)
		w.wantAttachments("upstream detaches a volume from a ready node that uses it")
	})
}

// TestUpstreamDetachesAVolumeReportedAsAttached shows that a patch computed from a stale Node does
// not remove the volume from its status.
func TestUpstreamDetachesAVolumeReportedAsAttached(t *testing.T) {
	run(t, neverFails, func(w *world) {
		var lagging atomic.Bool
		var once sync.Once
		w.volume("v", driver, "v")
		w.pod("web", "n1", "v")
		defer w.start(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if histories.Is(r, "patch", "nodes") {
				once.Do(func() { // the kubelet writes the status, and then the cache lags
					w.status("n1", `{"conditions":[{"type":"Ready","status":"True","message":"heartbeat"}]}`)
					time.Sleep(10 * time.Millisecond)
					lagging.Store(true)
				})
			}
			return delayNodes(&lagging)(r, serve)
		})()
		settle()
		w.wantAttachments("the volume is attached", "v n1")
		w.remove("web")
		settle()
		w.wantAttachments("the volume is detached")
		if got := w.listed("n1"); !slices.Equal(got, []string{unique("v")}) {
			w.Errorf("listed as attached: %q, want v: upstream detaches without removing it", got)
		}
	})
}

// delayAttachments answers lists without VolumeAttachments and drops their events.
func delayAttachments(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
	obj, err := serve()
	if err != nil {
		return nil, err
	}
	switch {
	case histories.Is(r, "list", "volumeattachments"):
		obj = obj.DeepCopyObject()
		obj.(*storagev1.VolumeAttachmentList).Items = nil
	case histories.Is(r, "watch", "volumeattachments"):
		if a, ok := obj.(*storagev1.VolumeAttachment); ok && a.Name != "" { // not a bookmark
			return nil, errDropped
		}
	}
	return obj, nil
}

func TestUpstreamStartsFromAStaleListOfAttachments(t *testing.T) {
	run(t, neverFails, func(w *world) {
		w.volume("v", driver, "v")
		w.pod("web", "n1", "v")
		stop := w.start(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if histories.Is(r, "patch", "nodes") {
				return nil, errDropped // the node's status stays without the volume
			}
			return serve()
		})
		settle()
		stop()
		w.wantAttachments("the volume is attached", "v n1")
		w.remove("web")
		w.pod("next", "n2", "v")
		defer w.start(delayAttachments)()
		settle()
		w.wantAttachments("upstream attaches a single-node volume to a second node", "v n1", "v n2")
	})
}

// TestUpstreamDetachesVolumesOneByOne deletes a pod's claims before the pod.
func TestUpstreamDetachesVolumesOneByOne(t *testing.T) {
	run(t, neverFails, func(w *world) {
		names := []string{"a", "b", "c", "d"}
		for _, name := range names {
			w.volume(name, driver, name)
		}
		w.pod("web", "n1", names...)
		defer w.start(nil)()
		settle()
		for _, name := range names {
			_, err := w.user.CoreV1().PersistentVolumeClaims("default").
				Patch(w.ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			w.must(err)
			w.must(w.user.CoreV1().PersistentVolumeClaims("default").Delete(w.ctx, name, metav1.DeleteOptions{}))
		}
		settle()
		w.remove("web")
		before := len(w.attachments())
		for minute := 1; minute <= 3; minute++ {
			time.Sleep(time.Minute)
			after := len(w.attachments())
			if after == 0 || before-after > 1 {
				w.Errorf("%d attachments, and %d a minute later: upstream detaches one a minute", before, after)
			}
			before = after
		}
	})
}

// TestUpstreamReportsADetachedVolume loses the answer to a detach while the cache lags.
func TestUpstreamReportsADetachedVolume(t *testing.T) {
	run(t, neverFails, func(w *world) {
		var lagging atomic.Bool
		w.volume("v", driver, "v")
		w.pod("web", "n1", "v")
		defer w.start(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			switch {
			case histories.Is(r, "watch", "volumeattachments") && lagging.Load():
				return nil, errDropped
			case histories.Is(r, "delete", "volumeattachments"):
				lagging.Store(true)
				if _, err := serve(); err != nil {
					return nil, err
				}
				return nil, errDropped
			}
			return serve()
		})()
		settle()
		w.remove("web")
		time.Sleep(200 * time.Millisecond) // one detach attempt was made
		w.pod("next", "n1", "v")
		settle()
		w.wantAttachments("the volume is detached")
		if got := w.listed("n1"); !slices.Equal(got, []string{unique("v")}) {
			w.Errorf("listed as attached: %q, want v: upstream reports a detached volume as attached", got)
		}
	})
}

// TestUpstreamForgetsAnAttachmentAfterAReadError shows that the periodic verification of
// attachments treats an unreadable one as detached.
func TestUpstreamForgetsAnAttachmentAfterAReadError(t *testing.T) {
	run(t, neverFails, func(w *world) {
		var once sync.Once
		w.volume("v", driver, "v")
		w.pod("web", "n1", "v")
		stop := w.start(nil)
		settle()
		stop()
		// After a restart, the node's status has the volume, and the cache does not have the
		// attachment.
		defer w.start(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if histories.Is(r, "get", "volumeattachments") {
				once.Do(func() {
					w.remove("web")
					time.Sleep(10 * time.Millisecond) // until its cache has seen it
				})
				return nil, errDropped
			}
			return delayAttachments(r, serve)
		})()
		time.Sleep(10 * time.Minute)
		if _, exists := w.server.Get("pods", "default", "web"); exists {
			w.Error("upstream did not verify the attachment")
		}
		w.wantAttachments("upstream never detaches the volume", "v n1")
	})
}

// kubernetes#117042.
func TestUpstreamTreatsAFailedAttachmentAsMounted(t *testing.T) {
	fails := func(_ *storagev1.VolumeAttachment, attach bool) bool { return attach }
	run(t, fails, func(w *world) {
		w.volume("v", driver, "v")
		w.pod("web", "n1", "v")
		defer w.start(nil)()
		settle()
		w.remove("web")
		time.Sleep(5 * time.Minute)
		w.wantAttachments("for six minutes upstream does not detach a volume that was never attached", "v n1")
	})
}

// TestUpstreamDetachesAVolumeThatAPodNeedsAgain creates a pod while the volume is removed from the
// node's status.
func TestUpstreamDetachesAVolumeThatAPodNeedsAgain(t *testing.T) {
	run(t, neverFails, func(w *world) {
		w.volume("v", driver, "v")
		w.pod("web", "n1", "v")
		removed := false
		var once sync.Once
		defer w.start(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if histories.Is(r, "patch", "nodes") && removed {
				once.Do(func() {
					w.pod("next", "n1", "v")
					time.Sleep(10 * time.Millisecond) // until its cache has seen it
				})
			}
			return serve()
		})()
		settle()
		first := w.server.List("volumeattachments")[0].GetUID()
		removed = true
		w.remove("web")
		settle()
		w.wantAttachments("the volume is attached", "v n1")
		if w.server.List("volumeattachments")[0].GetUID() == first {
			w.Errorf("same attachment, want another: upstream detaches a volume that a pod needs")
		}
	})
}

// TestUpstreamConfusesAttachmentsOfTheSameName has two volumes whose attachments have the same
// name, because it concatenates handle, driver and node.
func TestUpstreamConfusesAttachmentsOfTheSameName(t *testing.T) {
	run(t, neverFails, func(w *world) {
		w.volume("v", "23.example.com", "1")
		w.volume("w", "3.example.com", "12")
		w.pod("web", "n1", "v", "w")
		defer w.start(nil)()
		settle()
		if n, listed := len(w.attachments()), w.listed("n1"); n != 1 || len(listed) != 2 {
			w.Errorf("%d attachments, listed as attached: %q; want one for two volumes", n, listed)
		}
	})
}

// TestUpstreamReportsAnotherNodesDevicePath attaches a volume to two nodes.
func TestUpstreamReportsAnotherNodesDevicePath(t *testing.T) {
	log := klog.Background()
	spec := &volume.Spec{PersistentVolume: &corev1.PersistentVolume{}}
	asw := cache.NewActualStateOfWorld(&volume.VolumePluginMgr{})
	for node, path := range map[types.NodeName]string{"n1": "/dev/1", "n2": "/dev/2"} {
		if _, err := asw.AddVolumeNode(log, "example.com/disk/v", spec, node, path, true); err != nil {
			t.Fatal(err)
		}
	}
	all := asw.GetVolumesToReportAttached(log)
	if a, b := all["n1"][0].DevicePath, all["n2"][0].DevicePath; a != b {
		t.Errorf("device paths %s and %s, want the same one for both", a, b)
	}
}
