package invariant_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	_ "github.com/volsim/volsim/fake/crd" // for snapshots
	"github.com/volsim/volsim/internal/definitions"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

const snapshotTask = "snapshotcontroller/snapshots"

// snapshot adds the snapshot before of claim data with its content and the snapshot snap-1 of volume vol-1 at the
// driver, and the controllers. The names in texts are those of the content.
func (s *scene) snapshot(ready bool) {
	if err := definitions.InstallText(context.Background(), s.server, snapshotapi.Definitions()); err != nil {
		panic(err)
	}
	for _, name := range []string{"snapshotcontroller", "snapshotter"} {
		s.controller(name)
	}
	ctx, client := context.Background(), s.server.Client(sim.DirectCaller()).Dynamic()
	made := testcheck.Must(snapshotapi.Snapshots.Client(client).Create(ctx, &snapshotapi.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "before", Finalizers: []string{snapshotapi.SourceFinalizer, snapshotapi.BoundFinalizer},
		},
		Spec: snapshotapi.SnapshotSpec{Source: snapshotapi.SnapshotSource{PersistentVolumeClaimName: ptr.To("data")}},
	}))
	content := testcheck.Must(snapshotapi.Contents.Client(client).Create(ctx, &snapshotapi.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: "content", Finalizers: []string{snapshotapi.ContentFinalizer}},
		Spec: snapshotapi.ContentSpec{
			VolumeSnapshotRef: corev1.ObjectReference{Namespace: "default", Name: "before", UID: made.UID},
			DeletionPolicy:    snapshotapi.Delete, Driver: "disk.example.com",
			Source: snapshotapi.ContentSource{VolumeHandle: ptr.To("vol-1")},
		},
	}))
	content.Status = &snapshotapi.ContentStatus{SnapshotHandle: ptr.To("snap-1"), ReadyToUse: ptr.To(true)}
	testcheck.Must(snapshotapi.Contents.Client(client).UpdateStatus(ctx, content))
	s.devices.snapshots = []invariant.Snapshot{{Handle: "snap-1", Name: "snapshot-" + string(made.UID), Hash: "abc"}}
	s.setReady(ready)
}

// setReady writes the status of the snapshot.
func (s *scene) setReady(ready bool) {
	s.editSnapshot(func(o *snapshotapi.VolumeSnapshot) {
		o.Status = &snapshotapi.SnapshotStatus{BoundVolumeSnapshotContentName: ptr.To("content"), ReadyToUse: &ready}
	})
}

// editSnapshot changes the snapshot by a write of the user, and its status by another.
func (s *scene) editSnapshot(edit func(*snapshotapi.VolumeSnapshot)) {
	s.snapshotAs(s.server.Client(sim.DirectCaller()), edit)
}

func (s *scene) snapshotAs(client kubernetes.Interface, edit func(*snapshotapi.VolumeSnapshot)) {
	ctx, snapshots := context.Background(), snapshotapi.Snapshots.Client(dynamicOf(client))
	is := testcheck.Must(snapshots.Get(ctx, "default", "before"))
	edit(is)
	written := testcheck.Must(snapshots.Update(ctx, is))
	if slices.Contains(written.Finalizers, snapshotapi.SourceFinalizer) {
		is.ResourceVersion = written.ResourceVersion
		testcheck.Must(snapshots.UpdateStatus(ctx, is))
	}
}

// contentAs changes the content.
func contentAs(client kubernetes.Interface, edit func(*snapshotapi.VolumeSnapshotContent)) {
	ctx, contents := context.Background(), snapshotapi.Contents.Client(dynamicOf(client))
	is := testcheck.Must(contents.Get(ctx, "", "content"))
	edit(is)
	testcheck.Must(contents.Update(ctx, is))
}

func (s *scene) editContent(edit func(*snapshotapi.VolumeSnapshotContent)) {
	contentAs(s.server.Client(sim.DirectCaller()), edit)
}

// deleteSnapshot begins the deletion of the snapshot, or of its content.
func (s *scene) deleteSnapshot() {
	client := snapshotapi.Snapshots.Client(s.server.Client(sim.DirectCaller()).Dynamic())
	must(client.Delete(context.Background(), "default", "before", metav1.DeleteOptions{}))
}

