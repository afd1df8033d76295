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
)

// The tests of this file show with upstream's controller itself what it does wrong. The same stories are told, and ours is
// shown beside, by TestUpstreamsFaults of package explore, where it has a world for them.

// detachFails says that nothing can be detached.
func detachFails(_ *storagev1.VolumeAttachment, attach bool) bool { return !attach }

// settle lets the controller come to rest: its loop goes round ten times a second, and it polls for up to seven.
func settle() { time.Sleep(20 * time.Second) }

// kubernetes#71276.
func TestUpstreamAttachesElsewhereWhatItCouldNotDetach(t *testing.T) {
	tell(t, detachFails, func(s *story) {
		s.volume("v", driver, "v")
		s.pod("web", "n1", "v")
		defer s.start(nil)()
		settle()
		s.remove("web")
		s.pod("next", "n2", "v")
		settle()
		s.are("upstream attaches a volume for one node to a second one", "v n1 going", "v n2")
	})
}

// kubernetes#120595.
func TestUpstreamAttachesElsewhereWhatANodeSaysThatItUses(t *testing.T) {
	tell(t, nothing, func(s *story) {
		var behind atomic.Bool
		s.volume("v", driver, "v")
		s.pod("web", "n1", "v")
		defer s.start(nodesUnheard(&behind))()
		settle()
		behind.Store(true)
		s.uses("n1", "v")
		s.remove("web")
		s.pod("next", "n2", "v")
		settle()
		s.are("upstream attaches to a second node what the first one has mounted", "v n1", "v n2")
	})
}

// nodesUnheard keeps what happens to nodes from the controller's cache.
func nodesUnheard(behind *atomic.Bool) meddling {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if is(r, "watch", "nodes") && behind.Load() {
			return nil, errUnheard
		}
		return serve()
	}
}

// kubernetes#75213.
func TestUpstreamForgetsBackoffsThatAlternate(t *testing.T) {
	fails := func(a *storagev1.VolumeAttachment, attach bool) bool { return !attach || a.Spec.NodeName == "n2" }
	tell(t, fails, func(s *story) {
		var detaches atomic.Int32
		s.volume("v", driver, "v")
		s.pod("web", "n1", "v")
		defer s.start(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if is(r, "delete", "volumeattachments") {
				detaches.Add(1)
			}
			return serve()
		})()
		settle()
		s.remove("web")
		s.pod("next", "n2", "v")
		time.Sleep(2 * time.Minute)
		// With a back-off of 500 ms that doubles it would be 8.
		if n := detaches.Load(); n < 50 {
			s.Errorf("%d tries to detach in two minutes: this is to show that upstream's back-off does not grow", n)
		}
	})
}

func TestUpstreamCannotDetachAHandleWithASeparator(t *testing.T) {
	tell(t, nothing, func(s *story) {
		s.volume("v", driver, "a^b")
		s.pod("web", "n1", "v")
		defer s.start(nil)()
		settle()
		s.remove("web")
		time.Sleep(10 * time.Minute)
		s.are("upstream never detaches the volume", "v n1")
	})
}

func TestUpstreamForcesWithoutALook(t *testing.T) {
	tell(t, nothing, func(s *story) {
		var behind atomic.Bool
		s.volume("v", driver, "v")
		s.pod("web", "n1", "v")
		defer s.start(nodesUnheard(&behind))()
		settle()
		s.uses("n1", "v")
		s.status("n1", `{"conditions":[{"type":"Ready","status":"Unknown"}]}`)
		settle()
		s.remove("web")
		time.Sleep(5 * time.Minute)
		s.are("a node that is not ready is waited for", "v n1")
		behind.Store(true)
		s.status("n1", `{"conditions":[{"type":"Ready","status":"True"}]}`)
		time.Sleep(2 * time.Minute)
		s.are("upstream takes a volume away from a node that is ready and uses it")
	})
}

