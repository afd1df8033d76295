package pvcontroller_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/pvcontroller"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// isSettled returns a world with a claim or volume in each stable state.
func isSettled(t testing.TB) *world {
	w := newWorld(t, nil)
	w.control()
	w.class("delayed", "disk.example.com", storagev1.VolumeBindingWaitForFirstConsumer, false)
	w.class("external", "disk.example.com", storagev1.VolumeBindingImmediate, false)
	w.class("unserved", "kubernetes.io/no-provisioner", storagev1.VolumeBindingImmediate, false)
	for _, name := range []string{"bound", "lost", "retained", "renamed", "deleted", "failed"} {
		w.volume("v-"+name, "1Gi", reservedBy(name), func(v *corev1.PersistentVolume) {
			switch name {
			case "deleted":
				toDelete(v)
			case "failed":
				toDelete(v)
				v.Spec.CSI, v.Spec.HostPath = nil, &corev1.HostPathVolumeSource{Path: "/data"}
			}
		})
		w.claim(name, "1Gi")
	}
	w.Run()
	w.deleteVolume("v-lost")
	for _, name := range []string{"retained", "renamed", "deleted", "failed"} {
		w.deleteClaim(name)
	}
	w.Run()
	w.claim("renamed", "1Gi") // the case of kubernetes#118545
	w.claim("waiting", "1Gi")
	w.claim("delayed", "1Gi", ofClass("delayed"))
	w.claim("consumed", "1Gi", ofClass("delayed"))
	w.pod("p", "consumed")
	w.claim("external", "1Gi", ofClass("external"))
	w.claim("unserved", "1Gi", ofClass("unserved"))
	w.claim("classless", "1Gi", ofClass("missing"))
	w.claim("nowhere", "1Gi", naming("v-nowhere"))
	w.claim("taken", "1Gi", naming("v-bound"))
	w.volume("v-small", "500Mi")
	w.claim("large", "1Gi", naming("v-small"))
	moded := w.claim("moded", "1Gi")
	w.volume("v-block", "1Gi", reservedFor(moded), func(v *corev1.PersistentVolume) {
		v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	})
	w.Run()
	return w
}

// A resync of unchanged objects writes nothing, events included, and reads nothing.
func TestResyncIsSilent(t *testing.T) {
	w := isSettled(t)
	for round := range 3 {
		since := w.Host.Log().Len()
		w.Host.SetTime(w.Host.Now().Add(pvcontroller.ResyncPeriod))
		w.Run()
		syncs := 0
		for _, r := range w.Host.Log().Records()[since:] {
			if r.Kind == trace.KindWork {
				syncs++
			}
			if r.Kind == trace.KindAPI {
				t.Errorf("round %d: %s", round, r)
			}
		}
		if want := len(w.Server.List("persistentvolumes")) + len(w.Server.List("persistentvolumeclaims")); syncs != want {
			t.Errorf("round %d: %d syncs, want %d", round, syncs, want)
		}
	}
}

// An event is recorded again if its condition recurs, and only then.
func TestEventIsRecordedAgain(t *testing.T) {
	w := newWorld(t, nil)
	w.control()
	w.claim("c", "1Gi", naming("v"))
	w.volume("v", "1Gi", reservedBy("d"))
	count := func() int32 {
		w.Run()
		return w.Server.List("events")[0].(*corev1.Event).Count
	}
	if got := count(); got != 1 {
		t.Errorf("recorded %d times, want once", got)
	}
	w.editVolume("v", marked("user", "was here"))
	if got := count(); got != 1 {
		t.Errorf("recorded %d times, want still once", got)
	}
	w.deleteVolume("v")
	w.Run()
	w.volume("v", "1Gi", reservedBy("d"))
	if got := count(); got != 2 {
		t.Errorf("recorded %d times, want twice", got)
	}
}

// The API server is read once for a Released volume's claim, although another claim has its name.
func TestReleasedVolumeIsLookedUpOnce(t *testing.T) {
	w := bound(t)
	w.deleteClaim("c")
	w.claim("c", "1Gi")
	w.Run()
	w.editVolume("v", marked("user", "looks"))
	w.Run()
	gets := 0
	for _, line := range w.requests(0) {
		if strings.HasPrefix(line, "get ") {
			gets++
		}
	}
	if gets != 1 {
		t.Errorf("got %d live reads, want 1:\n%s", gets, strings.Join(w.requests(0), "\n"))
	}
}

// A restarted controller leaves a settled world unchanged: it writes no object, and makes at most
// one live read for each volume with a claimRef to a name that another claim has.
func TestRestartIsQuiet(t *testing.T) {
	w := isSettled(t)
	since := w.Host.Log().Len()
	before := w.state()
	w.control()
	w.Run()
	w.wantRequests(since, "get persistentvolumeclaims/default/renamed")
	if after := w.state(); after != before {
		t.Errorf("state changed from\n%s\nto\n%s", before, after)
	}
}

// TestLive runs on the live host, with the race detector.
func TestLive(t *testing.T) {
	host := sim.NewLive(sim.LiveConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	w := &world{&testworld.World{TB: t, Server: server, User: server.Client(host.ExternalCaller())}}
	w.controlOn(host)
	host.Start()
	const n = 20
	for i := range n {
		w.volume(fmt.Sprint("v", i), "1Gi")
		w.claim(fmt.Sprint("c", i), "1Gi")
	}
	within, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := host.Wait(within, "all claims bound", func() bool {
		for _, obj := range server.List("persistentvolumeclaims") {
			if obj.(*corev1.PersistentVolumeClaim).Status.Phase != corev1.ClaimBound {
				return false
			}
		}
		return true
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, w.state())
	}
	for i := range n {
		w.NoError(w.User.CoreV1().PersistentVolumeClaims("default").Delete(ctx, fmt.Sprint("c", i), metav1.DeleteOptions{}))
	}
}

// BenchmarkBind binds n volumes to n claims.
func BenchmarkBind(b *testing.B) {
	for _, n := range []int{100, 1000, 3000, 10000} {
		b.Run(fmt.Sprint(n, " pairs"), func(b *testing.B) {
			for b.Loop() {
				w := newWorld(b, nil)
				for i := range n {
					w.volume(fmt.Sprintf("v%05d", i), "1Gi")
					w.claim(fmt.Sprintf("c%05d", i), "1Gi")
				}
				w.control()
				w.Run()
				if got := strings.Count(w.state(), " Bound "); got != 2*n {
					b.Fatalf("%d bound", got)
				}
			}
		})
	}
}
