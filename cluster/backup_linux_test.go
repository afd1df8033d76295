package cluster_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/customresource"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/lvm"
	"github.com/volsim/volsim/sim"
)

// A callKiller follows the default order, and kills a component after each of its calls: of the same call
// on the same object only after the first.
type callKiller struct {
	*sim.ReplayStrategy
	component string
	killed    map[string]bool
	due       bool
}

func (k *callKiller) Decide(d *sim.Decision) sim.Move {
	if k.due {
		k.due = false
		return sim.Move{Event: "crash " + k.component}
	}
	move := k.ReplayStrategy.Decide(d)
	if move.Event != "" {
		return move
	}
	task := d.Task(move.Option)
	action, calls := task.Pending()
	call := action.Verb + " " + action.Object
	if calls && strings.HasPrefix(task.Name(), k.component+"/") && !k.killed[call] {
		k.killed[call], k.due = true, true
	}
	return move
}

// A backup is a cluster in whose flows no status is written by the test.
type backup struct {
	users
	home, away string // nodes
}

// eachBackup runs a flow on each kind of devices, and kills the snapshot controller after each of its calls. On the
// array it does the same to the sidecars.
func eachBackup(t *testing.T, kills int, flow func(b backup)) {
	t.Helper()
	testcheck.Stepped(t)
	for _, each := range []struct {
		devices   cluster.Devices
		component string
		kills     int
		probe     func() error
	}{
		{cluster.Array, "snapshotcontroller", kills, func() error { return nil }},
		{cluster.Array, "snapshotter", 3, func() error { return nil }},
		{cluster.Array, "provisioner", 8, func() error { return nil }},
		{cluster.Loop, "snapshotcontroller", kills, loop.Probe},
		{cluster.LVM, "snapshotcontroller", kills, lvm.Probe},
	} {
		t.Run(string(each.devices)+"/"+each.component, func(t *testing.T) {
			if err := each.probe(); err != nil {
				t.Skipf("devices %s: %v", each.devices, err)
			}
			k := &callKiller{ReplayStrategy: sim.NewReplayStrategy(nil), component: each.component, killed: map[string]bool{}}
			b := backup{
				users: newUsers(t, cluster.Config{Devices: each.devices, Snapshots: true, Stepped: &sim.SteppedConfig{}}),
				home:  "node-1", away: "node-2",
			}
			if each.devices == cluster.LVM { // a volume stays on its node
				b.away = b.home
			}
			b.Host().(*sim.Stepped).SetStrategy(k)
			flow(b)
			if len(k.killed) < each.kills {
				t.Errorf("%s was killed %d times, want %d", each.component, len(k.killed), each.kills)
			}
		})
	}
}

// labelled returns a claim with the label app=db.
func labelled(name string) *corev1.PersistentVolumeClaim {
	claim := cluster.NewClaim(name, "24Mi")
	claim.Labels = map[string]string{"app": "db"}
	return claim
}

func (b backup) dynamic() dynamic.Interface {
	return b.Server().Client(b.Host().ExternalCaller()).Dynamic()
}

func (b backup) contents() customresource.Client[snapshotapi.VolumeSnapshotContent, *snapshotapi.VolumeSnapshotContent] {
	return snapshotapi.Contents.Client(b.dynamic())
}

func (b backup) writes(pod, claim, word string) {
	b.Helper()
	testcheck.NoError(b, b.WriteFile("default", pod, claim, "pattern", pattern(word)))
}

func (b backup) reads(pod, claim, word string) {
	b.Helper()
	found, err := b.ReadFile("default", pod, claim, "pattern")
	testcheck.NoError(b, err)
	if sha256.Sum256(found) != sha256.Sum256(pattern(word)) {
		b.Errorf("pod %s does not read the %s pattern from claim %s", pod, word, claim)
	}
}

func (b backup) apply(text string) {
	b.Helper()
	testcheck.NoError(b, b.Apply(b.ctx, text))
}

