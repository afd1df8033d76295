package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/customresource"
	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A groupWorld is a world with groups and a scripted csi-snapshotter for them.
type groupWorld struct {
	*world
	unready bool // groups are taken, but not ready

	groups        customresource.Client[snapshotapi.VolumeGroupSnapshot, *snapshotapi.VolumeGroupSnapshot]
	groupContents customresource.Client[snapshotapi.VolumeGroupSnapshotContent, *snapshotapi.VolumeGroupSnapshotContent]
	groupClasses  customresource.Client[snapshotapi.VolumeGroupSnapshotClass, *snapshotapi.VolumeGroupSnapshotClass]
}

func newGroupWorld(t testing.TB, chooser sim.Chooser) *groupWorld {
	w := &groupWorld{world: newWorld(t, chooser)}
	user := w.User.Dynamic()
	w.groups, w.groupContents = snapshotapi.GroupSnapshots.Client(user), snapshotapi.GroupContents.Client(user)
	w.groupClasses = snapshotapi.GroupClasses.Client(user)
	w.startGroupSnapshotter()
	return w
}

// startGroupSnapshotter starts a process that takes every group at once, and removes it with its content.
func (w *groupWorld) startGroupSnapshotter() {
	process := w.Host.Process("groupsnapshotter")
	contents, informer, err := snapshotapi.GroupContents.Cache(w.Server.Informers(process))
	w.NoError(err)
	client := snapshotapi.GroupContents.Client(w.Server.Client(process).Dynamic())
	queue := sim.NewQueue[string](process, sim.QueueConfig{Name: "contents"})
	eventhandler.Add(informer, func(_, content *unstructured.Unstructured) { queue.Add(content.GetName()) }, nil)
	queue.Work(func(ctx context.Context, name string) error {
		content := contents.Get("", name)
		switch {
		case content == nil:
			return nil
		case content.DeletionTimestamp != nil && content.Annotations[snapshotapi.GroupBeingDeleted] == "yes":
			_, err = client.Patch(ctx, "", name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		case content.Status == nil:
			content.Status = w.taken(content, metav1.NewTime(process.Now()))
			_, err = client.UpdateStatus(ctx, content)
		}
		return err
	})
}

// taken returns the status of a content whose group was taken.
func (w *groupWorld) taken(content *snapshotapi.VolumeGroupSnapshotContent, now metav1.Time) *snapshotapi.GroupContentStatus {
	status := &snapshotapi.GroupContentStatus{
		VolumeGroupSnapshotHandle: ptr.To("taken-" + content.Name), CreationTime: &now, ReadyToUse: ptr.To(!w.unready),
	}
	for _, volume := range content.Spec.Source.VolumeHandles {
		status.VolumeSnapshotInfoList = append(status.VolumeSnapshotInfoList, snapshotapi.SnapshotInfo{
			VolumeHandle: volume, SnapshotHandle: "taken-" + volume, CreationTime: ptr.To(now.UnixNano()),
			RestoreSize: ptr.To[int64](1 << 30), ReadyToUse: ptr.To(true),
		})
	}
	return status
}

func (w *groupWorld) groupClass(name string, policy snapshotapi.DeletionPolicy, isDefault bool) {
	class := &snapshotapi.VolumeGroupSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Driver: driverName, DeletionPolicy: policy,
	}
	if isDefault {
		class.Annotations = map[string]string{snapshotapi.GroupDefaultClass: "true"}
	}
	testcheck.Must(w.groupClasses.Create(ctx, class))
}

// labelled creates claims with the label that groups select.
func (w *groupWorld) labelled(names ...string) {
	claims := w.User.CoreV1().PersistentVolumeClaims("default")
	for _, name := range names {
		w.volume(name)
		claim := testcheck.Must(claims.Get(ctx, name, metav1.GetOptions{})).DeepCopy()
		claim.Labels = map[string]string{"app": "db"}
		testcheck.Must(claims.Update(ctx, claim, metav1.UpdateOptions{}))
	}
}

// newGroup returns a group of the labelled claims.
func newGroup(class string) *snapshotapi.VolumeGroupSnapshot {
	group := &snapshotapi.VolumeGroupSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "all"}}
	group.Spec.Source.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	if class != "" {
		group.Spec.VolumeGroupSnapshotClassName = &class
	}
	return group
}

func (w *groupWorld) create(group *snapshotapi.VolumeGroupSnapshot) *snapshotapi.VolumeGroupSnapshot {
	return testcheck.Must(w.groups.Create(ctx, group))
}

