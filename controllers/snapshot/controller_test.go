package snapshot_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/sim/trace"
)

// TestLife takes a snapshot with the default class, and deletes it.
func TestLife(t *testing.T) {
	w := newWorld(t, nil)
	w.volume("data")
	w.class("standard", snapshotapi.Delete, isDefault)
	w.snapshot("s", "data", "")
	w.Run()
	s, content := w.read("s")
	if !s.IsReady() || content == nil || s.BoundContent() != content.Name || !content.PointsTo(s) || s.Status.RestoreSize.String() != "1Gi" ||
		s.Status.Error != nil || *s.Spec.VolumeSnapshotClassName != "standard" || *content.Spec.SourceVolumeMode != "Filesystem" {
		t.Errorf("snapshot %+v, status %+v, content %+v", s, s.Status, content)
	}
	if want := []string{snapshotapi.SourceFinalizer, snapshotapi.BoundFinalizer}; !slices.Equal(s.Finalizers, want) {
		t.Errorf("finalizers %v, want %v", s.Finalizers, want)
	}
	if want := []string{snapshotapi.ContentFinalizer}; !slices.Equal(content.Finalizers, want) {
		t.Errorf("finalizers of the content %v, want %v", content.Finalizers, want)
	}
	if w.held("data") {
		t.Error("the claim has its finalizer still")
	}
	want := []string{
		"CreatingSnapshot: Waiting for a snapshot default/s to be created by the CSI driver.",
		"SnapshotCreated: Snapshot default/s was successfully created by the CSI driver.",
		"SnapshotReady: Snapshot default/s is ready to use.",
	}
	if got := w.events(); !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	w.NoError(w.snapshots.Delete(ctx, "default", "s", metav1.DeleteOptions{}))
	w.Run()
	if snapshots, contents := w.count(); snapshots != 0 || contents != 0 {
		t.Errorf("%d snapshots and %d contents are left\n%s", snapshots, contents, w.Host.Log().Text())
	}
}

// TestAnOldListOfClaims has a controller that ends before it releases a claim. The next one lists claims from
// before the first one held the claim, or from before the claim existed.
func TestAnOldListOfClaims(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(w *world){
		"the snapshot is ready":   func(*world) {},
		"the snapshot is deleted": func(w *world) { w.NoError(w.snapshots.Delete(ctx, "default", "s", metav1.DeleteOptions{})) },
	} {
		for events := range 5 {
			t.Run(fmt.Sprintf("%s, %d events", name, events), func(t *testing.T) {
				w := newWorld(t, nil)
				w.volume("data")
				w.class("standard", snapshotapi.Delete, isDefault)
				w.snapshot("s", "data", "")
				w.Until("the snapshot to be ready", func() bool { s, _ := w.read("s"); return s.IsReady() })
				if !w.held("data") {
					t.Fatal("the claim was released already")
				}
				w.Host.Crash(w.process)
				act(w)
				w.start(events)
				w.Run()
				if w.held("data") {
					t.Errorf("the claim has its finalizer still\n%s", w.Host.Log().Text())
				}
			})
		}
	}
}

// TestContentIsNotDeletedWithoutItsFinalizer deletes a snapshot before the finalizer of its content, whose patches
// are refused, is added: the content stays until the sidecar has removed the snapshot of the driver.
func TestContentIsNotDeletedWithoutItsFinalizer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	patches, waited := 0, false
	w.fail = func(action trace.Action) error {
		if action.Verb != "patch" || !strings.HasPrefix(action.Object, "volumesnapshotcontents/") {
			return nil
		}
		if patches++; patches != 3 && patches < 5 { // the third one marks the content
			return apierrors.NewServiceUnavailable("refused")
		}
		return nil
	}
	w.Server.OnCommit(func(e fake.Commit) {
		if e.Resource == snapshotapi.Contents.CommitName() && e.Type == "MODIFIED" && e.After.GetDeletionTimestamp() != nil {
			waited = true
		}
	})
	w.volume("data")
	w.class("standard", snapshotapi.Delete, isDefault)
	w.snapshot("s", "data", "")
	w.Until("the snapshot to be ready", func() bool { s, _ := w.read("s"); return s.IsReady() })
	if _, content := w.read("s"); patches == 0 || len(content.Finalizers) > 0 {
		t.Fatalf("%d patches, and the content has the finalizers %v", patches, content.Finalizers)
	}
	w.NoError(w.snapshots.Delete(ctx, "default", "s", metav1.DeleteOptions{}))
	w.Run()
	if snapshots, contents := w.count(); !waited || snapshots != 0 || contents != 0 {
		t.Errorf("the content waited for the sidecar: %t; %d snapshots and %d contents are left\n%s", waited, snapshots, contents, w.Host.Log().Text())
	}
}
