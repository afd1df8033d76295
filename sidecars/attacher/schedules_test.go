package attacher_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sidecars/internal/scripted"
	"github.com/volsim/volsim/sim"
)

// play moves a volume from one node to another and back, with faults drawn from the seed. As in a real cluster, the
// attachment to a node has the same name every time.
func play(t *testing.T, seed uint64) *world {
	w := newWorld(t, sim.NewSeeded(seed))
	draw := sim.NewSeeded(seed + 1_000_000)
	for range draw.Choose(5) {
		w.conn.Faults = append(w.conn.Faults, scripted.Fault{
			Method: []string{"ControllerPublishVolume", "ControllerUnpublishVolume"}[draw.Choose(2)],
			Code:   []codes.Code{codes.Internal, codes.DeadlineExceeded, codes.OK}[draw.Choose(3)], After: draw.Choose(2) == 1,
		})
	}
	w.node("node-1", "id-1")
	w.node("node-2", "id-2")
	w.volume("vol")
	// An attachment goes only when the volume is detached.
	w.Server.OnCommit(func(commit fake.Commit) {
		if commit.Resource != "volumeattachments" || commit.Type != "DELETED" {
			return
		}
		id := map[string]string{"va-1": "id-1", "va-2": "id-2"}[commit.After.GetName()]
		for _, node := range w.array.Volumes()[0].AttachedTo {
			if node == id && len(commit.Before.GetAnnotations()) > 0 {
				t.Errorf("seed %d: %s went while the volume is attached to %s", seed, commit.After.GetName(), id)
			}
		}
	})
	c := w.Host.Process("user")
	attachments := w.Server.Client(c).StorageV1().VolumeAttachments()
	c.User("moves", func(ctx context.Context) {
		for i, node := range []string{"1", "2", "1"} {
			testcheck.Must(attachments.Create(ctx, newAttachment("va-"+node, "vol", "node-"+node), metav1.CreateOptions{}))
			if i == 2 {
				return
			}
			for range draw.Choose(12) {
				c.Sleep(0)
			}
			if err := attachments.Delete(ctx, "va-"+node, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
			_ = w.Host.Wait(ctx, "detached", func() bool { return w.attachment("va-"+node) == nil })
		}
	})
	w.Run()
	return w
}

func TestEverySchedulePutsTheVolumeWhereItBelongs(t *testing.T) {
	for seed := range uint64(200) {
		w := play(t, seed)
		va := w.attachment("va-1")
		if va == nil || !va.Status.Attached || len(va.Finalizers) != 1 || w.attachment("va-2") != nil {
			t.Fatalf("seed %d: va-1 %v, va-2 %v\n%s", seed, va, w.attachment("va-2"), w.Host.Log().Text())
		}
		if diff := cmp.Diff([]string{"id-1"}, w.array.Volumes()[0].AttachedTo); diff != "" {
			t.Fatalf("seed %d: attached to (-want +got):\n%s%s", seed, diff, w.Host.Log().Text())
		}
		if t.Failed() {
			return
		}
		if seed%20 == 0 {
			if diff := cmp.Diff(w.Host.Log().Text(), play(t, seed).Host.Log().Text()); diff != "" {
				t.Fatalf("seed %d twice (-first +second):\n%s", seed, diff)
			}
		}
	}
}
