package cluster_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
)

// post sends a request to the extender, and decodes the answer.
func post(t *testing.T, c *cluster.Cluster, path string, args, into any) (code int, text string) {
	t.Helper()
	body, isText := args.(string)
	if !isText {
		data, err := json.Marshal(args)
		testcheck.NoError(t, err)
		body = string(data)
	}
	w := httptest.NewRecorder()
	c.LocalStorageExtender().ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, bytes.NewReader([]byte(body))))
	if w.Code == http.StatusOK {
		testcheck.NoError(t, json.Unmarshal(w.Body.Bytes(), into))
	}
	return w.Code, strings.TrimSpace(w.Body.String())
}

// pendingPod returns a pod of the world.
func pendingPod(t *testing.T, c *cluster.Cluster, name string) *corev1.Pod {
	t.Helper()
	obj, ok := c.Server().Get("pods", "default", name)
	if !ok {
		t.Fatalf("no pod %s", name)
	}
	return obj.(*corev1.Pod)
}

// TestLocalStorageExtender asks the extender in upstream's types, with nodes and with their names,
// while space is free, promised and used.
func TestLocalStorageExtender(t *testing.T) {
	c, ctx := startGroups(t), t.Context()
	if code, text := post(t, c, "/filter", extenderv1.ExtenderArgs{}, nil); code != http.StatusServiceUnavailable {
		t.Errorf("without a class: %d %s", code, text)
	}
	for _, node := range []string{"node-1", "node-2"} { // pods stay pending
		_, err := c.Client().CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
		testcheck.NoError(t, err)
	}
	testcheck.NoError(t, c.Apply(ctx, groupClass("fast", twoNodes)), c.Apply(ctx, groupUser("small", "fast", "30Mi")),
		c.Apply(ctx, groupUser("large", "fast", "100Mi")), c.Apply(ctx, groupUser("promise", "fast", "100Mi")), c.Run(ctx))
	names := []string{"node-1", "node-2", "node-3"}
	filter := func(pod string) (kept []string, failed extenderv1.FailedNodesMap) {
		t.Helper()
		byName, byNode := extenderv1.ExtenderFilterResult{}, extenderv1.ExtenderFilterResult{}
		if code, text := post(t, c, "/filter", extenderv1.ExtenderArgs{Pod: pendingPod(t, c, pod), NodeNames: &names}, &byName); code != http.StatusOK || byName.Error != "" {
			t.Fatalf("%d %s", code, text)
		}
		nodes := &corev1.NodeList{}
		for _, name := range names {
			nodes.Items = append(nodes.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		if code, text := post(t, c, "/filter", extenderv1.ExtenderArgs{Pod: pendingPod(t, c, pod), Nodes: nodes}, &byNode); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		keptNodes := []string{}
		for _, node := range byNode.Nodes.Items {
			keptNodes = append(keptNodes, node.Name)
		}
		if diff := cmp.Diff(*byName.NodeNames, keptNodes); diff != "" || !cmp.Equal(byName.FailedAndUnresolvableNodes, byNode.FailedAndUnresolvableNodes) {
			t.Errorf("by name (-), by node (+):\n%s", diff)
		}
		return *byName.NodeNames, byName.FailedAndUnresolvableNodes
	}
	want := func(pod string, wantKept []string, wantFailed extenderv1.FailedNodesMap) {
		t.Helper()
		kept, failed := filter(pod)
		if diff := cmp.Diff(wantKept, kept) + cmp.Diff(wantFailed, failed); diff != "" {
			t.Errorf("%s (-want +got):\n%s", pod, diff)
		}
	}
	none := "node-3: no local storage of class fast"
	want("small", []string{"node-1", "node-2"}, extenderv1.FailedNodesMap{"node-3": none})
	want("large", []string{"node-2"}, extenderv1.FailedNodesMap{"node-1": "node-1: 60Mi free in class fast, 100Mi requested", "node-3": none})

	rank := func() (scores extenderv1.HostPriorityList) {
		t.Helper()
		if code, text := post(t, c, "/prioritize", extenderv1.ExtenderArgs{Pod: pendingPod(t, c, "small"), NodeNames: &names}, &scores); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		return scores
	}
	if diff := cmp.Diff(extenderv1.HostPriorityList{{Host: "node-1", Score: 4}, {Host: "node-2", Score: 7}, {Host: "node-3"}}, rank()); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}

	// What another claim was promised does not count twice once its volume is in the record.
	testcheck.NoError(t, c.Stop("localstorage(node-2)"))
	_, err := c.Client().CoreV1().PersistentVolumeClaims("default").Patch(ctx, "promise", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"node-2"}}}`), metav1.PatchOptions{})
	testcheck.NoError(t, err, c.Run(ctx))
	full := extenderv1.FailedNodesMap{"node-1": "node-1: 60Mi free in class fast, 100Mi requested", "node-2": "node-2: 20Mi free in class fast, 100Mi requested", "node-3": none}
	want("large", []string{}, full)
	want("promise", []string{"node-2"}, extenderv1.FailedNodesMap{"node-1": full["node-1"], "node-3": none})
	testcheck.NoError(t, c.Crash("localstorage(node-2)"), c.Run(ctx))
	wantRecords(t, c, map[string]string{
		"fast.node-1": "Ready 60Mi of 60Mi free, 0 volumes; /dev/sdb InUse",
		"fast.node-2": "Ready 20Mi of 120Mi free, 1 volumes; /dev/sdb InUse; /dev/sdc InUse",
	})
	want("large", []string{}, full)

	// Bad requests.
	for _, each := range []struct{ body, want string }{
		{"{", "decode ExtenderArgs: unexpected EOF"},
		{"{}", "ExtenderArgs: Pod, and Nodes or NodeNames, are required"},
	} {
		if code, text := post(t, c, "/filter", each.body, nil); code != http.StatusBadRequest || text != each.want {
			t.Errorf("%q: %d %s", each.body, code, text)
		}
	}
	unseen := pendingPod(t, c, "small").DeepCopy()
	unseen.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "later"
	result := extenderv1.ExtenderFilterResult{}
	post(t, c, "/filter", extenderv1.ExtenderArgs{Pod: unseen, NodeNames: &names}, &result)
	if result.Error != "local storage: claim default/later has not been seen yet" {
		t.Errorf("error %q", result.Error)
	}
}

// TestClassesAreChecked has classes and claims that cannot work. Each gets one event.
func TestClassesAreChecked(t *testing.T) {
	c, ctx := startGroups(t), t.Context()
	immediate := strings.Replace(groupClass("now", `[{"node":"node-1","disks":["/dev/sdb"]}]`), "WaitForFirstConsumer", "Immediate", 1)
	testcheck.NoError(t, c.Apply(ctx, groupClass("broken", `[{"node":`)), c.Apply(ctx, groupClass("elsewhere", `[{"node":"node-9","disks":["/dev/sdb"]}]`)),
		c.Apply(ctx, immediate), c.Apply(ctx, groupUser("web", "now", "1Mi")), c.Run(ctx))
	for reason, want := range map[string][]string{
		"InvalidParameters":  {"parameter nodes: byte 9: unexpected EOF", "volumeBindingMode must be WaitForFirstConsumer"},
		"NodeNotFound":       {`parameter nodes: [0]: node "node-9" does not exist`},
		"ProvisioningFailed": {`storage class "now" must have volumeBindingMode WaitForFirstConsumer: a local volume is created on the node of its pod`},
	} {
		if diff := cmp.Diff(want, eventTexts(c, reason)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reason, diff)
		}
	}
	// A node that leaves.
	testcheck.NoError(t, c.Apply(ctx, groupClass("fast", `[{"node":"node-2","disks":["/dev/sdb"]}]`)), c.Run(ctx), c.PartitionNode("node-2"),
		c.Client().CoreV1().Nodes().Delete(ctx, "node-2", metav1.DeleteOptions{}), c.Run(ctx))
	r := storageRecords(t, c)["fast.node-2"]
	if r == nil || r.Status.Phase != "Failed" || r.Status.Conditions[0].Reason != "NodeGone" {
		t.Errorf("record %+v", r)
	}
}