func (s *scene) deleteContent() {
	client := snapshotapi.Contents.Client(s.server.Client(sim.DirectCaller()).Dynamic())
	must(client.Delete(context.Background(), "", "content", metav1.DeleteOptions{}))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func dynamicOf(client kubernetes.Interface) dynamic.Interface {
	return client.(*fake.Clientset).Dynamic()
}

// controllerSees records that a component's cache has the newest version of the snapshot.
func (s *scene) controllerSees(component string) {
	s.settle()
	obj, _ := s.server.Get(snapshotapi.Snapshots.CommitName(), "default", "before")
	s.host.Log().Append(trace.Record{
		Task:    component + "/volumesnapshots",
		Action:  trace.Action{Kind: trace.KindDeliver, Verb: "MODIFIED", Object: "volumesnapshots/default/before"},
		Outcome: trace.Outcome{Detail: "rv=" + obj.GetResourceVersion()},
	})
}

// releaseSnapshot makes the controller remove the finalizers of the snapshot.
func (s *scene) releaseSnapshot() {
	s.act(snapshotTask, "default/before", func(_ context.Context, client kubernetes.Interface, _ *sim.Process) {
		s.snapshotAs(client, func(o *snapshotapi.VolumeSnapshot) { o.Finalizers = nil })
	})
}

// releaseContent makes the sidecar remove the finalizer of the content.
func (s *scene) releaseContent() {
	s.act("snapshotter/contents", "content", func(_ context.Context, client kubernetes.Interface, _ *sim.Process) {
		contentAs(client, func(o *snapshotapi.VolumeSnapshotContent) { o.Finalizers = nil })
	})
}

// heldClaim adds claim data with the finalizer of a source.
func (s *scene) heldClaim() {
	s.claim("data", "1Gi", func(c *corev1.PersistentVolumeClaim) {
		c.Finalizers = append(c.Finalizers, snapshotapi.ClaimSourceFinalizer)
	})
}

// releaseClaim makes the controller remove that finalizer.
func (s *scene) releaseClaim() {
	s.act(snapshotTask, "default/before", func(_ context.Context, client kubernetes.Interface, _ *sim.Process) {
		editClaimAs(client, "data", func(c *corev1.PersistentVolumeClaim) { c.Finalizers = nil })
	})
}

// fromSnapshot makes a claim restore from the snapshot.
func fromSnapshot(c *corev1.PersistentVolumeClaim) {
	c.Spec.DataSource = snapshotapi.DataSource("before")
}

// fromClaim makes a claim a clone of claim data.
func fromClaim(c *corev1.PersistentVolumeClaim) {
	c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "data"}
}

// copied adds claim restored and its volume, of which the driver says that it is a copy of source.
func (s *scene) copied(source string, from func(*corev1.PersistentVolumeClaim)) {
	claim := s.claim("restored", "1Gi", from)
	s.devices.volumes = append(s.devices.volumes, invariant.Volume{Handle: "handle-of-new"})
	s.devices.sources = map[string]string{"handle-of-new": source}
	s.volume("new", "1Gi", provisioned, reservedFor(claim), func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: "handle-of-new"},
		}
	})
}