// group returns the group, nil if it does not exist.
func (w *groupWorld) group() *snapshotapi.VolumeGroupSnapshot {
	group, err := w.groups.Get(ctx, "default", "all")
	if err != nil {
		return nil
	}
	return group
}

// describe returns what is seen of the group and its content.
func (w *groupWorld) describe() string {
	group := w.group()
	if group == nil {
		return "none"
	}
	var words []string
	if name := group.BoundContent(); name != "" {
		words = append(words, "bound")
	}
	if slices.Contains(group.Finalizers, snapshotapi.GroupBoundFinalizer) {
		words = append(words, "held")
	}
	if s := group.Status; s != nil && s.ReadyToUse != nil {
		words = append(words, map[bool]string{true: "ready", false: "not ready"}[*s.ReadyToUse])
	}
	if s := group.Status; s != nil && s.Error != nil {
		words = append(words, "error: "+*s.Error.Message)
	}
	return strings.Join(words, " ")
}

// members returns the member snapshots with their contents.
func (w *groupWorld) members() []string {
	var all []string
	for _, obj := range w.Server.List(snapshotapi.Snapshots.CommitName()) {
		s := testcheck.Must(snapshotapi.Snapshots.Parse(obj))
		content, err := w.contents.Get(ctx, "", s.BoundContent())
		if err != nil {
			all = append(all, s.Name+" without content")
			continue
		}
		owner, _ := s.OwningGroup()
		all = append(all, fmt.Sprintf("%s: %s of %s in %s, owned by %s, ready %v; held %v, protected %v, bound %v",
			s.SourceClaim(), *content.Status.SnapshotHandle, *content.Status.VolumeGroupSnapshotHandle, s.GroupName(), owner, s.IsReady(),
			slices.Contains(s.Finalizers, snapshotapi.InGroupFinalizer), slices.Contains(content.Finalizers, snapshotapi.ContentFinalizer),
			content.PointsTo(s)))
	}
	slices.Sort(all)
	return all
}

// left returns the numbers of groups, their contents, snapshots and contents.
func (w *groupWorld) left() [4]int {
	snapshots, contents := w.count()
	return [4]int{
		len(w.Server.List(snapshotapi.GroupSnapshots.CommitName())), len(w.Server.List(snapshotapi.GroupContents.CommitName())), snapshots, contents,
	}
}

// TestGroupLife takes a group with the default class, and deletes it.
func TestGroupLife(t *testing.T) {
	w := newGroupWorld(t, nil)
	w.labelled("data", "log")
	w.volume("other")
	w.groupClass("gold", snapshotapi.Delete, true)
	group := w.create(newGroup(""))
	w.Run()
	if got := w.describe(); got != "bound held ready" || *w.group().Spec.VolumeGroupSnapshotClassName != "gold" {
		t.Errorf("group: %s\n%s", got, w.Host.Log().Text())
	}
	name := "groupsnapcontent-" + string(group.UID)
	want := []string{
		"data: taken-handle-data of taken-" + name + " in all, owned by all, ready true; held true, protected true, bound true",
		"log: taken-handle-log of taken-" + name + " in all, owned by all, ready true; held true, protected true, bound true",
	}
	if diff := cmp.Diff(want, w.members()); diff != "" {
		t.Errorf("members (-want +got):\n%s\n%s", diff, w.Host.Log().Text())
	}
	events := w.events()
	for _, want := range []string{
		"CreatingGroupSnapshot: Waiting for a group snapshot default/all to be created by the CSI driver.",
		"GroupSnapshotCreated: GroupSnapshot default/all was successfully created by the CSI driver.",
		"GroupSnapshotReady: GroupSnapshot default/all is ready to use.",
	} {
		if !slices.Contains(events, want) {
			t.Errorf("no event %q in %q", want, events)
		}
	}
	for _, obj := range w.Server.List(snapshotapi.Contents.CommitName()) {
		content := testcheck.Must(snapshotapi.Contents.Parse(obj))
		if content.Name != "snapcontent-"+strings.TrimPrefix(content.Spec.VolumeSnapshotRef.Name, "snapshot-") || len(content.Name) != len("snapcontent-")+64 ||
			content.Annotations[snapshotapi.GroupHandleAnnotation] != "taken-"+name || content.Spec.VolumeSnapshotClassName != nil ||
			*content.Spec.SourceVolumeMode != "Filesystem" || content.Spec.DeletionPolicy != snapshotapi.Delete {
			t.Errorf("content %+v", content)
		}
	}
	w.NoError(w.groups.Delete(ctx, "default", "all", metav1.DeleteOptions{}))
	w.Run()
	if got := w.left(); got != [4]int{} {
		t.Errorf("groups, contents, snapshots and contents are left: %v\n%s", got, w.Host.Log().Text())
	}
}

