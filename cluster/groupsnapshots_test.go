package cluster_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/sim"
)

const groups = "volumegroupsnapshots.groupsnapshot.storage.k8s.io"

const groupOfDatabase = `
apiVersion: groupsnapshot.storage.k8s.io/v1
kind: VolumeGroupSnapshotClass
metadata: {name: gold}
driver: ` + array.DriverName + `
deletionPolicy: Delete
---
apiVersion: groupsnapshot.storage.k8s.io/VERSION
kind: VolumeGroupSnapshot
metadata: {name: all, namespace: default}
spec: {volumeGroupSnapshotClassName: gold, source: {selector: {matchLabels: {app: db}}}}
`

// TestGroupSnapshot takes a group of two claims, in each version of the API, and deletes it.
func TestGroupSnapshot(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1", "v1beta2"} {
		t.Run(version, func(t *testing.T) {
			takeGroup(t, version, cluster.Config{Devices: cluster.Array, Stepped: &sim.SteppedConfig{StepsMax: 5000}})
		})
	}
}

// TestGroupSnapshotOnLoop takes a group of two volumes on loop devices.
func TestGroupSnapshotOnLoop(t *testing.T) { takeGroup(t, "v1", cluster.Config{Devices: cluster.Loop}) }

// takeGroup takes a group of two claims in a cluster of one node, and deletes it.
func takeGroup(t *testing.T, version string, cfg cluster.Config) {
	t.Helper()
	ctx := t.Context()
	cfg.Snapshots, cfg.Nodes = true, 1
	c := start(t, cfg)
	for _, name := range []string{"data", "log"} {
		claim := cluster.NewClaim(name, "64Mi")
		claim.Labels = map[string]string{"app": "db"}
		add(t, c, claim)
		add(t, c, cluster.NewPod("of-"+name, name))
		testcheck.NoError(t, c.WaitForPod(ctx, "default", "of-"+name, corev1.PodRunning))
	}
	count := func(resource string) int { return len(c.Server().List(resource)) }
	manifest := strings.NewReplacer("VERSION", version, array.DriverName, c.DriverName()).Replace(groupOfDatabase)
	testcheck.NoError(t, c.Apply(ctx, manifest),
		c.WaitFor(ctx, groups, "default", "all", readyToUse),
		c.Host().Wait(ctx, "ready members", func() bool { return readyMembers(c) == 2 && count(snapshotContents) == 2 }))
	client := snapshotapi.GroupSnapshots.Client(c.Server().Client(c.Host().ExternalCaller()).Dynamic())
	testcheck.NoError(t, client.Delete(ctx, "default", "all", metav1.DeleteOptions{}),
		c.Host().Wait(ctx, "all to be gone", func() bool {
			return count(groups)+count("volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io")+count(volumeSnapshots)+count(snapshotContents) == 0
		}))
}

// readyMembers returns the number of snapshots that are ready and belong to the group "all".
func readyMembers(c *cluster.Cluster) int {
	n := 0
	for _, obj := range c.Server().List(volumeSnapshots) {
		if member := testcheck.Must(snapshotapi.Snapshots.Parse(obj)); member.IsReady() && member.GroupName() == "all" && member.IsMember() {
			n++
		}
	}
	return n
}
