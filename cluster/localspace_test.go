package cluster_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// spaceNotice returns the notice of space at a claim, "" if it has none.
func spaceNotice(t *testing.T, c *cluster.Cluster, claim string) string {
	t.Helper()
	obj, err := c.Client().CoreV1().PersistentVolumeClaims("default").Get(t.Context(), claim, metav1.GetOptions{})
	testcheck.NoError(t, err)
	return obj.Annotations["localstorage.volsim.dev/space"]
}

// wantPending checks that a pod has no node because of the extender.
func wantPending(t *testing.T, c *cluster.Cluster, name string, reasons ...string) {
	t.Helper()
	pod := pendingPod(t, c, name)
	message := ""
	for _, condition := range pod.Status.Conditions {
		message += condition.Message
	}
	missing := slices.ContainsFunc(reasons, func(reason string) bool { return !strings.Contains(message, reason) })
	if pod.Spec.NodeName != "" || missing {
		t.Errorf("pod %s on %q: %q, want %q", name, pod.Spec.NodeName, message, reasons)
	}
}

// TestClaimWaitsForSpace has a claim that fits nowhere until others are deleted: once a volume is removed,
// and once a claim without a volume gives up its promise. A claim that still fits nowhere is not written.
func TestClaimWaitsForSpace(t *testing.T) {
	c, ctx := startGroups(t), t.Context()
	testcheck.NoError(t, c.Apply(ctx, groupClass("fast", twoNodes)), c.Run(ctx))
	for _, name := range []string{"a", "b", "c"} {
		testcheck.NoError(t, c.Apply(ctx, groupUser(name, "fast", "60Mi")), c.Run(ctx))
	}
	testcheck.NoError(t, c.Apply(ctx, groupUser("large", "fast", "100Mi")), c.Apply(ctx, groupUser("small", "fast", "40Mi")), c.Run(ctx))
	full := map[string]string{
		"fast.node-1": "Ready 0 of 60Mi free, 1 volumes; /dev/sdb InUse",
		"fast.node-2": "Ready 0 of 120Mi free, 2 volumes; /dev/sdb InUse; /dev/sdc InUse",
	}
	wantRecords(t, c, full)
	wantPending(t, c, "small", "node-1: 0 free in class fast, 40Mi requested", "node-2: 0 free in class fast, 40Mi requested")

	node, _ := placedOn(t, c, "a")
	deletePodAndClaim(ctx, t, c, "a")
	testcheck.NoError(t, c.Run(ctx))
	if got, _ := placedOn(t, c, "small"); got != node {
		t.Errorf("placed on %q, want %q\n%s", got, node, tail(c.Trace().Text(), 60))
	}
	if got := spaceNotice(t, c, "large"); got != "" {
		t.Errorf("notice %q", got)
	}

	// The space of node-2 is promised to a claim whose volume is not made.
	testcheck.NoError(t, c.Stop("localstorage(node-2)"))
	for _, name := range []string{"b", "c", "small"} {
		if node, _ := placedOn(t, c, name); node == "node-2" {
			deletePodAndClaim(ctx, t, c, name)
		}
	}
	testcheck.NoError(t, c.Run(ctx), c.Resume("localstorage(node-2)"), c.Run(ctx))
	if got, _ := placedOn(t, c, "large"); got != "node-2" {
		t.Errorf("placed on %q\n%s", got, tail(c.Trace().Text(), 60))
	}
}

// TestDiskComesLate has claims that wait for a disk. No object that the scheduler watches changes with it.
func TestDiskComesLate(t *testing.T) {
	c, ctx := startGroups(t), t.Context()
	testcheck.NoError(t, c.Apply(ctx, groupClass("fast", `[{"node":"node-2","disks":["/dev/sdd"]}]`)), c.Run(ctx),
		c.Apply(ctx, groupUser("web", "fast", "40Mi")), c.Apply(ctx, groupUser("large", "fast", "100Mi")), c.Run(ctx))
	wantPending(t, c, "web", "node-2: local storage of class fast is not ready")
	testcheck.NoError(t, c.AddDisk("node-2", cluster.Disk{Path: "/dev/sdd", SizeBytes: 64 << 20, Block: true}), c.Run(ctx))
	if node, _ := placedOn(t, c, "web"); node != "node-2" {
		t.Errorf("placed on %q\n%s", node, tail(c.Trace().Text(), 60))
	}
	if web, large := spaceNotice(t, c, "web"), spaceNotice(t, c, "large"); web != "node-2: 60Mi free (1)" || large != "" {
		t.Errorf("notices %q and %q", web, large)
	}
}