// A patch that is made of the difference to an old Node takes nothing back.
func TestUpstreamDetachesWhatTheNodeIsToldIsAttached(t *testing.T) {
	tell(t, nothing, func(s *story) {
		var behind atomic.Bool
		var once sync.Once
		s.volume("v", driver, "v")
		s.pod("web", "n1", "v")
		defer s.start(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if is(r, "patch", "nodes") {
				once.Do(func() { // the kubelet writes something, and then nothing is heard for a while
					s.status("n1", `{"conditions":[{"type":"Ready","status":"True","message":"beat"}]}`)
					time.Sleep(10 * time.Millisecond)
					behind.Store(true)
				})
			}
			return nodesUnheard(&behind)(r, serve)
		})()
		settle()
		s.are("the volume is attached", "v n1")
		s.remove("web")
		settle()
		s.are("the volume is detached")
		if got := s.listed("n1"); !slices.Equal(got, []string{unique("v")}) {
			s.Errorf("listed as attached: %q; this is to show that upstream does not take it back before it detaches", got)
		}
	})
}

// attachmentsUnheard is a server whose first list is from before there were VolumeAttachments, and that is slow to tell of them.
func attachmentsUnheard(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
	obj, err := serve()
	if err != nil {
		return nil, err
	}
	switch {
	case is(r, "list", "volumeattachments"):
		obj = obj.DeepCopyObject()
		obj.(*storagev1.VolumeAttachmentList).Items = nil
	case is(r, "watch", "volumeattachments"):
		if a, is := obj.(*storagev1.VolumeAttachment); is && a.Name != "" { // it is no bookmark
			return nil, errUnheard
		}
	}
	return obj, nil
}

func TestUpstreamBeginsWithAnOldListOfAttachments(t *testing.T) {
	tell(t, nothing, func(s *story) {
		s.volume("v", driver, "v")
		s.pod("web", "n1", "v")
		stop := s.start(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if is(r, "patch", "nodes") {
				return nil, errUnheard // so that the node is not told
			}
			return serve()
		})
		settle()
		stop()
		s.are("the volume is attached", "v n1")
		s.remove("web")
		s.pod("next", "n2", "v")
		defer s.start(attachmentsUnheard)()
		settle()
		s.are("upstream attaches a volume for one node to a second one", "v n1", "v n2")
	})
}

// The claims of a pod are gone from the cache before the pod is.
func TestUpstreamLetsVolumesGoOneByOne(t *testing.T) {
	tell(t, nothing, func(s *story) {
		names := []string{"a", "b", "c", "d"}
		for _, name := range names {
			s.volume(name, driver, name)
		}
		s.pod("web", "n1", names...)
		defer s.start(nil)()
		settle()
		for _, name := range names {
			_, err := s.user.CoreV1().PersistentVolumeClaims("default").
				Patch(s.ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			s.must(err)
			s.must(s.user.CoreV1().PersistentVolumeClaims("default").Delete(s.ctx, name, metav1.DeleteOptions{}))
		}
		settle()
		s.remove("web")
		before := len(s.attachments())
		for minute := 1; minute <= 3; minute++ {
			time.Sleep(time.Minute)
			after := len(s.attachments())
			if after == 0 || before-after > 1 {
				s.Errorf("%d attachments, and %d a minute later: this is to show that upstream lets one go", before, after)
			}
			before = after
		}
	})
}

// The answer to a detach is lost, and the cache is behind.
func TestUpstreamReportsWhatIsDetached(t *testing.T) {
	tell(t, nothing, func(s *story) {
		var behind atomic.Bool
		s.volume("v", driver, "v")
		s.pod("web", "n1", "v")
		defer s.start(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			switch {
			case is(r, "watch", "volumeattachments") && behind.Load():
				return nil, errUnheard
			case is(r, "delete", "volumeattachments"):
				behind.Store(true)
				if _, err := serve(); err != nil {
					return nil, err
				}
				return nil, errUnheard
			}
			return serve()
		})()
		settle()
		s.remove("web")
		time.Sleep(200 * time.Millisecond) // the detach was tried once
		s.pod("next", "n1", "v")
		settle()
		s.are("the volume is detached")
		if got := s.listed("n1"); !slices.Equal(got, []string{unique("v")}) {
			s.Errorf("listed as attached: %q; this is to show that upstream tells the node that the volume is attached", got)
		}
	})
}