// TestGroups has groups when the world is quiescent.
func TestGroups(t *testing.T) {
	t.Parallel()
	const inputs = "failed to create group snapshot content with error failed to get input parameters to create group snapshot all: "
	class := func(w *groupWorld) { w.groupClass("gold", snapshotapi.Delete, false) }
	existing := func(w *groupWorld, change func(content *snapshotapi.VolumeGroupSnapshotContent)) {
		content := &snapshotapi.VolumeGroupSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: "old"}}
		content.Spec = snapshotapi.GroupContentSpec{
			VolumeGroupSnapshotRef: corev1.ObjectReference{Namespace: "default", Name: "all"}, DeletionPolicy: snapshotapi.Retain, Driver: driverName,
			Source: snapshotapi.GroupContentSource{GroupSnapshotHandles: &snapshotapi.GroupSnapshotHandles{
				VolumeGroupSnapshotHandle: "g", VolumeSnapshotHandles: []string{"m"},
			}},
		}
		change(content)
		testcheck.Must(w.groupContents.Create(ctx, content))
	}
	ofContent := func(group *snapshotapi.VolumeGroupSnapshot) {
		group.Spec = snapshotapi.GroupSnapshotSpec{Source: snapshotapi.GroupSnapshotSource{VolumeGroupSnapshotContentName: ptr.To("old")}}
	}
	for name, test := range map[string]struct {
		prepare func(w *groupWorld)
		change  func(group *snapshotapi.VolumeGroupSnapshot)
		want    string
		event   string
	}{
		"with a class": {
			prepare: func(w *groupWorld) { class(w); w.labelled("data") },
			want:    "bound held ready", event: "GroupSnapshotReady: GroupSnapshot default/all is ready to use.",
		},
		"not ready": {
			prepare: func(w *groupWorld) { class(w); w.labelled("data"); w.unready = true },
			want:    "bound held not ready", event: "GroupSnapshotCreated: GroupSnapshot default/all was successfully created by the CSI driver.",
		},
		"no class of the name": {
			prepare: func(w *groupWorld) { w.labelled("data") },
			want:    `error: failed to get group snapshot class with error volumegroupsnapshotclass.groupsnapshot.storage.k8s.io "gold" not found`,
			event:   `GetGroupSnapshotClassFailed: failed to get group snapshot class with error volumegroupsnapshotclass.groupsnapshot.storage.k8s.io "gold" not found`,
		},
		"no default class": {
			prepare: func(w *groupWorld) { class(w); w.labelled("data") },
			change:  func(group *snapshotapi.VolumeGroupSnapshot) { group.Spec.VolumeGroupSnapshotClassName = nil },
			want:    "error: Failed to set default group snapshot class with error cannot find default group snapshot class",
			event:   "SetDefaultGroupSnapshotClassFailed: Failed to set default group snapshot class with error cannot find default group snapshot class",
		},
		"two default classes": {
			prepare: func(w *groupWorld) {
				w.groupClass("a", snapshotapi.Delete, true)
				w.groupClass("b", snapshotapi.Delete, true)
				w.labelled("data")
			},
			change: func(group *snapshotapi.VolumeGroupSnapshot) { group.Spec.VolumeGroupSnapshotClassName = nil },
			want:   "error: Failed to set default group snapshot class with error 2 default snapshot classes were found",
			event:  "SetDefaultGroupSnapshotClassFailed: Failed to set default group snapshot class with error 2 default snapshot classes were found",
		},
		"no claim": {
			prepare: class,
			want:    "not ready error: " + inputs + `"label selector app=db for group snapshot not applied to any PVC"`,
			event:   "GroupSnapshotContentCreationFailed: " + inputs + `"label selector app=db for group snapshot not applied to any PVC"`,
		},
		"a claim that is not bound": {
			prepare: func(w *groupWorld) {
				class(w)
				claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{"app": "db"}}}
				claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
				claim.Spec.Resources.Requests = size
				testcheck.Must(w.User.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{}))
			},
			want:  "not ready error: " + inputs + `"the PVC data is not yet bound to a PV, will not attempt to take a group snapshot"`,
			event: "GroupSnapshotContentCreationFailed: " + inputs + `"the PVC data is not yet bound to a PV, will not attempt to take a group snapshot"`,
		},
		"a claim without its volume": {
			prepare: func(w *groupWorld) {
				class(w)
				w.labelled("data")
				volumes := w.User.CoreV1().PersistentVolumes()
				volume := testcheck.Must(volumes.Get(ctx, "pv-data", metav1.GetOptions{})).DeepCopy()
				volume.Finalizers = nil
				testcheck.Must(volumes.Update(ctx, volume, metav1.UpdateOptions{}))
				w.NoError(volumes.Delete(ctx, "pv-data", metav1.DeleteOptions{}))
			},
			want:  "not ready error: " + inputs + `"failed to retrieve PV pv-data from the API server: \"persistentvolumes \\\"pv-data\\\" not found\""`,
			event: "GroupSnapshotContentCreationFailed: " + inputs + `"failed to retrieve PV pv-data from the API server: \"persistentvolumes \\\"pv-data\\\" not found\""`,
		},
		"a volume that is not of a CSI driver": {
			prepare: func(w *groupWorld) { class(w); w.labelled("data"); w.replaceSource("data", nil) },
			want:    "not ready error: failed to create group snapshot content with error cannot snapshot a non-CSI volume for group snapshot default/all: pv-data",
			event:   "CreateGroupSnapshotContentFailed: Cannot snapshot a non-CSI volume: pv-data",
		},
		"a volume of another driver": {
			prepare: func(w *groupWorld) {
				class(w)
				w.labelled("data")
				w.replaceSource("data", &corev1.CSIPersistentVolumeSource{Driver: "other", VolumeHandle: "h"})
			},
			want: "not ready error: failed to create group snapshot content with error snapshot controller failed to update default/all on API server: " +
				"Volume CSI driver (other) mismatch with VolumeGroupSnapshotClass (disk.example.com) default/all: pv-data",
			event: "CreateGroupSnapshotContentFailed: Volume CSI driver (other) mismatch with VolumeGroupSnapshotClass (disk.example.com) default/all: pv-data",
		},
		"an existing group": {
			prepare: func(w *groupWorld) { existing(w, func(*snapshotapi.VolumeGroupSnapshotContent) {}) },
			change:  ofContent,
			want:    "bound held ready", event: "GroupSnapshotReady: GroupSnapshot default/all is ready to use.",
		},
		"an existing group that is not ready": {
			prepare: func(w *groupWorld) {
				existing(w, func(*snapshotapi.VolumeGroupSnapshotContent) {})
				w.unready = true
			},
			change: ofContent,
			want:   "bound held not ready", event: "GroupSnapshotCreated: GroupSnapshot default/all was successfully created by the CSI driver.",
		},
		"an existing group without its content": {
			change: ofContent,
			want:   "not ready error: VolumeGroupSnapshotContent is missing", event: "GroupSnapshotContentMissing: VolumeGroupSnapshotContent is missing",
		},
		"an existing group of another name": {
			prepare: func(w *groupWorld) {
				existing(w, func(content *snapshotapi.VolumeGroupSnapshotContent) {
					content.Spec.VolumeGroupSnapshotRef.Name = "else"
				})
			},
			change: ofContent,
			want:   "not ready error: VolumeGroupSnapshotContent [old] is bound to a different group snapshot",
			event:  "GroupSnapshotContentMisbound: VolumeGroupSnapshotContent [old] is bound to a different group snapshot",
		},
		"an existing content of claims": {
			prepare: func(w *groupWorld) {
				existing(w, func(content *snapshotapi.VolumeGroupSnapshotContent) {
					content.Spec.Source = snapshotapi.GroupContentSource{VolumeHandles: []string{"v"}}
				})
			},
			change: ofContent,
			want:   "not ready error: VolumeGroupSnapshotContent is dynamically provisioned while expecting a pre-provisioned one",
			event:  "GroupSnapshotContentMismatch: VolumeGroupSnapshotContent is dynamically provisioned while expecting a pre-provisioned one",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newGroupWorld(t, nil)
			if test.prepare != nil {
				test.prepare(w)
			}
			group := newGroup("gold")
			if test.change != nil {
				test.change(group)
			}
			w.create(group)
			w.Run()
			if got := w.describe(); got != test.want {
				t.Errorf("group:\n%s, want\n%s\n%s", got, test.want, w.Host.Log().Text())
			}
			if events := w.events(); !slices.Contains(events, test.event) {
				t.Errorf("no event %q in %q", test.event, events)
			}
		})
	}
}