func TestSnapshotDataRules(t *testing.T) {
	playAll(t, []claimRow{
		{"I64", "the same data", func(s *scene) {
			s.snapshot(true)
			s.call("snapshotter/contents", "CreateSnapshot", "snap-1", nil)
			s.call("provisioner/claims", "CreateVolume", "pvc-1", nil)
		}, ""},
		{"I64", "a write to the volume changes it", func(s *scene) {
			s.snapshot(true)
			s.call("snapshotter/contents", "CreateSnapshot", "snap-1", nil)
			s.devices.snapshots[0].Hash = "def"
			s.call("kubelet(node-1)/x", "NodeUnpublishVolume", "vol-1", nil)
		}, "snapshot snap-1 of disk.example.com has other data than when it was taken"},
		{"I64", "seen at rest", func(s *scene) {
			s.snapshot(true)
			s.call("snapshotter/contents", "CreateSnapshot", "snap-1", nil)
			s.devices.snapshots[0].Hash = "def"
		}, "snapshot snap-1 of disk.example.com has other data than when it was taken"},
		{"I64", "deleted and taken again", func(s *scene) {
			s.snapshot(true)
			s.call("snapshotter/contents", "CreateSnapshot", "snap-1", nil)
			again := s.devices.snapshots[0]
			s.devices.snapshots = nil
			s.call("snapshotter/contents", "DeleteSnapshot", "snap-1", nil)
			again.Hash = "def"
			s.devices.snapshots = []invariant.Snapshot{again}
			s.call("snapshotter/contents", "CreateSnapshot", "snap-1", nil)
		}, ""},
		{"I65", "a copy of the snapshot", func(s *scene) {
			s.snapshot(true)
			s.copied("snap-1", fromSnapshot)
		}, ""},
		{"I65", "empty", func(s *scene) {
			s.snapshot(true)
			s.copied("", fromSnapshot)
		}, "volume new for claim default/restored is empty, not a copy of snapshot default/before (snap-1)"},
		{"I65", "a copy of another claim", func(s *scene) {
			s.claim("data", "1Gi")
			s.volume("pv", "1Gi", csiHandle("vol-1"))
			s.editClaim("data", boundTo("pv"))
			s.copied("vol-2", fromClaim)
		}, "volume new for claim default/restored is a copy of vol-2, not of claim default/data (vol-1)"},
		{"I65", "without a source", func(s *scene) { s.copied("", func(*corev1.PersistentVolumeClaim) {}) }, ""},
		{"I65", "a source that is gone", func(s *scene) { s.copied("", fromClaim) }, ""},
	})
}

func csiHandle(handle string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: handle},
		}
	}
}

func TestSnapshotSourceRules(t *testing.T) {
	playAll(t, []claimRow{
		{"I66", "a snapshot that no claim restores", func(s *scene) {
			s.snapshot(true)
			s.settle()
			s.deleteSnapshot()
			s.releaseSnapshot()
		}, ""},
		{"I66", "a snapshot that a claim restores", func(s *scene) {
			s.snapshot(true)
			s.claim("restored", "1Gi", fromSnapshot)
			s.settle()
			s.deleteSnapshot()
			s.releaseSnapshot()
		}, snapshotTask + " removed the finalizer of snapshot default/before although claim restored restores from it"},
		{"I66", "a claim of which the controller does not know", func(s *scene) {
			s.snapshot(true)
			s.settle()
			s.claim("restored", "1Gi", fromSnapshot)
			s.deleteSnapshot()
			s.releaseSnapshot()
		}, ""},
		{"I66", "a claim that is restored", func(s *scene) {
			s.snapshot(true)
			s.claim("restored", "1Gi", fromSnapshot)
			s.volume("new", "1Gi")
			s.editClaim("restored", boundTo("new"), markedBound)
			s.settle()
			s.deleteSnapshot()
			s.releaseSnapshot()
		}, ""},
		{"I66", "a claim whose snapshot is taken", func(s *scene) {
			s.heldClaim()
			s.snapshot(true)
			s.settle()
			s.releaseClaim()
		}, ""},
		{"I66", "a claim whose snapshot is being taken", func(s *scene) {
			s.heldClaim()
			s.snapshot(false)
			s.controllerSees("snapshotcontroller")
			s.releaseClaim()
		}, snapshotTask + " removed the finalizer of claim default/data although snapshot before remains to be taken"},
		{"I66", "a snapshot of which the controller does not know", func(s *scene) {
			s.heldClaim()
			s.snapshot(false)
			s.settle()
			s.releaseClaim()
		}, ""},
		{"I66", "a snapshot that is being deleted", func(s *scene) {
			s.heldClaim()
			s.snapshot(false)
			s.controllerSees("snapshotcontroller")
			s.deleteSnapshot()
			s.releaseClaim()
		}, ""},
		{"I67", "the driver has deleted it", func(s *scene) {
			s.snapshot(true)
			s.settle()
			s.deleteContent()
			s.devices.snapshots = nil
			s.releaseContent()
		}, ""},
		{"I67", "the driver has it", func(s *scene) {
			s.snapshot(true)
			s.settle()
			s.deleteContent()
			s.releaseContent()
		}, "snapshotter/contents removed the finalizer of content content, and the driver has its snapshot snap-1"},
		{"I67", "retained", func(s *scene) {
			s.snapshot(true)
			s.settle()
			s.editContent(func(o *snapshotapi.VolumeSnapshotContent) { o.Spec.DeletionPolicy = snapshotapi.Retain })
			s.deleteContent()
			s.releaseContent()
		}, ""},
		{"I67", "not being deleted", func(s *scene) {
			s.snapshot(true)
			s.settle()
			s.releaseContent()
		}, "snapshotter/contents removed the finalizer of content content, which is not being deleted"},
		{"I67", "by the user", func(s *scene) {
			s.snapshot(true)
			s.deleteContent()
			s.editContent(func(o *snapshotapi.VolumeSnapshotContent) { o.Finalizers = nil })
		}, ""},
	})
}