// TestPromiseEnds has a claim that waits for space that is promised to another, whose pod and claim are deleted
// before it has a volume.
func TestPromiseEnds(t *testing.T) {
	c, ctx := startGroups(t), t.Context()
	testcheck.NoError(t, c.Apply(ctx, groupClass("fast", twoNodes)), c.Run(ctx), c.Stop("localstorage(node-2)"),
		c.Apply(ctx, groupUser("promised", "fast", "100Mi")), c.Run(ctx),
		c.Apply(ctx, groupUser("web", "fast", "100Mi")), c.Run(ctx))
	wantPending(t, c, "web", "node-2: 20Mi free in class fast, 100Mi requested")
	deletePodAndClaim(ctx, t, c, "promised")
	testcheck.NoError(t, c.Run(ctx), c.Resume("localstorage(node-2)"), c.Run(ctx))
	if node, _ := placedOn(t, c, "web"); node != "node-2" {
		t.Errorf("placed on %q\n%s", node, tail(c.Trace().Text(), 60))
	}
}

// TestClassAndPodAtOnce has a pod that is scheduled before there is a record. It goes to the only node with
// disks, at its first attempt with a record.
func TestClassAndPodAtOnce(t *testing.T) {
	c, ctx := startGroups(t), t.Context()
	selected := selectionsOf(c, "web")
	testcheck.NoError(t, c.Apply(ctx, groupClass("fast", `[{"node":"node-2","disks":["/dev/sdb"]}]`)),
		c.Apply(ctx, groupUser("web", "fast", "30Mi")), c.Run(ctx))
	if diff := cmp.Diff([]string{"node-2"}, *selected); diff != "" {
		t.Errorf("selected nodes (-want +got):\n%s\n%s", diff, tail(c.Trace().Text(), 80))
	}
	if node, _ := placedOn(t, c, "web"); node != "node-2" {
		t.Errorf("placed on %q", node)
	}
}

// TestTwoClaimsRace has two claims for the last space. One waits, and has it once the other is deleted.
func TestTwoClaimsRace(t *testing.T) {
	c, ctx := startGroups(t), t.Context()
	testcheck.NoError(t, c.Apply(ctx, groupClass("fast", twoNodes)), c.Run(ctx),
		c.Apply(ctx, groupUser("a", "fast", "100Mi")), c.Apply(ctx, groupUser("b", "fast", "100Mi")), c.Run(ctx))
	won, waits := "a", "b"
	if pendingPod(t, c, "a").Spec.NodeName == "" {
		won, waits = waits, won
	}
	if node, _ := placedOn(t, c, won); node != "node-2" {
		t.Errorf("%s placed on %q", won, node)
	}
	wantPending(t, c, waits, "node-1: 60Mi free", "node-2: 20Mi free")
	deletePodAndClaim(ctx, t, c, won)
	testcheck.NoError(t, c.Run(ctx))
	if node, _ := placedOn(t, c, waits); node != "node-2" {
		t.Errorf("%s placed on %q\n%s", waits, node, tail(c.Trace().Text(), 60))
	}
}

// TestExtenderIsDown stops the extender. Pods are placed without it; a full node is cleared, and the pod goes
// to another once the extender runs again.
func TestExtenderIsDown(t *testing.T) {
	c, ctx := startGroups(t), t.Context()
	testcheck.NoError(t, c.Apply(ctx, groupClass("fast", twoNodes)), c.Run(ctx), c.Stop("localstorage"),
		c.Apply(ctx, groupUser("small", "fast", "10Mi")), c.WaitForPod(ctx, "default", "small", corev1.PodRunning))
	if node, _ := placedOn(t, c, "small"); node != "node-1" {
		t.Errorf("placed on %q", node)
	}
	selected := selectionsOf(c, "web")
	testcheck.NoError(t, c.Apply(ctx, groupUser("web", "fast", "100Mi")))
	host := c.Host().(*sim.Stepped)
	for !slices.Contains(*selected, "") && host.Step() {
	}
	testcheck.NoError(t, c.Resume("localstorage"), c.Run(ctx))
	if node, _ := placedOn(t, c, "web"); node != "node-2" {
		t.Errorf("placed on %q, selected %q", node, *selected)
	}
}