// Whether volumes are still attached is asked for beside all else. What could not be read is taken for detached.
func TestUpstreamForgetsAnAttachmentThatItCouldNotRead(t *testing.T) {
	tell(t, nothing, func(s *story) {
		var once sync.Once
		s.volume("v", driver, "v")
		s.pod("web", "n1", "v")
		stop := s.start(nil)
		settle()
		stop()
		// It starts again: it finds the volume in the node's status, and the attachment not yet in its cache.
		defer s.start(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if is(r, "get", "volumeattachments") {
				once.Do(func() {
					s.remove("web")
					time.Sleep(10 * time.Millisecond) // it has heard of that
				})
				return nil, errUnheard
			}
			return attachmentsUnheard(r, serve)
		})()
		time.Sleep(10 * time.Minute)
		if _, there := s.server.Get("pods", "default", "web"); there {
			s.Error("nobody asked whether the volume is attached")
		}
		s.are("upstream never detaches the volume", "v n1")
	})
}

// kubernetes#117042.
func TestUpstreamTakesAFailedAttachmentForMounted(t *testing.T) {
	fails := func(_ *storagev1.VolumeAttachment, attach bool) bool { return attach }
	tell(t, fails, func(s *story) {
		s.volume("v", driver, "v")
		s.pod("web", "n1", "v")
		defer s.start(nil)()
		settle()
		s.remove("web")
		time.Sleep(5 * time.Minute)
		s.are("upstream does not detach for six minutes what was never attached", "v n1")
	})
}

// A pod comes back while the node is told that its volume is no longer attached.
func TestUpstreamDetachesWhatIsWantedAgain(t *testing.T) {
	tell(t, nothing, func(s *story) {
		s.volume("v", driver, "v")
		s.pod("web", "n1", "v")
		removed := false
		var once sync.Once
		defer s.start(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if is(r, "patch", "nodes") && removed {
				once.Do(func() {
					s.pod("next", "n1", "v")
					time.Sleep(10 * time.Millisecond) // it has heard of that
				})
			}
			return serve()
		})()
		settle()
		first := s.server.List("volumeattachments")[0].GetUID()
		removed = true
		s.remove("web")
		settle()
		s.are("the volume is attached", "v n1")
		if s.server.List("volumeattachments")[0].GetUID() == first {
			s.Errorf("the attachment is the same: this is to show that upstream detaches a volume that a pod waits for")
		}
	})
}

// The names of attachments are made of handle, driver and node, with nothing in between.
func TestUpstreamTakesAnotherVolumesAttachmentForItsOwn(t *testing.T) {
	tell(t, nothing, func(s *story) {
		s.volume("v", "23.example.com", "1")
		s.volume("w", "3.example.com", "12")
		s.pod("web", "n1", "v", "w")
		defer s.start(nil)()
		settle()
		if n, listed := len(s.attachments()), s.listed("n1"); n != 1 || len(listed) != 2 {
			s.Errorf("%d attachment, listed as attached: %q; this is to show that upstream takes one for two", n, listed)
		}
	})
}

// Where a volume is attached to several nodes, each has the device path of the last one.
func TestUpstreamReportsAnotherNodesDevicePath(t *testing.T) {
	log := klog.Background()
	spec := &volume.Spec{PersistentVolume: &corev1.PersistentVolume{}}
	world := cache.NewActualStateOfWorld(&volume.VolumePluginMgr{})
	for node, path := range map[types.NodeName]string{"n1": "/dev/1", "n2": "/dev/2"} {
		if _, err := world.AddVolumeNode(log, "example.com/disk/v", spec, node, path, true); err != nil {
			t.Fatal(err)
		}
	}
	all := world.GetVolumesToReportAttached(log)
	if a, b := all["n1"][0].DevicePath, all["n2"][0].DevicePath; a != b {
		t.Errorf("device paths %s and %s: this is to show that upstream reports one for both", a, b)
	}
}
