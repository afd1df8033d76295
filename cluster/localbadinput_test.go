package cluster_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
)

// TestBadClassesTouchNothing creates classes that are wrong while another class has a volume. Each gets
// an event that says what is wrong, the other class keeps its disks and its volume, and what is right in
// a class works. A class that is replaced works.
func TestBadClassesTouchNothing(t *testing.T) {
	c, ctx := startGroups(t), t.Context()
	testcheck.NoError(t, c.AddDisk("node-1", cluster.Disk{Path: "/dev/sdc", SizeBytes: 64 << 20, Block: true}),
		c.Apply(ctx, groupClass("fast", twoNodes)), c.Apply(ctx, groupUser("web", "fast", "10Mi")),
		c.WaitForPod(ctx, "default", "web", corev1.PodRunning), c.WriteFile("default", "web", "data", "file", []byte("mine")), c.Run(ctx))
	want := recordLines(t, c)

	for name, nodes := range map[string]string{
		"broken": `[{"node":"node-1",`,
		"key":    `[{"node":"node-1","disk":["/dev/sdc"]}]`,
		"list":   `{"node":"node-1","disks":["/dev/sdc"]}`,
		"mixed":  `[{"node":"node-9","disks":["/dev/sdb"]},{"node":"node-1","disks":["/dev/sdc"]}]`,
		"repeat": `[{"node":"node-1","disks":["/dev/sdc","/dev/sdc"]}]`,
		"twin":   twoNodes,
	} {
		testcheck.NoError(t, c.Apply(ctx, groupClass(name, nodes)))
	}
	testcheck.NoError(t, c.Run(ctx))
	want["mixed.node-1"] = "Ready 60Mi of 60Mi free, 0 volumes; /dev/sdc InUse"
	want["twin.node-1"] = "Failed 0 of 0 free, 0 volumes; /dev/sdb Refused belongs to volume group fast as /dev/sdb"
	want["twin.node-2"] = "Failed 0 of 0 free, 0 volumes; /dev/sdb Refused belongs to volume group fast as /dev/sdb" +
		"; /dev/sdc Refused belongs to volume group fast as /dev/sdc"
	wantRecords(t, c, want)
	for reason, want := range map[string][]string{
		"InvalidParameters": {
			"parameter nodes: byte 18: unexpected EOF",
			`parameter nodes: [0]: node "node-1": disks[1]: "/dev/sdc": already in disks[0]`,
			"parameter nodes: byte 1: must be a list, not object",
			`parameter nodes: json: unknown field "disk"; there are node and disks`,
		},
		"NodeNotFound": {`parameter nodes: [0]: node "node-9" does not exist`},
		"DiskRefused": {
			"node-1: /dev/sdb belongs to volume group fast as /dev/sdb",
			"node-2: /dev/sdb belongs to volume group fast as /dev/sdb; /dev/sdc belongs to volume group fast as /dev/sdc",
		},
	} {
		slices.Sort(want)
		got := eventTexts(c, reason)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reason, diff)
		}
	}
	if got, err := c.ReadFile("default", "web", "data", "file"); err != nil || string(got) != "mine" {
		t.Errorf("read %q, %v", got, err)
	}

	// The classes are corrected: one gets a free disk, the other one those of a class that has gone.
	classes := c.Client().StorageV1().StorageClasses()
	testcheck.NoError(t, classes.Delete(ctx, "mixed", metav1.DeleteOptions{}), classes.Delete(ctx, "broken", metav1.DeleteOptions{}), c.Run(ctx),
		c.Apply(ctx, groupClass("broken", `[{"node":"node-1","disks":["/dev/sdc"]}]`)), c.Run(ctx))
	delete(want, "mixed.node-1")
	want["broken.node-1"] = "Ready 60Mi of 60Mi free, 0 volumes; /dev/sdc InUse"
	wantRecords(t, c, want)
	deletePodAndClaim(ctx, t, c, "web")
	testcheck.NoError(t, c.Run(ctx), classes.Delete(ctx, "fast", metav1.DeleteOptions{}), c.Run(ctx))
	wantRecords(t, c, map[string]string{
		"broken.node-1": want["broken.node-1"],
		"twin.node-1":   "Ready 60Mi of 60Mi free, 0 volumes; /dev/sdb InUse",
		"twin.node-2":   "Ready 120Mi of 120Mi free, 0 volumes; /dev/sdb InUse; /dev/sdc InUse",
	})
}