// replaceSource replaces the volume of a claim by one with another source, nil for a host path.
func (w *groupWorld) replaceSource(claim string, csi *corev1.CSIPersistentVolumeSource) {
	volumes := w.User.CoreV1().PersistentVolumes()
	volume := testcheck.Must(volumes.Get(ctx, "pv-"+claim, metav1.GetOptions{})).DeepCopy()
	volume.Finalizers = nil
	testcheck.Must(volumes.Update(ctx, volume, metav1.UpdateOptions{}))
	w.NoError(volumes.Delete(ctx, volume.Name, metav1.DeleteOptions{}))
	volume.ResourceVersion, volume.UID = "", ""
	volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: csi}
	if csi == nil {
		volume.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/tmp"}
	}
	testcheck.Must(volumes.Create(ctx, volume, metav1.CreateOptions{}))
}

// TestGroupsThatWait has groups that lack something which appears later, without time that passes.
func TestGroupsThatWait(t *testing.T) {
	t.Parallel()
	for name, supply := range map[string]func(w *groupWorld){
		"a class": func(w *groupWorld) { w.groupClass("gold", snapshotapi.Delete, false) },
		"a claim": func(w *groupWorld) { w.labelled("data") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newGroupWorld(t, nil)
			if name == "a class" {
				w.labelled("data")
			} else {
				w.groupClass("gold", snapshotapi.Delete, false)
			}
			w.create(newGroup("gold"))
			w.Run()
			if got := w.describe(); !strings.Contains(got, "error") {
				t.Errorf("before: %s", got)
			}
			at := w.Host.Now()
			supply(w)
			w.Until("the group to be ready", func() bool { return w.group().IsReady() })
			if got := w.Host.Now().Sub(at); got >= time.Second || w.describe() != "bound held ready" {
				t.Errorf("after %v: %s", got, w.describe())
			}
		})
	}
}

