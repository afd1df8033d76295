package snapshotter_test

import (
	"fmt"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/sidecars/internal/scripted"
	"github.com/volsim/volsim/sidecars/snapshotter"
)

// calls returns the calls of the driver, except those for its capabilities.
func (w *world) calls() []string {
	var texts []string
	for _, call := range w.conn.Calls {
		var text string
		switch r := call.Request.(type) {
		case *csispec.ControllerGetCapabilitiesRequest:
			continue
		case *csispec.CreateSnapshotRequest:
			text = fmt.Sprint(r.GetName(), " of ", r.GetSourceVolumeId(), " ", r.GetParameters(), r.GetSecrets())
		case *csispec.DeleteSnapshotRequest:
			text = fmt.Sprint(r.GetSnapshotId(), " ", r.GetSecrets())
		case *csispec.ListSnapshotsRequest:
			text = fmt.Sprint(r.GetSnapshotId(), " ", r.GetSecrets())
		case *csispec.CreateVolumeGroupSnapshotRequest:
			text = fmt.Sprint(r.GetName(), " of ", r.GetSourceVolumeIds(), " ", r.GetParameters(), r.GetSecrets())
		case *csispec.GetVolumeGroupSnapshotRequest:
			text = fmt.Sprint(r.GetGroupSnapshotId(), " ", r.GetSnapshotIds(), r.GetSecrets())
		case *csispec.DeleteVolumeGroupSnapshotRequest:
			text = fmt.Sprint(r.GetGroupSnapshotId(), " ", r.GetSnapshotIds(), r.GetSecrets())
		}
		texts = append(texts, call.Method+" "+text)
	}
	return texts
}

