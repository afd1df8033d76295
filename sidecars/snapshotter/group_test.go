package snapshotter_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sidecars/internal/scripted"
	"github.com/volsim/volsim/sidecars/snapshotter"
)

func (w *world) groupClass(name string, parameters map[string]string) {
	w.Helper()
	testcheck.Must(snapshotapi.GroupClasses.Client(w.User.Dynamic()).Create(w.Context(), &snapshotapi.VolumeGroupSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Driver: driverName, DeletionPolicy: snapshotapi.Delete, Parameters: parameters,
	}))
}

// newGroupContent returns the content of a group as the snapshot controller creates it.
func newGroupContent(name string) *snapshotapi.VolumeGroupSnapshotContent {
	return &snapshotapi.VolumeGroupSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{snapshotapi.GroupContentFinalizer}},
		Spec: snapshotapi.GroupContentSpec{
			VolumeGroupSnapshotRef: corev1.ObjectReference{
				APIVersion: "groupsnapshot.storage.k8s.io/v1", Kind: "VolumeGroupSnapshot", Namespace: "default", Name: "all", UID: "uid-of-all",
			},
			DeletionPolicy: snapshotapi.Delete, Driver: driverName, VolumeGroupSnapshotClassName: ptr.To("gold"),
			Source: snapshotapi.GroupContentSource{VolumeHandles: []string{"v", "w"}},
		},
	}
}

// existingGroup returns the content of a group as an administrator writes it, and the snapshot controller
// binds it.
func existingGroup(name string) *snapshotapi.VolumeGroupSnapshotContent {
	content := newGroupContent(name)
	content.Spec.VolumeGroupSnapshotClassName = nil
	content.Spec.Source = snapshotapi.GroupContentSource{GroupSnapshotHandles: &snapshotapi.GroupSnapshotHandles{
		VolumeGroupSnapshotHandle: "old", VolumeSnapshotHandles: []string{"old-0", "old-1"},
	}}
	return content
}

func (w *world) addGroup(content *snapshotapi.VolumeGroupSnapshotContent) {
	w.Helper()
	client, status := snapshotapi.GroupContents.Client(w.User.Dynamic()), content.Status
	stored := testcheck.Must(client.Create(w.Context(), content))
	if status != nil {
		stored.Status = status
		testcheck.Must(client.UpdateStatus(w.Context(), stored))
	}
}

func (w *world) groupContent(name string) *snapshotapi.VolumeGroupSnapshotContent {
	obj, ok := w.Server.Get(snapshotapi.GroupContents.CommitName(), "", name)
	if !ok {
		return nil
	}
	return testcheck.Must(snapshotapi.GroupContents.Parse(obj))
}

func (w *world) deleteGroup(name string) {
	w.Helper()
	client := snapshotapi.GroupContents.Client(w.User.Dynamic())
	content := testcheck.Must(client.Get(w.Context(), "", name))
	metav1.SetMetaDataAnnotation(&content.ObjectMeta, snapshotapi.GroupBeingDeleted, "yes")
	testcheck.Must(client.Update(w.Context(), content))
	w.NoError(client.Delete(w.Context(), "", name, metav1.DeleteOptions{}))
}

// describeGroup is describe for the content of a group.
func (w *world) describeGroup(name string) string {
	content := w.groupContent(name)
	if content == nil {
		return "none"
	}
	var words []string
	if value, has := content.Annotations[snapshotapi.GroupBeingCreated]; has {
		words = append(words, "being-created="+value)
	}
	if content.DeletionTimestamp != nil {
		words = append(words, "deleted")
	}
	s := content.Status
	if s == nil {
		return strings.Join(words, " ")
	}
	status := snapshotapi.ContentStatus{SnapshotHandle: s.VolumeGroupSnapshotHandle, ReadyToUse: s.ReadyToUse, Error: s.Error}
	if s.CreationTime != nil {
		status.CreationTime = ptr.To(s.CreationTime.UnixNano())
	}
	words = append(words, describeStatus(&status)...)
	for _, info := range s.VolumeSnapshotInfoList {
		created := "?"
		if info.CreationTime != nil {
			created = time.Unix(0, *info.CreationTime).UTC().Format(time.TimeOnly)
		}
		words = append(words, fmt.Sprintf("[%s of %s: %s %d %v]", info.SnapshotHandle, info.VolumeHandle, created,
			ptr.Deref(info.RestoreSize, 0), ptr.Deref(info.ReadyToUse, false)))
	}
	return strings.Join(words, " ")
}

