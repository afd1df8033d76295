package attachdetach_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sim"
)

// meetingWorld returns a world with two volumes with the same VolumeAttachment name on node-1, and
// a pod for each.
func meetingWorld(t *testing.T, chooser sim.Chooser) (*world, *attachers) {
	t.Helper()
	w := newWorld(t, chooser)
	backend := newAttachers(w)
	w.nodeObject("node-1")
	w.source("one", csiSource("csi.example.com", "vol-1"))
	w.source("two", csiSource("si.example.com", "vol-1c"))
	w.start(withCSI)
	return w, backend
}

const (
	one = "csi.example.com^vol-1 on node-1"
	two = "si.example.com^vol-1c on node-1"
)

// TestVolumesWithOneAttachmentName checks that the second volume waits until the first is
// detached (I21). Upstream takes the first's attachment for the second's, reports it, and detaches
// the first when it should detach the second (conformance,
// TestUpstreamSharesAnAttachmentOfTheSameName).
func TestVolumesWithOneAttachmentName(t *testing.T) {
	t.Parallel()
	w, backend := meetingWorld(t, nil)
	w.pod("a", "node-1", "one")
	w.Run()
	w.pod("b", "node-1", "two")
	w.Until("reported", func() bool { return len(w.events()) == 2 })
	testcheck.Equal(w, "attached", []string{one}, backend.has())
	name := csi.AttachmentName("vol-1", "csi.example.com", "node-1")
	testcheck.Equal(w, "events", []string{
		`x1 Normal SuccessfulAttachVolume a: AttachVolume.Attach succeeded for volume "one" `,
		`x1 Warning FailedAttachVolume b: AttachVolume.Attach failed for volume "two" : VolumeAttachment ` + name +
			` is of volume vol-1 of driver csi.example.com on node node-1, not of volume vol-1c of driver si.example.com on node node-1: name is taken`,
	}, w.events())

	w.deletePod("b") // an unwanted volume that may be attached is detached: none is
	w.Run()
	testcheck.Equal(w, "attached", []string{one}, backend.has())
	w.pod("b", "node-1", "two")
	w.Until("reported again", func() bool { return len(w.events()) > 2 })
	w.deletePod("a")
	w.Run()
	w.quiet()
	testcheck.Equal(w, "attached", []string{two}, backend.has())
}

// TestVolumesWithOneAttachmentNameAreNeverConfused runs many interleavings of two independent
// users.
func TestVolumesWithOneAttachmentNameAreNeverConfused(t *testing.T) {
	t.Parallel()
	refused := 0
	for seed := range uint64(200) {
		w, backend := meetingWorld(t, sim.NewSeeded(seed))
		for _, claim := range []string{"one", "two"} {
			pod := "pod-of-" + claim
			user := w.Host.Process("user of " + claim)
			client := w.Server.Client(user)
			user.User("pods", func(ctx context.Context) {
				for range 2 {
					if _, err := client.CoreV1().Pods("default").Create(ctx, newPod(pod, "node-1", claim), metav1.CreateOptions{}); err != nil {
						t.Errorf("create %s: %v", pod, err)
					}
					user.Sleep(seconds(1))
					if err := deletePod(ctx, client, pod); err != nil {
						t.Errorf("delete %s: %v", pod, err)
					}
				}
			})
		}
		w.Run()
		w.quiet()
		testcheck.Equal(w, "attached", nil, backend.has())
		testcheck.Equal(w, "attachments", nil, w.attachments())
		for _, e := range w.Server.List("events") {
			if e.(*corev1.Event).Reason == attachdetach.FailedAttachVolume {
				refused++
				break
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d\n%s\n%s", seed, w.controller, w.Host.Log().Text())
		}
	}
	if refused < 50 {
		t.Errorf("the names collided in only %d worlds", refused)
	}
}