// TestManagerIsDown has a claim whose volume is made when the manager of its node runs again.
func TestManagerIsDown(t *testing.T) {
	c, ctx := startGroups(t), t.Context()
	testcheck.NoError(t, c.Apply(ctx, groupClass("fast", twoNodes)), c.Run(ctx), c.Stop("localstorage(node-2)"))
	selected := selectionsOf(c, "web")
	testcheck.NoError(t, c.Apply(ctx, groupUser("web", "fast", "100Mi")), c.Run(ctx))
	if node := pendingPod(t, c, "web").Spec.NodeName; node != "" {
		t.Errorf("placed on %q", node)
	}
	testcheck.NoError(t, c.Resume("localstorage(node-2)"), c.Run(ctx))
	if node, _ := placedOn(t, c, "web"); node != "node-2" || !cmp.Equal(*selected, []string{"node-2"}) {
		t.Errorf("placed on %q, selected %q", node, *selected)
	}
}

// TestDiskIsLost loses a disk of a group. Its volumes stay, none is created or grown, and claims wait until the
// disk is back.
func TestDiskIsLost(t *testing.T) {
	c, ctx := startGroups(t), t.Context()
	testcheck.NoError(t, c.Apply(ctx, groupClass("fast", `[{"node":"node-2","disks":["/dev/sdb","/dev/sdc"]}]`)), c.Run(ctx),
		c.Apply(ctx, groupUser("web", "fast", "10Mi")), c.WaitForPod(ctx, "default", "web", corev1.PodRunning),
		c.WriteFile("default", "web", "data", "file", []byte("mine")), c.Run(ctx))
	for _, wrong := range [][2]string{{"node-2", "/dev/sdx"}, {"node-9", "/dev/sdc"}} {
		if err := c.LoseDisk(wrong[0], wrong[1]); err == nil {
			t.Errorf("lost a disk %q", wrong)
		}
	}
	testcheck.NoError(t, c.LoseDisk("node-2", "/dev/sdc"), c.Apply(ctx, groupUser("other", "fast", "10Mi")), c.Run(ctx))
	_, err := c.Client().CoreV1().PersistentVolumeClaims("default").Patch(ctx, "web", types.MergePatchType,
		[]byte(`{"spec":{"resources":{"requests":{"storage":"20Mi"}}}}`), metav1.PatchOptions{})
	testcheck.NoError(t, err, c.Run(ctx))
	wantRecords(t, c, map[string]string{"fast.node-2": "Degraded 108Mi of 120Mi free, 1 volumes; /dev/sdb InUse; /dev/sdc Lost is another disk"})
	if got := eventTexts(c, "DiskLost"); len(got) != 1 || got[0] != "node-2: /dev/sdc is another disk" {
		t.Errorf("events %q", got)
	}
	wantPending(t, c, "other", "node-2: local storage of class fast is not ready")
	claim := testcheck.Must(c.Client().CoreV1().PersistentVolumeClaims("default").Get(ctx, "web", metav1.GetOptions{}))
	if got := claim.Status.Capacity.Storage().String(); got != "12Mi" {
		t.Errorf("capacity %s", got)
	}
	if got, err := c.ReadFile("default", "web", "data", "file"); err != nil || string(got) != "mine" {
		t.Errorf("read %q, %v", got, err)
	}

	testcheck.NoError(t, c.Reboot("node-2"), c.Run(ctx))
	if node, _ := placedOn(t, c, "other"); node != "node-2" {
		t.Errorf("placed on %q\n%s", node, tail(c.Trace().Text(), 60))
	}
	if got, err := c.ReadFile("default", "web", "data", "file"); err != nil || string(got) != "mine" {
		t.Errorf("read %q, %v", got, err)
	}
}

