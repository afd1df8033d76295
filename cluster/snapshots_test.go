package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	_ "github.com/volsim/volsim/fake/crd" // for snapshots
	"github.com/volsim/volsim/internal/customresource"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// snapshotOfData is the snapshot before of claim data.
var snapshotOfData = snapshotOf("before", "data")

// snapshotOf returns the text of a snapshot of a claim.
func snapshotOf(name, claim string) string {
	return fmt.Sprintf(`
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: %s, namespace: default}
spec: {source: {persistentVolumeClaimName: %s}}
`, name, claim)
}

// restoredFrom returns a claim that is made from a snapshot.
func restoredFrom(snapshot, name, size string) *corev1.PersistentVolumeClaim {
	claim := cluster.NewClaim(name, size)
	claim.Spec.DataSource = snapshotapi.DataSource(snapshot)
	return claim
}

const (
	volumeSnapshots  = "volumesnapshots.snapshot.storage.k8s.io"
	snapshotContents = "volumesnapshotcontents.snapshot.storage.k8s.io"
	readyToUse       = "jsonpath={.status.readyToUse}=true"
)

// snapshotsOf returns a client of the snapshots.
func snapshotsOf(c *cluster.Cluster) customresource.Client[snapshotapi.VolumeSnapshot, *snapshotapi.VolumeSnapshot] {
	return snapshotapi.Snapshots.Client(c.Server().Client(c.Host().ExternalCaller()).Dynamic())
}

// TestSnapshot takes a snapshot of a claim and deletes it with the claim, in a stepped world and in a live
// one.
func TestSnapshot(t *testing.T) {
	for _, tt := range []struct {
		name    string
		stepped *sim.SteppedConfig
	}{{"stepped", &sim.SteppedConfig{StepsMax: 5000}}, {"live", nil}} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			c := start(t, cluster.Config{Snapshots: true, Devices: cluster.Array, Nodes: 1, Stepped: tt.stepped})
			add(t, c, cluster.NewClaim("data", "1Gi"))
			testcheck.NoError(t, c.WaitForClaim(ctx, "default", "data", corev1.ClaimBound), c.Apply(ctx, snapshotOfData),
				c.WaitFor(ctx, volumeSnapshots, "default", "before", readyToUse), c.WaitForRest(ctx))
			if got := len(c.Server().List(snapshotContents)); got != 1 {
				t.Errorf("%d contents, want 1", got)
			}
			testcheck.NoError(t, snapshotsOf(c).Delete(ctx, "default", "before", metav1.DeleteOptions{}), c.WaitForGone(ctx, volumeSnapshots, "default", "before"))
			if got := len(c.Server().List(snapshotContents)); got != 0 {
				t.Errorf("%d contents are left", got)
			}
		})
	}
}

// TestSnapshotClasses: the driver has default classes of snapshots and of groups from the beginning, which an
// administrator creates or which exist before.
func TestSnapshotClasses(t *testing.T) {
	for name, cfg := range map[string]cluster.Config{
		"an administrator": {}, "registered before": {PreRegistered: true}, "some components": {Components: []string{"pvcontroller"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Snapshots, cfg.Nodes, cfg.Stepped = true, 1, &sim.SteppedConfig{StepsMax: 5000}
			c := start(t, cfg)
			snapshots, groups := c.Server().List("volumesnapshotclasses.snapshot.storage.k8s.io"), c.Server().List("volumegroupsnapshotclasses.groupsnapshot.storage.k8s.io")
			testcheck.Equal(t, "classes", []int{1, 1}, []int{len(snapshots), len(groups)})
			class, group := testcheck.Must(snapshotapi.Classes.Parse(snapshots[0])), testcheck.Must(snapshotapi.GroupClasses.Parse(groups[0]))
			testcheck.Equal(t, "class of snapshots", []string{"standard", c.DriverName(), "Delete", "true"},
				[]string{class.Name, class.Driver, string(class.DeletionPolicy), class.Annotations["snapshot.storage.kubernetes.io/is-default-class"]})
			testcheck.Equal(t, "class of groups", []string{"standard", c.DriverName(), "Delete", "true"},
				[]string{group.Name, group.Driver, string(group.DeletionPolicy), group.Annotations["groupsnapshot.storage.kubernetes.io/is-default-class"]})
		})
	}
}

// TestRestoredSnapshot restores a snapshot into a claim, and finds what the volume had when the snapshot was
// taken.
func TestRestoredSnapshot(t *testing.T) {
	ctx := t.Context()
	c := start(t, cluster.Config{Snapshots: true, Devices: cluster.Array, Nodes: 1, Stepped: &sim.SteppedConfig{StepsMax: 20000}})
	add(t, c, cluster.NewClaim("data", "1Gi"), cluster.NewPod("web", "data"))
	testcheck.NoError(t, c.WaitForPod(ctx, "default", "web", corev1.PodRunning),
		c.WriteFile("default", "web", "data", "f", []byte("first")), c.Apply(ctx, snapshotOfData),
		c.WaitFor(ctx, volumeSnapshots, "default", "before", readyToUse), c.WriteFile("default", "web", "data", "f", []byte("second")))
	add(t, c, restoredFrom("before", "restored", "1Gi"), cluster.NewPod("reader", "restored"))
	testcheck.NoError(t, c.WaitForPod(ctx, "default", "reader", corev1.PodRunning))
	if got, err := c.ReadFile("default", "reader", "restored", "f"); string(got) != "first" || err != nil {
		t.Errorf("got %q, %v, want what the snapshot has", got, err)
	}
}