// TestAReadyGroupWithoutContent has a ready group whose content is lost: it is taken again. The definition
// keeps the content of another group from taking its place.
func TestAReadyGroupWithoutContent(t *testing.T) {
	t.Parallel()
	w := newGroupWorld(t, nil)
	w.labelled("data")
	w.groupClass("gold", snapshotapi.Delete, false)
	name := snapshotapi.GroupContentName(w.create(newGroup("gold")))
	w.Run()
	w.NoError(w.groupContents.Delete(ctx, "", name, metav1.DeleteOptions{}))
	testcheck.Must(w.groupContents.Patch(ctx, "", name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	w.Run()
	if got := w.describe(); got != "bound held ready" || !slices.Contains(w.events(), "GroupSnapshotContentMissing: VolumeGroupSnapshotContent is missing") {
		t.Errorf("group: %s, events %q\n%s", got, w.events(), w.Host.Log().Text())
	}
	_, err := w.groupContents.Patch(ctx, "", name, types.MergePatchType, []byte(`{"spec":{"volumeGroupSnapshotRef":{"uid":"other"}}}`))
	if err == nil {
		t.Error("the UID of a bound content was changed")
	}
}

// TestDeletedGroups has groups that are deleted.
func TestDeletedGroups(t *testing.T) {
	t.Parallel()
	remove := func(w *groupWorld) { w.NoError(w.groups.Delete(ctx, "default", "all", metav1.DeleteOptions{})) }
	for name, test := range map[string]struct {
		policy snapshotapi.DeletionPolicy
		act    func(w *groupWorld)
		left   [4]int // groups, their contents, snapshots and contents
	}{
		"Delete":  {snapshotapi.Delete, func(w *groupWorld) { w.Run(); remove(w) }, [4]int{}},
		"Retain":  {snapshotapi.Retain, func(w *groupWorld) { w.Run(); remove(w) }, [4]int{0, 1, 0, 2}},
		"at once": {snapshotapi.Delete, remove, [4]int{}},
		"while its content is created": {snapshotapi.Delete, func(w *groupWorld) {
			w.Until("the content", func() bool { return w.left()[1] > 0 })
			remove(w)
		}, [4]int{}},
		"while its members are created": {snapshotapi.Delete, func(w *groupWorld) {
			w.Until("a member", func() bool { return w.left()[2] > 0 })
			remove(w)
		}, [4]int{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newGroupWorld(t, nil)
			w.labelled("data", "log")
			w.groupClass("gold", test.policy, false)
			w.create(newGroup("gold"))
			test.act(w)
			w.Run()
			if got := w.left(); got != test.left {
				t.Errorf("left: %v, want %v\n%s", got, test.left, w.Host.Log().Text())
			}
			for _, obj := range w.Server.List(snapshotapi.GroupContents.CommitName()) {
				if obj.GetAnnotations()[snapshotapi.GroupBeingDeleted] != "yes" {
					t.Errorf("content %v is not marked", obj.GetName())
				}
			}
		})
	}
}

// TestAMemberIsDeletedWithItsGroup deletes a member, then a group while a claim restores from a member.
func TestAMemberIsDeletedWithItsGroup(t *testing.T) {
	t.Parallel()
	w := newGroupWorld(t, nil)
	w.labelled("data")
	w.groupClass("gold", snapshotapi.Delete, false)
	w.create(newGroup("gold"))
	w.Run()
	member := w.Server.List(snapshotapi.Snapshots.CommitName())[0].GetName()
	w.NoError(w.snapshots.Delete(ctx, "default", member, metav1.DeleteOptions{}))
	w.Run()
	refused := "SnapshotDeletePending: deletion of the individual volume snapshot default/" + member + " is not allowed as it belongs to group " +
		"snapshot default/all. Deleting the group snapshot will trigger the deletion of all the individual volume snapshots that are part of the group."
	if got := w.left(); got != [4]int{1, 1, 1, 1} || !slices.Contains(w.events(), refused) {
		t.Errorf("left %v, events %q", got, w.events())
	}
	claims := w.User.CoreV1().PersistentVolumeClaims("default")
	testcheck.Must(claims.Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "restored"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{Requests: size},
			DataSource: &corev1.TypedLocalObjectReference{APIGroup: ptr.To(snapshotapi.Group), Kind: "VolumeSnapshot", Name: member},
		},
	}, metav1.CreateOptions{}))
	w.NoError(w.groups.Delete(ctx, "default", "all", metav1.DeleteOptions{}))
	w.Run()
	pending := "SnapshotDeletePending: Snapshot default/" + member + " belonging to VolumeGroupSnapshot default/all is being used to restore a PVC"
	if got := w.left(); got != [4]int{1, 1, 1, 1} || !slices.Contains(w.events(), pending) {
		t.Errorf("left %v, events %q", got, w.events())
	}
	w.NoError(claims.Delete(ctx, "restored", metav1.DeleteOptions{}))
	restored := testcheck.Must(claims.Get(ctx, "restored", metav1.GetOptions{})).DeepCopy()
	restored.Finalizers = nil
	testcheck.Must(claims.Update(ctx, restored, metav1.UpdateOptions{}))
	w.Run()
	if got := w.left(); got != [4]int{} {
		t.Errorf("left %v\n%s", got, w.Host.Log().Text())
	}
}