// ready waits until a snapshot is ready, and returns it.
func (b backup) ready(name string) *snapshotapi.VolumeSnapshot {
	b.Helper()
	testcheck.NoError(b, b.WaitFor(b.ctx, volumeSnapshots, "default", name, readyToUse))
	return testcheck.Must(snapshotsOf(b.Cluster).Get(b.ctx, "default", name))
}

// deletes deletes objects of snapshots, and waits until they are gone.
func (b backup) deletes(resource, namespace string, names ...string) {
	b.Helper()
	delete := map[string]func(ctx context.Context, namespace, name string, opts metav1.DeleteOptions) error{
		volumeSnapshots:  snapshotsOf(b.Cluster).Delete,
		snapshotContents: b.contents().Delete,
		groups:           snapshotapi.GroupSnapshots.Client(b.dynamic()).Delete,
	}[resource]
	for _, name := range names {
		testcheck.NoError(b, delete(b.ctx, namespace, name, metav1.DeleteOptions{}), b.WaitForGone(b.ctx, resource, namespace, name))
	}
}

// nightly is a group of snapshots of the default class.
const nightly = `
apiVersion: groupsnapshot.storage.k8s.io/v1
kind: VolumeGroupSnapshot
metadata: {name: nightly, namespace: default}
spec: {source: {selector: {matchLabels: {app: db}}}}
`

// TestGroupBackup is the backup of a database pod with two volumes by a group snapshot, restored for a pod on
// another node. Data is that of the moment of the snapshot.
func TestGroupBackup(t *testing.T) {
	eachBackup(t, 30, func(b backup) {
		b.claims(labelled("data"), labelled("log"))
		b.runs(b.home, "db", "data", "log")
		b.writes("db", "data", "first data")
		b.writes("db", "log", "first log")
		b.apply(nightly)
		testcheck.NoError(b, b.WaitFor(b.ctx, groups, "default", "nightly", readyToUse))
		b.writes("db", "data", "second data")
		b.writes("db", "log", "second log")
		members := b.members()
		for _, claim := range []string{"data", "log"} {
			b.claims(restoredFrom(members[claim], claim+"-restored", "24Mi"))
		}
		b.runs(b.away, "restored", "data-restored", "log-restored")
		for _, claim := range []string{"data", "log"} {
			b.reads("restored", claim+"-restored", "first "+claim)
			b.reads("db", claim, "second "+claim)
		}
		b.deletes(groups, "default", "nightly")
		b.ends("db", "restored")
		b.removes("data", "log", "data-restored", "log-restored")
	})
}

// members returns the snapshots of the group, by claim.
func (b backup) members() map[string]string {
	b.Helper()
	claims, all := map[string]string{}, map[string]string{}
	for _, obj := range b.Server().List(volumeSnapshots) {
		b.ready(obj.GetName())
	}
	for _, claim := range []string{"data", "log"} {
		claims[b.volumeOf(claim).Spec.CSI.VolumeHandle] = claim
	}
	content := testcheck.Must(snapshotapi.GroupContents.Parse(b.Server().List("volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io")[0]))
	for _, info := range content.Status.VolumeSnapshotInfoList {
		for _, obj := range b.Server().List(snapshotContents) {
			member := testcheck.Must(snapshotapi.Contents.Parse(obj))
			if *member.Status.SnapshotHandle == info.SnapshotHandle {
				all[claims[info.VolumeHandle]] = member.Spec.VolumeSnapshotRef.Name
			}
		}
	}
	return all
}

