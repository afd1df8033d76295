package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	_ "github.com/volsim/volsim/fake/crd" // for the records of local storage
	"github.com/volsim/volsim/internal/localstorage"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/lvm"
	"github.com/volsim/volsim/sim"
)

// groupClass returns a class of local storage with the disks in JSON.
func groupClass(name, nodes string) string {
	return fmt.Sprintf(`
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: %s}
provisioner: localstorage.volsim.dev
volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: true
parameters: {nodes: '%s'}
`, name, nodes)
}

// twoNodes are the disks of the class in most tests.
const twoNodes = `[{"node":"node-1","disks":["/dev/sdb"]},{"node":"node-2","disks":["/dev/sdb","/dev/sdc"]}]`

// groupUser returns a claim of a class, and a pod that uses it.
func groupUser(name, class, size string) string {
	return strings.ReplaceAll(delayedUser(name, size), "storageClassName: local", "storageClassName: "+class)
}

// startGroups starts a stepped world with local storage and empty disks: 64Mi on node-1, twice 64Mi on node-2.
func startGroups(t *testing.T) *cluster.Cluster {
	t.Helper()
	c := start(t, cluster.Config{LocalStorage: true, Stepped: &sim.SteppedConfig{StepsMax: 20000}})
	addDisks(t, c)
	return c
}

func addDisks(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	for _, each := range []struct{ node, path string }{{"node-1", "/dev/sdb"}, {"node-2", "/dev/sdb"}, {"node-2", "/dev/sdc"}} {
		testcheck.NoError(t, c.AddDisk(each.node, cluster.Disk{Path: each.path, SizeBytes: 64 << 20, Block: true}))
	}
}

// storageRecords returns the records of local storage, by name.
func storageRecords(t *testing.T, c *cluster.Cluster) map[string]*localstorage.NodeLocalStorage {
	t.Helper()
	all := map[string]*localstorage.NodeLocalStorage{}
	for _, obj := range c.Server().List("nodelocalstorages.localstorage.volsim.dev") {
		u, err := obj.(*fake.CustomObject).Unstructured()
		testcheck.NoError(t, err)
		r := &localstorage.NodeLocalStorage{}
		testcheck.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, r))
		all[r.Name] = r
	}
	return all
}

// recordLines returns what the records say, each in a line.
func recordLines(t *testing.T, c *cluster.Cluster) map[string]string {
	t.Helper()
	lines := map[string]string{}
	for name, r := range storageRecords(t, c) {
		s := r.Status
		line := fmt.Sprintf("%s %s of %s free, %d volumes", s.Phase, &s.Free, &s.Capacity, len(s.Volumes))
		for _, disk := range s.Disks {
			line += strings.TrimRight(fmt.Sprintf("; %s %s %s", disk.Path, disk.State, disk.Message), " ")
		}
		lines[name] = line
	}
	return lines
}

func wantRecords(t *testing.T, c *cluster.Cluster, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, recordLines(t, c)); diff != "" {
		t.Fatalf("records (-want +got):\n%s\n%s", diff, tail(c.Trace().Text(), 60))
	}
}

// eventTexts returns the texts of the events with a reason.
func eventTexts(c *cluster.Cluster, reason string) []string {
	var texts []string
	for _, obj := range c.Server().List("events") {
		if e := obj.(*corev1.Event); e.Reason == reason {
			texts = append(texts, e.Message)
		}
	}
	return texts
}

func deletePodAndClaim(ctx context.Context, t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	testcheck.NoError(t, c.Client().CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}),
		c.Client().CoreV1().PersistentVolumeClaims("default").Delete(ctx, name, metav1.DeleteOptions{}))
}

// TestLocalStorageOfAClass follows a class from its disks to a pod's volume, and back to nothing.
func TestLocalStorageOfAClass(t *testing.T) {
	for name, devices := range map[string]cluster.Devices{"memory": cluster.Array, "loop devices": cluster.Loop} {
		t.Run(name, func(t *testing.T) {
			if err := errors.Join(loop.Probe(), lvm.Probe()); err != nil && devices == cluster.Loop {
				t.Skipf("volume groups on loop devices: %v", err)
			}
			c := start(t, cluster.Config{Devices: devices, LocalStorage: true, Stepped: &sim.SteppedConfig{StepsMax: 20000}})
			addDisks(t, c)
			followClass(t, c)
		})
	}
}