// TestLocalStorageIsListedOnce gives the scheduler a configuration that lists the extender. It is not ignorable
// then.
func TestLocalStorageIsListedOnce(t *testing.T) {
	file := &configv1.KubeSchedulerConfiguration{Extenders: []configv1.Extender{{
		URLPrefix: "http://localstorage.volsim.dev", FilterVerb: "filter", NodeCacheCapable: true,
	}}}
	c, ctx := start(t, cluster.Config{LocalStorage: true, Scheduler: file, Stepped: &sim.SteppedConfig{StepsMax: 20000}}), t.Context()
	addDisks(t, c)
	testcheck.NoError(t, c.Apply(ctx, groupClass("fast", twoNodes)), c.Run(ctx), c.Stop("localstorage"),
		c.Apply(ctx, groupUser("web", "fast", "10Mi")))
	host := c.Host().(*sim.Stepped)
	failed := func() bool {
		return slices.ContainsFunc(eventTexts(c, "FailedScheduling"), func(text string) bool { return strings.Contains(text, "code 503") })
	}
	for !failed() && host.Step() {
	}
	testcheck.NoError(t, c.Resume("localstorage"), c.Run(ctx))
	if node, _ := placedOn(t, c, "web"); node != "node-1" || !failed() {
		t.Errorf("placed on %q", node)
	}
	if n := strings.Count(c.Trace().Text(), "ExtenderPrioritize"); n > 0 || len(file.Extenders) != 1 {
		t.Errorf("asked for scores %d times, %d extenders", n, len(file.Extenders))
	}
}

// TestExtenderKnowsTheVolumeOfAnUnboundClaim asks the extender about a pod whose claim is not bound yet, as far as
// it knows, but has its volume. Only the node of the volume is accepted: it need not have the space twice.
func TestExtenderKnowsTheVolumeOfAnUnboundClaim(t *testing.T) {
	c, ctx := startGroups(t), t.Context()
	testcheck.NoError(t, c.Apply(ctx, groupClass("fast", twoNodes)), c.Run(ctx), c.Stop("localstorage(node-2)"),
		c.Apply(ctx, groupUser("web", "fast", "100Mi")), c.Run(ctx), c.Stop("pvcontroller"), c.Resume("localstorage(node-2)"), c.Run(ctx))
	if _, volume := placedOn(t, c, "web"); volume != "" || len(c.Server().List("persistentvolumes")) != 1 {
		t.Fatalf("bound to %q", volume)
	}
	result := extenderv1.ExtenderFilterResult{}
	args := extenderv1.ExtenderArgs{Pod: pendingPod(t, c, "web"), NodeNames: &[]string{"node-1", "node-2"}}
	if code, text := post(t, c, "/filter", args, &result); code != http.StatusOK || !cmp.Equal(*result.NodeNames, []string{"node-2"}) {
		t.Errorf("%d %s", code, text)
	}
}

// TestSelectedNodeLeaves deletes a node that is selected for a claim, and on which no manager runs. It is removed
// from the claim. A claim that fits elsewhere is provisioned there.
func TestSelectedNodeLeaves(t *testing.T) {
	c, ctx := startGroups(t), t.Context()
	testcheck.NoError(t, c.Apply(ctx, groupClass("fast", twoNodes)), c.Run(ctx), c.Stop("localstorage(node-2)"), c.Stop("kubelet(node-2)"))
	large, small := selectionsOf(c, "large"), selectionsOf(c, "small")
	testcheck.NoError(t, c.Apply(ctx, groupUser("large", "fast", "80Mi")), c.Apply(ctx, groupUser("small", "fast", "8Mi")), c.Run(ctx),
		c.Client().CoreV1().Nodes().Delete(ctx, "node-2", metav1.DeleteOptions{}), c.Run(ctx))
	if node, _ := placedOn(t, c, "small"); node != "node-1" || !cmp.Equal(*large, []string{"node-2", ""}) {
		t.Errorf("small placed on %q, selected %q and %q", node, *small, *large)
	}
}