const (
	groupTaken = "handle-of-groupsnapshot-uid-of-all 00:00:00 ready " +
		"[handle-of-groupsnapshot-uid-of-all-0 of v: 00:00:00 1000 true] [handle-of-groupsnapshot-uid-of-all-1 of w: 00:00:00 1000 true]"
	groupRequested = "CreateVolumeGroupSnapshot groupsnapshot-uid-of-all of [v w] map[] map[]"

	groupCreateFailed = "Warning GroupSnapshotCreationFailed: Failed to create group snapshot: "
	groupCheckFailed  = "Warning GroupSnapshotContentCheckandUpdateFailed: Failed to check and update group snapshot content: "
	groupDeleteFailed = "Warning GroupSnapshotDeleteError: "
)

var groupSecretAnnotations = map[string]string{snapshotapi.GroupSecretName: "key", snapshotapi.GroupSecretNamespace: "vault"}

func (w *world) compareGroup(content string, events, calls []string) {
	w.Helper()
	if diff := cmp.Diff(content, w.describeGroup("c")); diff != "" {
		w.Errorf("content (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(events, w.events()); diff != "" {
		w.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(calls, w.calls()); diff != "" {
		w.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestGroupContents has contents of groups after half a second.
func TestGroupContents(t *testing.T) {
	t.Parallel()
	type change = func(content *snapshotapi.VolumeGroupSnapshotContent)
	has := func(c *snapshotapi.VolumeGroupSnapshotContent) {
		c.Status = &snapshotapi.GroupContentStatus{
			VolumeGroupSnapshotHandle: ptr.To("g"), ReadyToUse: ptr.To(true), CreationTime: ptr.To(metav1.NewTime(epoch)),
			VolumeSnapshotInfoList: []snapshotapi.SnapshotInfo{{VolumeHandle: "v", SnapshotHandle: "m"}},
		}
	}
	const members = " [m of v: ? 0 false]"
	exists := func(w *world) {
		w.storage.groups["old"] = &csispec.VolumeGroupSnapshot{GroupSnapshotId: "old", CreationTime: timestamppb.New(epoch)}
	}
	for name, test := range map[string]struct {
		change     change
		cfg        snapshotter.Config
		parameters map[string]string // of the class "gold"
		secret     bool              // exists
		prepare    func(w *world)
		deleted    bool
		content    string
		events     []string
		calls      []string
	}{
		"a group is taken": {content: groupTaken, calls: []string{groupRequested}},
		"with metadata, prefix and secret": {
			cfg:        snapshotter.Config{ExtraCreateMetadata: true, GroupNamePrefix: "g", GroupNameUUIDLength: 5},
			parameters: map[string]string{"tier": "1", "csi.storage.k8s.io/group-snapshotter-secret-name": "s"},
			change: func(c *snapshotapi.VolumeGroupSnapshotContent) {
				c.Annotations, c.Spec.Source.VolumeHandles = groupSecretAnnotations, []string{"v"}
			},
			secret:  true,
			content: "handle-of-g-uidof 00:00:00 ready [handle-of-g-uidof-0 of v: 00:00:00 1000 true]",
			calls: []string{"CreateVolumeGroupSnapshot g-uidof of [v] map[csi.storage.k8s.io/volumegroupsnapshot/name:all " +
				"csi.storage.k8s.io/volumegroupsnapshot/namespace:default csi.storage.k8s.io/volumegroupsnapshotcontent/name:c tier:1] map[user:alice]"},
		},
		"a group that is not ready": {
			prepare: func(w *world) { w.storage.readyAfter = 1 },
			content: strings.NewReplacer(" ready", " not ready", "true", "false").Replace(groupTaken), calls: []string{groupRequested},
		},
		"no class of the name": {
			change: func(c *snapshotapi.VolumeGroupSnapshotContent) {
				c.Spec.VolumeGroupSnapshotClassName = ptr.To("bad-class")
			},
			content: `not ready error: Failed to create group snapshot: failed to get input parameters to create group snapshot for group snapshot content c: ` +
				`"volumegroupsnapshotclass.groupsnapshot.storage.k8s.io \"bad-class\" not found"`,
			events: []string{groupCreateFailed + `failed to get input parameters to create group snapshot for group snapshot content c: ` +
				`"volumegroupsnapshotclass.groupsnapshot.storage.k8s.io \"bad-class\" not found"`},
		},
		"no class": {
			change: func(c *snapshotapi.VolumeGroupSnapshotContent) { c.Spec.VolumeGroupSnapshotClassName = nil },
			content: `not ready error: Failed to create group snapshot: failed to get input parameters to create group snapshot for group snapshot content c: ` +
				`"failed to take group snapshot c without a group snapshot class"`,
			events: []string{groupCreateFailed + `failed to get input parameters to create group snapshot for group snapshot content c: ` +
				`"failed to take group snapshot c without a group snapshot class"`},
		},
		"no secret of the name": {
			change: func(c *snapshotapi.VolumeGroupSnapshotContent) { c.Annotations = groupSecretAnnotations },
			content: `not ready error: Failed to create group snapshot: failed to get input parameters to create group snapshot for group snapshot content c: ` +
				`"cannot get credentials for group snapshot content \"c\""`,
			events: []string{groupCreateFailed + `failed to get input parameters to create group snapshot for group snapshot content c: ` +
				`"cannot get credentials for group snapshot content \"c\""`},
		},
		"no name of the secret": {
			change: func(c *snapshotapi.VolumeGroupSnapshotContent) {
				c.Annotations = map[string]string{snapshotapi.GroupSecretName: "", snapshotapi.GroupSecretNamespace: "vault"}
			},
			content: `not ready error: Failed to create group snapshot: failed to get input parameters to create group snapshot for group snapshot content c: ` +
				`"cannot retrieve secrets for group snapshot content \"c\", err: secret name or namespace not specified"`,
			events: []string{groupCreateFailed + `failed to get input parameters to create group snapshot for group snapshot content c: ` +
				`"cannot retrieve secrets for group snapshot content \"c\", err: secret name or namespace not specified"`},
		},
		"no namespace of the secret": {
			change: func(c *snapshotapi.VolumeGroupSnapshotContent) {
				c.Annotations = map[string]string{snapshotapi.GroupSecretName: "key", snapshotapi.GroupSecretNamespace: ""}
			},
			content: `not ready error: Failed to create group snapshot: failed to get input parameters to create group snapshot for group snapshot content c: ` +
				`"cannot retrieve secrets for group snapshot content \"c\", err: secret name or namespace not specified"`,
			events: []string{groupCreateFailed + `failed to get input parameters to create group snapshot for group snapshot content c: ` +
				`"cannot retrieve secrets for group snapshot content \"c\", err: secret name or namespace not specified"`},
		},
		"an unknown parameter": {
			parameters: map[string]string{"csi.storage.k8s.io/what": "?"},
			content: `being-created=yes not ready error: Failed to create group snapshot: failed to remove CSI Parameters of prefixed keys: ` +
				`found unknown parameter key "csi.storage.k8s.io/what" with reserved namespace csi.storage.k8s.io/`,
			events: []string{groupCreateFailed + `failed to remove CSI Parameters of prefixed keys: ` +
				`found unknown parameter key "csi.storage.k8s.io/what" with reserved namespace csi.storage.k8s.io/`},
		},
		"not bound": {
			change: func(c *snapshotapi.VolumeGroupSnapshotContent) { c.Spec.VolumeGroupSnapshotRef.UID = "" },
			content: `being-created=yes not ready error: Failed to create group snapshot: failed to take group snapshot of the volumes [v w]: ` +
				`"cannot create group snapshot. Group snapshot content c not bound to a group snapshot"`,
			events: []string{groupCreateFailed + `failed to take group snapshot of the volumes [v w]: ` +
				`"cannot create group snapshot. Group snapshot content c not bound to a group snapshot"`},
		},
		"a final error": {
			prepare: func(w *world) {
				w.conn.Faults = []scripted.Fault{{Method: "CreateVolumeGroupSnapshot", Code: codes.InvalidArgument}}
			},
			content: `not ready error: Failed to create group snapshot: failed to take group snapshot of the volumes [v w]: "rpc error: code = InvalidArgument desc = scripted"`,
			events:  []string{groupCreateFailed + `failed to take group snapshot of the volumes [v w]: "rpc error: code = InvalidArgument desc = scripted"`},
			calls:   []string{groupRequested},
		},
		"an error that is not final": {
			prepare: func(w *world) {
				w.conn.Faults = []scripted.Fault{{Method: "CreateVolumeGroupSnapshot", Code: codes.Aborted}}
			},
			content: `being-created=yes not ready error: Failed to create group snapshot: failed to take group snapshot of the volumes [v w]: "rpc error: code = Aborted desc = scripted"`,
			events:  []string{groupCreateFailed + `failed to take group snapshot of the volumes [v w]: "rpc error: code = Aborted desc = scripted"`},
			calls:   []string{groupRequested},
		},
		"a group that is ready, with the annotation": {
			change: func(c *snapshotapi.VolumeGroupSnapshotContent) {
				has(c)
				c.Annotations = map[string]string{snapshotapi.GroupBeingCreated: "yes"}
			},
			content: "g 00:00:00 ready" + members,
		},
		"another driver": {
			change: func(c *snapshotapi.VolumeGroupSnapshotContent) { c.Spec.Driver = "other.example.com" },
		},
		"a class of another driver": {
			change: func(c *snapshotapi.VolumeGroupSnapshotContent) {
				c.Spec.VolumeGroupSnapshotClassName = ptr.To("theirs")
			},
			prepare: func(w *world) {
				testcheck.Must(snapshotapi.GroupClasses.Client(w.User.Dynamic()).Create(w.Context(), &snapshotapi.VolumeGroupSnapshotClass{
					ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Driver: "other.example.com", DeletionPolicy: snapshotapi.Delete,
				}))
			},
		},
		"an existing group": {
			change:  func(c *snapshotapi.VolumeGroupSnapshotContent) { *c = *existingGroup("c") },
			prepare: exists,
			content: "old 00:00:00 ready", calls: []string{"GetVolumeGroupSnapshot old [old-0 old-1] map[]"},
		},
		"an existing group with secrets of its class": {
			change: func(c *snapshotapi.VolumeGroupSnapshotContent) {
				*c = *existingGroup("c")
				c.Spec.VolumeGroupSnapshotClassName = ptr.To("gold")
			},
			parameters: map[string]string{
				"csi.storage.k8s.io/group-snapshotter-get-secret-name": "key", "csi.storage.k8s.io/group-snapshotter-get-secret-namespace": "vault",
			},
			secret: true, prepare: exists,
			content: "old 00:00:00 ready", calls: []string{"GetVolumeGroupSnapshot old [old-0 old-1] map[user:alice]"},
		},
		"an existing group without a secret of its class": {
			change: func(c *snapshotapi.VolumeGroupSnapshotContent) {
				*c = *existingGroup("c")
				c.Spec.VolumeGroupSnapshotClassName = ptr.To("gold")
			},
			parameters: map[string]string{
				"csi.storage.k8s.io/group-snapshotter-get-secret-name": "key", "csi.storage.k8s.io/group-snapshotter-get-secret-namespace": "vault",
			},
			content: `not ready error: Failed to check and update group snapshot content: failed to get credentials for group snapshot content c: ` +
				`error getting secret key in namespace vault: secrets "key" not found`,
			events: []string{groupCheckFailed + `failed to get credentials for group snapshot content c: error getting secret key in namespace vault: secrets "key" not found`},
		},
		"an existing group without its class": {
			change: func(c *snapshotapi.VolumeGroupSnapshotContent) {
				*c = *existingGroup("c")
				c.Spec.VolumeGroupSnapshotClassName = ptr.To("bad-class")
			},
			content: `not ready error: Failed to check and update group snapshot content: failed to get group snapshot class bad-class for group snapshot content c: ` +
				`volumegroupsnapshotclass.groupsnapshot.storage.k8s.io "bad-class" not found`,
			events: []string{groupCheckFailed + `failed to get group snapshot class bad-class for group snapshot content c: ` +
				`volumegroupsnapshotclass.groupsnapshot.storage.k8s.io "bad-class" not found`},
		},
		"a group that does not exist": {
			change:  func(c *snapshotapi.VolumeGroupSnapshotContent) { *c = *existingGroup("c") },
			content: `not ready error: Failed to check and update group snapshot content: failed to list group snapshot for group snapshot content c: "rpc error: code = NotFound desc = no such group"`,
			events:  []string{groupCheckFailed + `failed to list group snapshot for group snapshot content c: "rpc error: code = NotFound desc = no such group"`},
			calls:   []string{"GetVolumeGroupSnapshot old [old-0 old-1] map[]"},
		},
		"an existing group without members": {
			change: func(c *snapshotapi.VolumeGroupSnapshotContent) {
				*c = *existingGroup("c")
				c.Spec.Source.GroupSnapshotHandles.VolumeSnapshotHandles = []string{}
			},
			content: `not ready error: Failed to check and update group snapshot content: cannot list group snapshot c. No snapshots found in the group snapshot content`,
			events:  []string{groupCheckFailed + `cannot list group snapshot c. No snapshots found in the group snapshot content`},
		},
		"deleted": {
			change: has, deleted: true,
			content: "none", calls: []string{"DeleteVolumeGroupSnapshot g [m] map[]"},
		},
		"deleted, with a secret": {
			change: func(c *snapshotapi.VolumeGroupSnapshotContent) {
				has(c)
				c.Annotations = groupSecretAnnotations
			},
			secret: true, deleted: true,
			content: "none", calls: []string{"DeleteVolumeGroupSnapshot g [m] map[user:alice]"},
		},
		"deleted, without its secret": {
			change: func(c *snapshotapi.VolumeGroupSnapshotContent) {
				has(c)
				c.Annotations = groupSecretAnnotations
			},
			deleted: true,
			content: "deleted g 00:00:00 ready" + members, events: []string{groupDeleteFailed + "Failed to get snapshot credentials"},
		},
		"deleted, Retain": {
			change: func(c *snapshotapi.VolumeGroupSnapshotContent) {
				has(c)
				c.Spec.DeletionPolicy = snapshotapi.Retain
			},
			deleted: true, content: "none",
		},
		"deleted, with another finalizer": {
			change: func(c *snapshotapi.VolumeGroupSnapshotContent) {
				has(c)
				c.Finalizers = append(c.Finalizers, "example.com/kept")
				c.Status.Error = &snapshotapi.Error{Message: ptr.To("before")}
			},
			deleted: true, content: "deleted" + members, calls: []string{"DeleteVolumeGroupSnapshot g [m] map[]"},
		},
		"deleted, existing": {
			change: func(c *snapshotapi.VolumeGroupSnapshotContent) {
				*c = *existingGroup("c")
				c.Status = &snapshotapi.GroupContentStatus{VolumeGroupSnapshotHandle: ptr.To("old"), ReadyToUse: ptr.To(true)}
			},
			deleted: true, content: "none", calls: []string{"DeleteVolumeGroupSnapshot old [old-0 old-1] map[]"},
		},
		"deleted, without members": {
			change: func(c *snapshotapi.VolumeGroupSnapshotContent) {
				has(c)
				c.Status.VolumeSnapshotInfoList = nil
			},
			deleted: true,
			content: "deleted g 00:00:00 ready", events: []string{groupDeleteFailed + "Failed to delete group snapshot"},
		},
		"deleted, an error of the driver": {
			change:  has,
			prepare: func(w *world) { w.conn.Faults = []scripted.Fault{{Method: "DeleteVolumeGroupSnapshot"}} },
			deleted: true,
			content: "deleted g 00:00:00 ready" + members, events: []string{groupDeleteFailed + "Failed to delete group snapshot"},
			calls: []string{"DeleteVolumeGroupSnapshot g [m] map[]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, test.cfg)
			w.groupClass("gold", test.parameters)
			if test.secret {
				w.secret("key")
			}
			if test.prepare != nil {
				test.prepare(w)
			}
			content := newGroupContent("c")
			if test.change != nil {
				test.change(content)
			}
			w.addGroup(content)
			if test.deleted {
				w.deleteGroup("c")
			}
			w.after(500 * time.Millisecond)
			w.compareGroup(test.content, test.events, test.calls)
		})
	}
}

// TestGroupBackoff has a group that becomes ready with the third request.
func TestGroupBackoff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, snapshotter.Config{})
	w.storage.readyAfter = 2
	w.groupClass("gold", nil)
	w.addGroup(newGroupContent("c"))
	w.Run()
	// The members stay as they were first reported: the snapshot controller's contents look them up.
	w.compareGroup(strings.ReplaceAll(groupTaken, "true", "false"), nil, []string{groupRequested, groupRequested, groupRequested})
	if took := w.Host.Now().Sub(epoch); took != 3*time.Second {
		t.Errorf("ready after %v, want 1 + 2 seconds", took)
	}
}