// TestGroupSchedules takes and deletes a group in any order of steps, with faults of the controller's
// requests.
func TestGroupSchedules(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		w := newGroupWorld(t, sim.NewSeeded(seed))
		draw := sim.NewSeeded(seed + 1_000_000)
		w.labelled("data", "log")
		w.groupClass("gold", snapshotapi.Delete, false)
		for range 5 {
			w.drawFaults(draw, 4)
			w.create(newGroup("gold"))
			deleteAt := draw.Choose(80)
			for step := 0; w.Host.Step(); step++ {
				if step == deleteAt {
					w.NoError(w.groups.Delete(ctx, "default", "all", metav1.DeleteOptions{}))
				}
			}
			if group := w.group(); group != nil && group.DeletionTimestamp == nil {
				if got := w.describe(); got != "bound held ready" || len(w.members()) != 2 {
					t.Fatalf("seed %d: %s, %q\n%s", seed, got, w.members(), w.Host.Log().Text())
				}
				w.NoError(w.groups.Delete(ctx, "default", "all", metav1.DeleteOptions{}))
			}
			w.Run()
			if got := w.left(); got != [4]int{} {
				t.Fatalf("seed %d: left %v\n%s", seed, got, w.Host.Log().Text())
			}
		}
	}
}

// drawFaults lets some requests of the controller fail without effect.
func (w *groupWorld) drawFaults(draw *sim.Seeded, most int) {
	left := draw.Choose(most)
	w.fail = func(trace.Action) error {
		if left == 0 || draw.Choose(6) > 0 {
			return nil
		}
		left--
		return errors.New("lost")
	}
}