// followClass follows a class in a world of startGroups.
func followClass(t *testing.T, c *cluster.Cluster) {
	ctx := t.Context()
	testcheck.NoError(t, c.Apply(ctx, groupClass("fast", twoNodes)), c.Run(ctx))
	empty := map[string]string{
		"fast.node-1": "Ready 60Mi of 60Mi free, 0 volumes; /dev/sdb InUse",
		"fast.node-2": "Ready 120Mi of 120Mi free, 0 volumes; /dev/sdb InUse; /dev/sdc InUse",
	}
	wantRecords(t, c, empty)

	testcheck.NoError(t, c.Apply(ctx, groupUser("web", "fast", "10Mi")), c.WaitForPod(ctx, "default", "web", corev1.PodRunning),
		c.WriteFile("default", "web", "data", "secret", []byte("mine")), c.Run(ctx))
	node, volume := placedOn(t, c, "web")
	if node != "node-2" { // which has more space
		t.Fatalf("placed on %s", node)
	}
	used := map[string]string{
		"fast.node-1": empty["fast.node-1"], "fast.node-2": "Ready 108Mi of 120Mi free, 1 volumes; /dev/sdb InUse; /dev/sdc InUse",
	}
	wantRecords(t, c, used)
	obj, _ := c.Server().Get("persistentvolumes", "", volume)
	pv := obj.(*corev1.PersistentVolume)
	if pv.Spec.Local == nil || pv.Spec.Local.Path != "/dev/fast/"+volume || pv.Spec.Capacity.Storage().String() != "12Mi" {
		t.Errorf("volume %+v", pv.Spec)
	}

	deletePodAndClaim(ctx, t, c, "web")
	testcheck.NoError(t, c.Run(ctx))
	wantRecords(t, c, empty)
	if left := c.Server().List("persistentvolumes"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	testcheck.NoError(t, c.Client().StorageV1().StorageClasses().Delete(ctx, "fast", metav1.DeleteOptions{}), c.Run(ctx))
	wantRecords(t, c, map[string]string{})
	// The disks are empty again: another class may have them.
	testcheck.NoError(t, c.Apply(ctx, groupClass("other", twoNodes)), c.Run(ctx))
	wantRecords(t, c, map[string]string{"other.node-1": empty["fast.node-1"], "other.node-2": empty["fast.node-2"]})
}

// TestFullNodeClearsTheSelectedNode has a record that shows more space than there is. The record is true
// before the selected node is removed, and the pod goes to another node at the second attempt.
func TestFullNodeClearsTheSelectedNode(t *testing.T) {
	c, ctx := startGroups(t), t.Context()
	testcheck.NoError(t, c.Apply(ctx, groupClass("fast", twoNodes)), c.Run(ctx))
	resource := testcheck.Must(dynamic.NewForConfig(c.RESTConfig())).
		Resource(schema.GroupVersionResource{Group: "localstorage.volsim.dev", Version: "v1alpha1", Resource: "nodelocalstorages"})
	_, err := resource.Patch(ctx, "fast.node-1", types.MergePatchType,
		[]byte(`{"status":{"free":"200Mi","maximumVolumeSize":"200Mi"}}`), metav1.PatchOptions{}, "status")
	selected := selectionsOf(c, "web")
	testcheck.NoError(t, err, c.Apply(ctx, groupUser("web", "fast", "100Mi")), c.Run(ctx))
	if diff := cmp.Diff([]string{"node-1", "", "node-2"}, *selected); diff != "" {
		t.Errorf("selected nodes (-want +got):\n%s\n%s", diff, tail(c.Trace().Text(), 80))
	}
	if got := eventTexts(c, "ProvisioningFailed"); len(got) != 1 ||
		!strings.Contains(got[0], "create logical volume of 100Mi on node-1: too little free space: 60Mi free, 100Mi needed") {
		t.Errorf("events %q", got)
	}
	if node, _ := placedOn(t, c, "web"); node != "node-2" {
		t.Errorf("placed on %q", node)
	}
	wantRecords(t, c, map[string]string{
		"fast.node-1": "Ready 60Mi of 60Mi free, 0 volumes; /dev/sdb InUse",
		"fast.node-2": "Ready 20Mi of 120Mi free, 1 volumes; /dev/sdb InUse; /dev/sdc InUse",
	})
}

// selectionsOf returns the selected nodes of a claim, one after the other, from now on.
func selectionsOf(c *cluster.Cluster, claim string) *[]string {
	var nodes []string
	last := ""
	c.Server().OnCommit(func(made fake.Commit) {
		obj, is := made.After.(*corev1.PersistentVolumeClaim)
		if !is || obj.Name != claim || obj.Annotations[storagehelpers.AnnSelectedNode] == last {
			return
		}
		last = obj.Annotations[storagehelpers.AnnSelectedNode]
		nodes = append(nodes, last)
	})
	return &nodes
}

// TestDisksOfAClass has disks that must not be touched, that come later, and that a class no longer
// names.
func TestDisksOfAClass(t *testing.T) {
	c, ctx := startGroups(t), t.Context()
	machine, err := c.Machine("node-2")
	testcheck.NoError(t, err)
	testcheck.NoError(t, machine.FS.MkdirAll(machine.Path("/mnt/mounted")), machine.FS.WriteFile(machine.Path("/dev/file"), nil),
		machine.FS.FormatAndMount(ctx, machine.Path("/dev/sdb"), machine.Path("/mnt/mounted"), "ext4", nil),
		machine.FS.FormatAndMount(ctx, machine.Path("/dev/sdc"), machine.Path("/mnt/mounted"), "xfs", nil),
		machine.FS.Unmount(machine.Path("/mnt/mounted")))
	disks := func(nodes string) {
		t.Helper()
		testcheck.NoError(t, c.Client().StorageV1().StorageClasses().Delete(ctx, "fast", metav1.DeleteOptions{}),
			c.Apply(ctx, groupClass("fast", nodes)), c.Run(ctx))
	}
	testcheck.NoError(t, c.Apply(ctx, groupClass("fast", `[{"node":"node-2","disks":["/dev/sdb","/dev/sdc","/dev/file","/dev/sdd"]}]`)), c.Run(ctx))
	refused := "; /dev/sdb Refused is mounted at /mnt/mounted; /dev/sdc Refused has a file system: xfs; /dev/file Refused is not a block device"
	wantRecords(t, c, map[string]string{"fast.node-2": "Failed 0 of 0 free, 0 volumes" + refused + "; /dev/sdd Missing does not exist"})
	if got := eventTexts(c, "DiskRefused"); len(got) != 1 || got[0] != "node-2: /dev/sdb is mounted at /mnt/mounted; /dev/sdc has a file system: xfs; "+
		"/dev/file is not a block device; /dev/sdd does not exist" {
		t.Errorf("events %q", got)
	}
	testcheck.NoError(t, c.AddDisk("node-2", cluster.Disk{Path: "/dev/sdd", SizeBytes: 64 << 20, Block: true}), c.Run(ctx))
	wantRecords(t, c, map[string]string{"fast.node-2": "Ready 60Mi of 60Mi free, 0 volumes" + refused + "; /dev/sdd InUse"})

	// The class moves to another node while a volume is on this one.
	testcheck.NoError(t, c.Apply(ctx, groupUser("web", "fast", "10Mi")), c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
	disks(`[{"node":"node-1","disks":["/dev/sdb"]}]`)
	kept := map[string]string{
		"fast.node-1": "Ready 60Mi of 60Mi free, 0 volumes; /dev/sdb InUse",
		"fast.node-2": "Ready 48Mi of 60Mi free, 1 volumes; /dev/sdd InUse",
	}
	wantRecords(t, c, kept)
	if got := eventTexts(c, "DiskInUse"); len(got) == 0 || !strings.Contains(got[len(got)-1], "node-2: volume group fast is kept while it has volumes: pvc-") {
		t.Errorf("events %q", got)
	}
	deletePodAndClaim(ctx, t, c, "web")
	testcheck.NoError(t, c.Run(ctx))
	delete(kept, "fast.node-2")
	wantRecords(t, c, kept)
}

// TestVolumesSurviveAReboot reads what was written before the reboot of a node.
func TestVolumesOfGroupsSurviveAReboot(t *testing.T) {
	c, ctx := startGroups(t), t.Context()
	testcheck.NoError(t, c.Apply(ctx, groupClass("fast", twoNodes)), c.Apply(ctx, groupUser("web", "fast", "10Mi")),
		c.WaitForPod(ctx, "default", "web", corev1.PodRunning), c.WriteFile("default", "web", "data", "file", []byte("mine")),
		c.Reboot("node-2"), c.Run(ctx))
	if got, err := c.ReadFile("default", "web", "data", "file"); err != nil || string(got) != "mine" {
		t.Errorf("read %q, %v", got, err)
	}
}

// TestManagerCrashes crashes the manager of a node after every third of its actions, while a volume is
// created and removed. In the end nothing is left but an empty group.
func TestManagerCrashes(t *testing.T) {
	const component = "localstorage(node-2)"
	for n := 1; ; n += 3 {
		c, ctx := startGroups(t), t.Context()
		testcheck.NoError(t, c.Apply(ctx, groupClass("fast", twoNodes)), c.Apply(ctx, groupUser("web", "fast", "10Mi")))
		host := c.Host().(*sim.Stepped)
		count := func() int {
			all := 0
			for _, r := range host.Log().Records() {
				if strings.HasPrefix(r.Task, component) {
					all++
				}
			}
			return all
		}
		crashed := false
		run := func() {
			for !crashed && count() < n && host.Step() {
			}
			if !crashed && count() >= n {
				crashed = true
				testcheck.NoError(t, c.Crash(component))
			}
			testcheck.NoError(t, c.Run(ctx))
		}
		run()
		if node, _ := placedOn(t, c, "web"); node != "node-2" {
			t.Fatalf("crash after action %d: placed on %q\n%s", n, node, tail(c.Trace().Text(), 60))
		}
		deletePodAndClaim(ctx, t, c, "web")
		run()
		wantRecords(t, c, map[string]string{
			"fast.node-1": "Ready 60Mi of 60Mi free, 0 volumes; /dev/sdb InUse",
			"fast.node-2": "Ready 120Mi of 120Mi free, 0 volumes; /dev/sdb InUse; /dev/sdc InUse",
		})
		if left := c.Server().List("persistentvolumes"); len(left) > 0 {
			t.Fatalf("crash after action %d: left: %v", n, left)
		}
		if !crashed {
			if n < 20 {
				t.Errorf("only %d actions", n)
			}
			return
		}
	}
}

// TestVolumesOfGroupsGrow grows a volume with its file system, beyond the free space, and once there
// is more. Nothing is lost.
func TestVolumesOfGroupsGrow(t *testing.T) {
	c, ctx := startGroups(t), t.Context()
	grow := func(size string) *corev1.PersistentVolumeClaim {
		t.Helper()
		_, err := c.Client().CoreV1().PersistentVolumeClaims("default").Patch(ctx, "web", types.MergePatchType,
			[]byte(`{"spec":{"resources":{"requests":{"storage":"`+size+`"}}}}`), metav1.PatchOptions{})
		testcheck.NoError(t, err, c.Run(ctx))
		claim, err := c.Client().CoreV1().PersistentVolumeClaims("default").Get(ctx, "web", metav1.GetOptions{})
		testcheck.NoError(t, err)
		return claim
	}
	disks := `[{"node":"node-2","disks":["/dev/sdb"]}]`
	testcheck.NoError(t, c.Apply(ctx, groupClass("fast", disks)), c.Apply(ctx, groupUser("web", "fast", "10Mi")),
		c.WaitForPod(ctx, "default", "web", corev1.PodRunning), c.WriteFile("default", "web", "data", "file", []byte("mine")), c.Run(ctx))

	claim := grow("20Mi")
	if got := claim.Status.Capacity.Storage().String(); got != "20Mi" || len(claim.Status.Conditions) > 0 {
		t.Errorf("capacity %s, conditions %+v\n%s", got, claim.Status.Conditions, tail(c.Trace().Text(), 60))
	}
	wantRecords(t, c, map[string]string{"fast.node-2": "Ready 40Mi of 60Mi free, 1 volumes; /dev/sdb InUse"})

	claim = grow("100Mi")
	if got := claim.Status.Capacity.Storage().String(); got != "20Mi" || claim.Status.AllocatedResourceStatuses["storage"] != corev1.PersistentVolumeClaimControllerResizeInfeasible {
		t.Errorf("capacity %s, status %+v", got, claim.Status)
	}
	volume := claim.Spec.VolumeName
	if got := eventTexts(c, "VolumeResizeFailed"); len(got) != 1 || !strings.HasPrefix(got[0], `resize volume "`+volume+`" by resizer "localstorage.volsim.dev" failed: too little free space: 40Mi free, 80Mi needed`) {
		t.Errorf("events %q", got)
	}
	// The class gets another disk. The provisioner's parameters are immutable: the class is replaced.
	testcheck.NoError(t, c.Client().StorageV1().StorageClasses().Delete(ctx, "fast", metav1.DeleteOptions{}),
		c.Apply(ctx, groupClass("fast", `[{"node":"node-2","disks":["/dev/sdb","/dev/sdc"]}]`)), c.Run(ctx))
	claim, err := c.Client().CoreV1().PersistentVolumeClaims("default").Get(ctx, "web", metav1.GetOptions{})
	if got := claim.Status.Capacity.Storage().String(); err != nil || got != "100Mi" || len(claim.Status.Conditions) > 0 {
		t.Errorf("capacity %s, conditions %+v, %v\n%s", got, claim.Status.Conditions, err, tail(c.Trace().Text(), 60))
	}
	wantRecords(t, c, map[string]string{"fast.node-2": "Ready 20Mi of 120Mi free, 1 volumes; /dev/sdb InUse; /dev/sdc InUse"})
	if got, err := c.ReadFile("default", "web", "data", "file"); err != nil || string(got) != "mine" {
		t.Errorf("read %q, %v", got, err)
	}
}