func TestSnapshotsEnd(t *testing.T) {
	const text = "a snapshot that is not taken, not removed, or that no content names"
	bound := func(s *scene) {
		s.claim("data", "1Gi")
		s.volume("pv", "1Gi")
		s.editClaim("data", boundTo("pv"), markedBound)
	}
	playAll(t, []claimRow{
		{"L19", "ready", func(s *scene) { bound(s); s.snapshot(true) }, ""},
		{
			"L19", "not ready", func(s *scene) { bound(s); s.snapshot(false) },
			"volumesnapshots/default/before must be ready: claim data is bound (L19)",
		},
		{"L19", "of a claim that is not bound", func(s *scene) { s.claim("data", "1Gi"); s.snapshot(false) }, ""},
		{"L19", "with an error", func(s *scene) {
			bound(s)
			s.snapshot(false)
			s.editSnapshot(func(o *snapshotapi.VolumeSnapshot) { o.Status.Error = &snapshotapi.Error{Message: ptr.To("no")} })
		}, ""},
		{
			"L19", "being deleted", func(s *scene) { s.snapshot(true); s.deleteSnapshot() },
			"volumesnapshots/default/before is being deleted, and must be gone (L19)",
		},
		{"L19", "being deleted while a claim restores from it", func(s *scene) {
			s.snapshot(true)
			s.claim("restored", "1Gi", fromSnapshot)
			s.deleteSnapshot()
		}, ""},
		{"L19", "a content that is being deleted without its snapshot", func(s *scene) {
			s.snapshot(true)
			s.deleteSnapshot()
			s.editSnapshot(func(o *snapshotapi.VolumeSnapshot) { o.Finalizers = nil })
			s.deleteContent()
		}, "volumesnapshotcontents/content is being deleted, and must be gone (L19)"},
		{"L19", "a content that is being deleted while its snapshot exists", func(s *scene) { s.snapshot(true); s.deleteContent() }, ""},
		{
			"L19", "the driver lacks it", func(s *scene) { s.snapshot(true); s.devices.snapshots = nil },
			"volumesnapshotcontents/content must not be ready: the driver has no snapshot snap-1 (L19)",
		},
		{"L19", "leaked", func(s *scene) {
			s.snapshot(true)
			s.devices.snapshots = append(s.devices.snapshots, invariant.Snapshot{Handle: "snap-2", Name: "snapshot-of-none"})
		}, "disk.example.com/snap-2 must be deleted: no content names it (L19)"},
		{"L19", "not of a VolumeSnapshot", func(s *scene) {
			s.snapshot(true)
			s.devices.snapshots = append(s.devices.snapshots, invariant.Snapshot{Handle: "snap-2", Name: "backup"})
		}, ""},
		{"L19", "retained", func(s *scene) {
			s.snapshot(true)
			s.editContent(func(o *snapshotapi.VolumeSnapshotContent) {
				o.Spec.DeletionPolicy, o.Finalizers = snapshotapi.Retain, nil
			})
			s.deleteContent()
		}, ""},
	})
	rules, err := invariant.Select("L19")
	testcheck.NoError(t, err)
	testcheck.Equal(t, "text", text, rules[0].Forbids)
}