// TestReplicationFlow is what volsync does: a snapshot of the source becomes a claim that a mover reads, which
// writes to the destination, whose snapshot is the latest image. The next round replaces it.
func TestReplicationFlow(t *testing.T) {
	eachBackup(t, 25, func(b backup) {
		b.claims(cluster.NewClaim("source", "24Mi"), cluster.NewClaim("destination", "24Mi"))
		b.runs(b.home, "app", "source")
		for round := range 2 {
			word := fmt.Sprint("round ", round)
			b.writes("app", "source", word)
			b.apply(snapshotOf("volsync-src", "source"))
			b.ready("volsync-src")
			b.claims(restoredFrom("volsync-src", "volsync-src", "24Mi"))
			b.runs(b.home, "mover", "volsync-src", "destination")
			b.reads("mover", "volsync-src", word)
			b.writes("mover", "destination", word)
			b.ends("mover")
			b.deletes(volumeSnapshots, "default", "volsync-src")
			testcheck.NoError(b, b.Client().CoreV1().PersistentVolumeClaims("default").Delete(b.ctx, "volsync-src", metav1.DeleteOptions{}),
				b.WaitForGone(b.ctx, "persistentvolumeclaims", "default", "volsync-src"))
			b.apply(snapshotOf(fmt.Sprint("image-", round), "destination"))
			b.ready(fmt.Sprint("image-", round))
		}
		b.deletes(volumeSnapshots, "default", "image-0")
		b.claims(restoredFrom("image-1", "restored", "24Mi"))
		b.runs(b.away, "reader", "restored")
		b.reads("reader", "restored", "round 1")
		b.deletes(volumeSnapshots, "default", "image-1")
		b.ends("app", "reader")
		b.removes("source", "destination", "restored")
	})
}

// TestBackupFlow is what velero does: the snapshot's content is retained and its VolumeSnapshot deleted with the
// application; later a content and a VolumeSnapshot are created for the driver's snapshot, and the claim
// restores from it. When the backup ends, the content is deleted with its snapshot.
func TestBackupFlow(t *testing.T) {
	eachBackup(t, 12, func(b backup) {
		b.claims(cluster.NewClaim("data", "24Mi"))
		b.runs(b.home, "app", "data")
		b.writes("app", "data", "backed up")
		b.apply(snapshotOf("velero-data", "data"))
		taken := b.ready("velero-data")
		b.setPolicy(taken.BoundContent(), snapshotapi.Retain)
		content := testcheck.Must(b.contents().Get(b.ctx, "", taken.BoundContent()))
		b.ends("app")
		testcheck.NoError(b, b.Client().CoreV1().PersistentVolumeClaims("default").Delete(b.ctx, "data", metav1.DeleteOptions{}),
			b.WaitForGone(b.ctx, "persistentvolumeclaims", "default", "data"))
		b.deletes(volumeSnapshots, "default", "velero-data")
		b.deletes(snapshotContents, "", content.Name)

		b.existing("velero-data", *content.Status.SnapshotHandle)
		b.ready("velero-data")
		b.claims(restoredFrom("velero-data", "data", "24Mi"))
		b.runs(b.away, "app", "data")
		b.reads("app", "data", "backed up")
		b.deletes(volumeSnapshots, "default", "velero-data")
		testcheck.NoError(b, b.WaitForGone(b.ctx, snapshotContents, "", "velero-data"))
		b.ends("app")
		b.removes("data")
	})
}

// setPolicy sets the deletion policy of a content.
func (b backup) setPolicy(content string, policy snapshotapi.DeletionPolicy) {
	b.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"deletionPolicy":%q}}`, policy)
	_, err := b.contents().Patch(b.ctx, "", content, types.MergePatchType, patch)
	testcheck.NoError(b, err)
}

// existing creates a content for a snapshot of the driver, and a VolumeSnapshot for that.
func (b backup) existing(name, handle string) {
	b.Helper()
	_, err := b.contents().Create(b.ctx, &snapshotapi.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: snapshotapi.ContentSpec{
			VolumeSnapshotRef: corev1.ObjectReference{Namespace: "default", Name: name}, DeletionPolicy: snapshotapi.Delete,
			Driver: b.DriverName(), Source: snapshotapi.ContentSource{SnapshotHandle: &handle},
		},
	})
	testcheck.NoError(b, err)
	_, err = snapshotsOf(b.Cluster).Create(b.ctx, &snapshotapi.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       snapshotapi.SnapshotSpec{Source: snapshotapi.SnapshotSource{VolumeSnapshotContentName: &name}},
	})
	testcheck.NoError(b, err)
}
