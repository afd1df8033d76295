package provisioner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sidecars/internal/scripted"
	"github.com/volsim/volsim/sim"
)

// play runs three claims, one of which is deleted at any time, and faults drawn from the seed.
func play(t *testing.T, seed uint64) *world {
	w := newWorld(t, sim.NewSeeded(seed))
	draw := sim.NewSeeded(seed + 1_000_000)
	kinds := []codes.Code{codes.DeadlineExceeded, codes.Unavailable, codes.Aborted, codes.OK}
	for range draw.Choose(4) {
		w.conn.Faults = append(w.conn.Faults, scripted.Fault{
			Method: []string{"CreateVolume", "DeleteVolume"}[draw.Choose(2)], Code: kinds[draw.Choose(4)], After: draw.Choose(2) == 1,
		})
	}
	for range draw.Choose(4) {
		w.api.Faults = append(w.api.Faults, scripted.RequestFault{
			Verb: []string{"create", "delete", "patch"}[draw.Choose(3)], Err: errors.New("timeout"), After: draw.Choose(2) == 1,
		})
	}
	w.class(newClass("fast", storagev1.VolumeBindingImmediate))
	c := w.Host.Process("user")
	claims := w.Server.Client(c).CoreV1().PersistentVolumeClaims("default")
	c.User("creates", func(ctx context.Context) {
		for i := range 3 {
			testcheck.Must(claims.Create(ctx, newClaim(fmt.Sprint("data-", i), "fast"), metav1.CreateOptions{}))
		}
		if err := claims.Delete(ctx, "data-1", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	// I9, I10: each object deleted is one whose volume is gone; each volume is of one claim.
	w.Server.OnCommit(func(commit fake.Commit) {
		if commit.Resource != "persistentvolumes" || commit.Before == nil {
			return
		}
		volume := commit.After.(*corev1.PersistentVolume)
		began := commit.Before.GetDeletionTimestamp() == nil && volume.DeletionTimestamp != nil
		if began && slices.Contains(w.handles(), volume.Spec.CSI.VolumeHandle) {
			t.Errorf("seed %d: PersistentVolume %s is deleted while its volume exists", seed, volume.Name)
		}
	})
	w.Run()
	return w
}

func (w *world) handles() []string {
	var handles []string
	for _, v := range w.array.Volumes() {
		handles = append(handles, v.ID)
	}
	return handles
}

func TestEveryScheduleEndsQuietWithNothingLeaked(t *testing.T) {
	for seed := range uint64(200) {
		w := play(t, seed)
		var handles []string
		for _, volume := range w.volumes() {
			handles = append(handles, volume.Spec.CSI.VolumeHandle)
		}
		slices.Sort(handles)
		if diff := cmp.Diff(handles, w.handles()); diff != "" { // I11
			t.Fatalf("seed %d: handles of PersistentVolumes, volumes (-want +got):\n%s%s", seed, diff, w.Host.Log().Text())
		}
		for i, want := range []bool{true, false, true} {
			claim := w.claim(fmt.Sprint("data-", i))
			if bound := claim != nil && claim.Spec.VolumeName != ""; bound != want {
				t.Fatalf("seed %d: data-%d bound: %v, want %v\n%s", seed, i, bound, want, w.Host.Log().Text())
			}
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
