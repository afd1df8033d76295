package snapshotter_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/sidecars/internal/scripted"
	"github.com/volsim/volsim/sidecars/snapshotter"
)

// TestDeletedContents has deleted contents after half a second.
func TestDeletedContents(t *testing.T) {
	t.Parallel()
	const deleteFailed = "Warning SnapshotDeleteError: "
	has := &snapshotapi.ContentStatus{
		SnapshotHandle: ptr.To("h"), CreationTime: ptr.To[int64](0), RestoreSize: ptr.To[int64](7), ReadyToUse: ptr.To(true),
	}
	ofGroup := &snapshotapi.ContentStatus{SnapshotHandle: ptr.To("h"), VolumeGroupSnapshotHandle: ptr.To("g"), ReadyToUse: ptr.To(true)}
	for name, test := range map[string]struct {
		change  func(c *snapshotapi.VolumeSnapshotContent)
		prepare func(w *world)
		content string // "none" for a removed one
		events  []string
		calls   []string
	}{
		"Delete": {content: "none", calls: []string{"DeleteSnapshot h map[]"}},
		"Retain": {
			change:  func(c *snapshotapi.VolumeSnapshotContent) { c.Spec.DeletionPolicy = snapshotapi.Retain },
			content: "none",
		},
		"another finalizer": {
			change:  func(c *snapshotapi.VolumeSnapshotContent) { c.Finalizers = append(c.Finalizers, "example.com/kept") },
			content: "being-deleted=yes deleted", calls: []string{"DeleteSnapshot h map[]"},
		},
		"another finalizer, and Retain": {
			change: func(c *snapshotapi.VolumeSnapshotContent) {
				c.Finalizers, c.Spec.DeletionPolicy = append(c.Finalizers, "example.com/kept"), snapshotapi.Retain
			},
			content: "being-deleted=yes deleted h 00:00:00 7 bytes ready",
		},
		"an error of the driver": {
			prepare: func(w *world) { w.conn.Faults = []scripted.Fault{{Method: "DeleteSnapshot", Code: codes.Internal}} },
			content: "being-deleted=yes deleted h 00:00:00 7 bytes ready",
			events:  []string{deleteFailed + "Failed to delete snapshot"}, calls: []string{"DeleteSnapshot h map[]"},
		},
		"a secret": {
			change:  func(c *snapshotapi.VolumeSnapshotContent) { c.Annotations = secretAnnotations },
			prepare: func(w *world) { w.secret("key") },
			content: "none", calls: []string{"DeleteSnapshot h map[user:alice]"},
		},
		"no secret of the name": {
			change:  func(c *snapshotapi.VolumeSnapshotContent) { c.Annotations = secretAnnotations },
			content: "being-deleted=yes deleted h 00:00:00 7 bytes ready",
			events:  []string{deleteFailed + "Failed to get snapshot credentials"},
		},
		"a class whose secret does not exist": {
			change: func(c *snapshotapi.VolumeSnapshotContent) { c.Spec.VolumeSnapshotClassName = ptr.To("secret") },
			prepare: func(w *world) {
				w.class("secret", map[string]string{"csi.storage.k8s.io/snapshotter-secret-name": "none"})
			},
			content: "none", calls: []string{"DeleteSnapshot h map[]"},
		},
		"no class": {
			change:  func(c *snapshotapi.VolumeSnapshotContent) { c.Spec.VolumeSnapshotClassName = nil },
			content: "none", calls: []string{"DeleteSnapshot h map[]"},
		},
		"an existing snapshot, Delete": {
			change: func(c *snapshotapi.VolumeSnapshotContent) {
				*c = *existing("c", "h")
				c.Status = has
			},
			content: "none", calls: []string{"DeleteSnapshot h map[]"},
		},
		"an existing snapshot, Retain": {
			change: func(c *snapshotapi.VolumeSnapshotContent) {
				*c = *existing("c", "h")
				c.Status, c.Spec.DeletionPolicy = has, snapshotapi.Retain
			},
			content: "none",
		},
		"no handle": {
			change:  func(c *snapshotapi.VolumeSnapshotContent) { c.Status = nil },
			content: "none",
		},
		"a member of a group": {
			change:  func(c *snapshotapi.VolumeSnapshotContent) { c.Status = ofGroup },
			content: "none",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, snapshotter.Config{})
			w.class("gold", nil)
			if test.prepare != nil {
				test.prepare(w)
			}
			content := newContent("c")
			content.Status = has
			if test.change != nil {
				test.change(content)
			}
			w.add(content)
			w.delete("c")
			w.after(500 * time.Millisecond)
			w.compare(test.content, test.events, test.calls)
		})
	}
}

// TestAContentThatVanishes has a content whose finalizers an administrator removes while the driver
// takes the snapshot. Nothing is written.
func TestAContentThatVanishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, snapshotter.Config{})
	w.class("gold", nil)
	w.add(newContent("c"))
	w.conn.Answer = func(method string, _ any) {
		if method != "CreateSnapshot" {
			return
		}
		client := snapshotapi.Contents.Client(w.User.Dynamic())
		w.delete("c")
		content, err := client.Get(w.Context(), "", "c")
		w.NoError(err)
		content.Finalizers = nil
		_, err = client.Update(w.Context(), content)
		w.NoError(err)
	}
	w.Run()
	const lost = `error updating status for volume snapshot content c: error get snapshot content c from api server: ` +
		`volumesnapshotcontents.snapshot.storage.k8s.io "c" not found`
	w.compare("none", []string{createFailed + lost}, []string{requested})
}