// compare compares a world with what is wanted of a content, its events and the driver's calls.
func (w *world) compare(content string, events, calls []string) {
	w.Helper()
	if diff := cmp.Diff(content, w.describe("c")); diff != "" {
		w.Errorf("content (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(events, w.events()); diff != "" {
		w.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(calls, w.calls()); diff != "" {
		w.Errorf("calls (-want +got):\n%s", diff)
	}
}

const (
	taken     = "handle-of-snapshot-uid-of-data 00:00:00 1000 bytes ready"
	unready   = "handle-of-snapshot-uid-of-data 00:00:00 1000 bytes not ready"
	requested = "CreateSnapshot snapshot-uid-of-data of volume-1 map[] map[]"

	createFailed = "Warning SnapshotCreationFailed: Failed to create snapshot: "
	checkFailed  = "Warning SnapshotContentCheckandUpdateFailed: Failed to check and update snapshot content: "
)

var secretAnnotations = map[string]string{snapshotapi.SecretName: "key", snapshotapi.SecretNamespace: "vault"}

// TestContents has contents after half a second: what the driver is asked, and what is written.
func TestContents(t *testing.T) {
	t.Parallel()
	type change = func(content *snapshotapi.VolumeSnapshotContent)
	withStatus := func(status snapshotapi.ContentStatus) change {
		return func(c *snapshotapi.VolumeSnapshotContent) { c.Status = &status }
	}
	for name, test := range map[string]struct {
		change     change
		cfg        snapshotter.Config
		parameters map[string]string // of the class "gold"
		secret     bool              // exists
		prepare    func(w *world)
		content    string
		events     []string
		calls      []string
	}{
		"a snapshot is taken": {content: taken, calls: []string{requested}},
		"with parameters and metadata": {
			cfg:        snapshotter.Config{ExtraCreateMetadata: true},
			parameters: map[string]string{"tier": "1", "csi.storage.k8s.io/snapshotter-secret-name": "s"},
			content:    taken,
			calls: []string{"CreateSnapshot snapshot-uid-of-data of volume-1 map[csi.storage.k8s.io/volumesnapshot/name:data " +
				"csi.storage.k8s.io/volumesnapshot/namespace:default csi.storage.k8s.io/volumesnapshotcontent/name:c tier:1] map[]"},
		},
		"with a prefix and a short UID": {
			cfg:     snapshotter.Config{NamePrefix: "s", NameUUIDLength: 5},
			content: "handle-of-s-uidof 00:00:00 1000 bytes ready",
			calls:   []string{"CreateSnapshot s-uidof of volume-1 map[] map[]"},
		},
		"no name of the secret": {
			change: func(c *snapshotapi.VolumeSnapshotContent) {
				c.Annotations = map[string]string{snapshotapi.SecretName: "", snapshotapi.SecretNamespace: ""}
				c.Status = &snapshotapi.ContentStatus{}
			},
			content: `not ready error: Failed to check and update snapshot content: failed to get input parameters to create snapshot for content c: ` +
				`"cannot retrieve secrets for snapshot content \"c\", err: secret name or namespace not specified"`,
			events: []string{checkFailed + `failed to get input parameters to create snapshot for content c: ` +
				`"cannot retrieve secrets for snapshot content \"c\", err: secret name or namespace not specified"`},
		},
		"a secret": {
			change:  func(c *snapshotapi.VolumeSnapshotContent) { c.Annotations = secretAnnotations },
			secret:  true,
			content: taken,
			calls:   []string{"CreateSnapshot snapshot-uid-of-data of volume-1 map[] map[user:alice]"},
		},
		"no secret of the name": {
			change: func(c *snapshotapi.VolumeSnapshotContent) {
				c.Annotations, c.Status = secretAnnotations, &snapshotapi.ContentStatus{}
			},
			content: `not ready error: Failed to check and update snapshot content: failed to get input parameters to create snapshot for content c: ` +
				`"cannot get credentials for snapshot content \"c\""`,
			events: []string{checkFailed + `failed to get input parameters to create snapshot for content c: ` +
				`"cannot get credentials for snapshot content \"c\""`},
		},
		"no class of the name": {
			change: func(c *snapshotapi.VolumeSnapshotContent) { c.Spec.VolumeSnapshotClassName = ptr.To("bad-class") },
			content: `not ready error: Failed to create snapshot: failed to get input parameters to create snapshot for content c: ` +
				`"volumesnapshotclass.snapshot.storage.k8s.io \"bad-class\" not found"`,
			events: []string{createFailed + `failed to get input parameters to create snapshot for content c: ` +
				`"volumesnapshotclass.snapshot.storage.k8s.io \"bad-class\" not found"`},
		},
		"no class of the name, of a content that is not ready": {
			change: func(c *snapshotapi.VolumeSnapshotContent) {
				c.Spec.VolumeSnapshotClassName = ptr.To("bad-class")
				c.Status = &snapshotapi.ContentStatus{SnapshotHandle: ptr.To("h"), ReadyToUse: ptr.To(false)}
			},
			content: `h not ready error: Failed to check and update snapshot content: failed to get input parameters to create snapshot for content c: ` +
				`"volumesnapshotclass.snapshot.storage.k8s.io \"bad-class\" not found"`,
			events: []string{checkFailed + `failed to get input parameters to create snapshot for content c: ` +
				`"volumesnapshotclass.snapshot.storage.k8s.io \"bad-class\" not found"`},
		},
		"no class": {
			change: func(c *snapshotapi.VolumeSnapshotContent) { c.Spec.VolumeSnapshotClassName = nil },
			content: `not ready error: Failed to create snapshot: failed to get input parameters to create snapshot for content c: ` +
				`"failed to take snapshot c without a snapshot class"`,
			events: []string{createFailed + `failed to get input parameters to create snapshot for content c: ` +
				`"failed to take snapshot c without a snapshot class"`},
		},
		"an unknown parameter": {
			parameters: map[string]string{"csi.storage.k8s.io/what": "?"},
			content: `being-created=yes not ready error: Failed to create snapshot: failed to remove CSI Parameters of prefixed keys: ` +
				`found unknown parameter key "csi.storage.k8s.io/what" with reserved namespace csi.storage.k8s.io/`,
			events: []string{createFailed + `failed to remove CSI Parameters of prefixed keys: ` +
				`found unknown parameter key "csi.storage.k8s.io/what" with reserved namespace csi.storage.k8s.io/`},
		},
		"not bound": {
			change: func(c *snapshotapi.VolumeSnapshotContent) { c.Spec.VolumeSnapshotRef.UID = "" },
			content: `being-created=yes not ready error: Failed to create snapshot: failed to take snapshot of the volume volume-1: ` +
				`"cannot create snapshot. Snapshot content c not bound to a snapshot"`,
			events: []string{createFailed + `failed to take snapshot of the volume volume-1: ` +
				`"cannot create snapshot. Snapshot content c not bound to a snapshot"`},
		},
		"a snapshot that is not ready": {
			prepare: func(w *world) { w.storage.readyAfter = 1 }, content: unready, calls: []string{requested},
		},
		"a snapshot that stays unready": {
			prepare: func(w *world) { w.storage.readyAfter = 1 },
			change: withStatus(snapshotapi.ContentStatus{
				SnapshotHandle: ptr.To("handle-of-snapshot-uid-of-data"), CreationTime: ptr.To[int64](0), RestoreSize: ptr.To[int64](1000), ReadyToUse: ptr.To(false),
			}),
			content: unready, calls: []string{requested},
		},
		"a snapshot that becomes ready": {
			change: withStatus(snapshotapi.ContentStatus{
				SnapshotHandle: ptr.To("handle-of-snapshot-uid-of-data"), CreationTime: ptr.To[int64](0), ReadyToUse: ptr.To(false),
				Error: &snapshotapi.Error{Time: ptr.To(metav1.Now()), Message: ptr.To("before")},
			}),
			content: taken, calls: []string{requested},
		},
		"a snapshot that is ready": {
			change:  withStatus(snapshotapi.ContentStatus{SnapshotHandle: ptr.To("h"), ReadyToUse: ptr.To(true)}),
			content: "h ready",
		},
		"a crash before the annotation was removed": {
			change: func(c *snapshotapi.VolumeSnapshotContent) {
				c.Annotations = map[string]string{snapshotapi.BeingCreated: "yes"}
				c.Status = &snapshotapi.ContentStatus{SnapshotHandle: ptr.To("h"), ReadyToUse: ptr.To(true)}
			},
			content: "h ready",
		},
		"another driver": {
			change: func(c *snapshotapi.VolumeSnapshotContent) { c.Spec.Driver = "other.example.com" },
		},
		"a class of another driver": {
			change: func(c *snapshotapi.VolumeSnapshotContent) { c.Spec.VolumeSnapshotClassName = ptr.To("theirs") },
			prepare: func(w *world) {
				_, err := snapshotapi.Classes.Client(w.User.Dynamic()).Create(w.Context(), &snapshotapi.VolumeSnapshotClass{
					ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Driver: "other.example.com", DeletionPolicy: snapshotapi.Delete,
				})
				w.NoError(err)
			},
		},
		"a driver without snapshots": {
			prepare: func(w *world) { w.storage.capabilities = nil },
		},
		"an existing snapshot": {
			change:  func(c *snapshotapi.VolumeSnapshotContent) { *c = *existing("c", "old") },
			prepare: func(w *world) { w.storage.take("old", "volume-9", "") },
			content: "old 00:00:00 1000 bytes ready", calls: []string{"ListSnapshots old map[]"},
		},
		"an existing snapshot with secrets of its class": {
			change: func(c *snapshotapi.VolumeSnapshotContent) {
				*c = *existing("c", "old")
				c.Spec.VolumeSnapshotClassName = ptr.To("gold")
			},
			parameters: map[string]string{
				"csi.storage.k8s.io/snapshotter-list-secret-name": "key-of-${volumesnapshotcontent.name}", "csi.storage.k8s.io/snapshotter-list-secret-namespace": "vault",
			},
			prepare: func(w *world) {
				w.storage.take("old", "volume-9", "")
				w.secret("key-of-c")
			},
			content: "old 00:00:00 1000 bytes ready", calls: []string{"ListSnapshots old map[user:alice]"},
		},
		"an existing snapshot without a secret of its class": {
			change: func(c *snapshotapi.VolumeSnapshotContent) {
				*c = *existing("c", "old")
				c.Spec.VolumeSnapshotClassName = ptr.To("gold")
			},
			parameters: map[string]string{
				"csi.storage.k8s.io/snapshotter-list-secret-name": "key", "csi.storage.k8s.io/snapshotter-list-secret-namespace": "vault",
			},
			content: `not ready error: Failed to check and update snapshot content: failed to get credentials for snapshot content c: ` +
				`error getting secret key in namespace vault: secrets "key" not found`,
			events: []string{checkFailed + `failed to get credentials for snapshot content c: error getting secret key in namespace vault: secrets "key" not found`},
		},
		"an existing snapshot with a bad class": {
			change: func(c *snapshotapi.VolumeSnapshotContent) {
				*c = *existing("c", "old")
				c.Spec.VolumeSnapshotClassName = ptr.To("gold")
			},
			parameters: map[string]string{"csi.storage.k8s.io/snapshotter-list-secret-name": "key"},
			content: `not ready error: Failed to check and update snapshot content: failed to get secret reference for snapshot content c: ` +
				`failed to get name and namespace template from params: either name and namespace for SnapshotterList secrets specified, Both must be specified`,
			events: []string{checkFailed + `failed to get secret reference for snapshot content c: ` +
				`failed to get name and namespace template from params: either name and namespace for SnapshotterList secrets specified, Both must be specified`},
		},
		"an existing snapshot without its class": {
			change: func(c *snapshotapi.VolumeSnapshotContent) {
				*c = *existing("c", "old")
				c.Spec.VolumeSnapshotClassName = ptr.To("bad-class")
			},
			content: `not ready error: Failed to check and update snapshot content: failed to get snapshot class bad-class for snapshot content c: ` +
				`volumesnapshotclass.snapshot.storage.k8s.io "bad-class" not found`,
			events: []string{checkFailed + `failed to get snapshot class bad-class for snapshot content c: volumesnapshotclass.snapshot.storage.k8s.io "bad-class" not found`},
		},
		"a snapshot that does not exist": {
			change:  func(c *snapshotapi.VolumeSnapshotContent) { *c = *existing("c", "old") },
			content: `not ready error: Failed to check and update snapshot content: failed to list snapshot for content c: "can not find snapshot for snapshotID old"`,
			events:  []string{checkFailed + `failed to list snapshot for content c: "can not find snapshot for snapshotID old"`},
			calls:   []string{"ListSnapshots old map[]"},
		},
		"an existing snapshot of a driver without lists": {
			change:  func(c *snapshotapi.VolumeSnapshotContent) { *c = *existing("c", "old") },
			prepare: func(w *world) { w.storage.capabilities = w.storage.capabilities[:1] },
			content: "old 00:00:00 ready",
		},
		"a list that fails": {
			change: func(c *snapshotapi.VolumeSnapshotContent) { *c = *existing("c", "old") },
			prepare: func(w *world) {
				w.conn.Faults = []scripted.Fault{{Method: "ListSnapshots", Code: codes.Internal}}
			},
			content: `not ready error: Failed to check and update snapshot content: failed to list snapshot for content c: "rpc error: code = Internal desc = scripted"`,
			events:  []string{checkFailed + `failed to list snapshot for content c: "rpc error: code = Internal desc = scripted"`},
			calls:   []string{"ListSnapshots old map[]"},
		},
		"a member of a group": {
			change: func(c *snapshotapi.VolumeSnapshotContent) {
				c.Annotations = map[string]string{snapshotapi.GroupHandleAnnotation: "group"}
			},
		},
		"a member of a group with its handle": {
			change: func(c *snapshotapi.VolumeSnapshotContent) {
				c.Annotations = map[string]string{
					snapshotapi.GroupHandleAnnotation: "group", snapshotapi.SecretName: "key", snapshotapi.SecretNamespace: "vault",
				}
				c.Status = &snapshotapi.ContentStatus{
					SnapshotHandle: ptr.To("m"), VolumeGroupSnapshotHandle: ptr.To("group"), ReadyToUse: ptr.To(false),
				}
			},
			secret:  true,
			prepare: func(w *world) { w.storage.take("m", "volume-9", "group") },
			content: "m of group 00:00:00 1000 bytes ready", calls: []string{"ListSnapshots m map[user:alice]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, test.cfg)
			w.class("gold", test.parameters)
			if test.secret {
				w.secret("key")
			}
			if test.prepare != nil {
				test.prepare(w)
			}
			content := newContent("c")
			if test.change != nil {
				test.change(content)
			}
			w.add(content)
			w.after(500 * time.Millisecond)
			w.compare(test.content, test.events, test.calls)
		})
	}
}

// TestErrorsOfTheDriver has each error of CreateSnapshot: after one that is not final the content is
// annotated, and cannot be removed.
func TestErrorsOfTheDriver(t *testing.T) {
	t.Parallel()
	isFinal := map[codes.Code]bool{
		codes.OK: false, codes.Canceled: false, codes.DeadlineExceeded: false, codes.Unavailable: false, codes.ResourceExhausted: false,
		codes.Aborted: false, codes.InvalidArgument: true, codes.OutOfRange: true, codes.NotFound: true, codes.Unknown: true,
		codes.AlreadyExists: true, codes.PermissionDenied: true, codes.FailedPrecondition: true, codes.Unimplemented: true,
		codes.Internal: true, codes.DataLoss: true, codes.Unauthenticated: true,
	}
	for code, final := range isFinal {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, snapshotter.Config{})
			w.conn.Faults = []scripted.Fault{{Method: "CreateSnapshot", Code: code, After: true}, {Method: "CreateSnapshot", Code: code}}
			w.class("gold", nil)
			w.add(newContent("c"))
			w.after(500 * time.Millisecond)
			text := fmt.Sprintf("rpc error: code = %s desc = scripted", code)
			if code == codes.OK {
				text = "connection lost"
			}
			failed := fmt.Sprintf("failed to take snapshot of the volume volume-1: %q", text)
			mark := map[bool]string{false: "being-created=yes "}[final]
			events := []string{createFailed + failed}
			w.compare(mark+"not ready error: Failed to create snapshot: "+failed, events, []string{requested})
			w.delete("c")
			w.after(100 * time.Millisecond)
			if final {
				w.compare("none", events, []string{requested})
				return
			}
			w.compare("being-created=yes being-deleted=yes deleted not ready error: Failed to check and update snapshot content: "+failed,
				append([]string{checkFailed + failed}, events...), []string{requested, requested})
			w.Run()
			if left := w.storage.handles(); len(left) > 0 || w.content("c") != nil {
				t.Errorf("left: %v, content %q", left, w.describe("c"))
			}
		})
	}
}

// TestBackoff has a snapshot that becomes ready with the sixth request: the delays double.
func TestBackoff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, snapshotter.Config{})
	w.storage.readyAfter = 5
	w.class("gold", nil)
	w.add(newContent("c"))
	w.Run()
	w.compare(taken, nil, []string{requested, requested, requested, requested, requested, requested})
	if took := w.Host.Now().Sub(epoch); took != 31*time.Second {
		t.Errorf("ready after %v, want 1 + 2 + 4 + 8 + 16 seconds", took)
	}
}
