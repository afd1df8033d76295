package accessdiff

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// TestNodeRestrictionDrawn compares drawn requests of kubelets: several reasons for a rejection at once show the
// order of the checks.
func TestNodeRestrictionDrawn(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := newNodeWorld(t)
		for range 8 {
			who := kubelet(one(t, []string{"mynode", "othernode", "third", ""}, "node"))
			request := rapid.SampledFrom([]func(*rapid.T, *nodeWorld) nodeRequest{
				drawMirrorPod, drawPodStatus, drawNode, drawToken, drawClaimStatus,
			}).Draw(t, "request")(t, w)
			seen[w.compare(t, who, request)]++
		}
	})
	t.Logf("%d answers, %d requests were admitted", len(seen), seen[""])
}

func drawMirrorPod(t *rapid.T, _ *nodeWorld) nodeRequest {
	pod := podOn("new", one(t, []string{"mynode", "mynode", "othernode", "third", ""}, "node"), rapid.Bool().Draw(t, "mirror"))
	if rapid.Bool().Draw(t, "generated") {
		pod.GenerateName, pod.Name = "new-", ""
	}
	for i := range pod.OwnerReferences {
		o := &pod.OwnerReferences[i]
		o.Kind, o.UID = one(t, []string{"Node", "Node", "Machine"}, "kind"), types.UID(one(t, []string{"uid-of-mynode", "uid-of-othernode"}, "UID"))
		o.Controller = rapid.SampledFrom([]*bool{ptr.To(true), ptr.To(true), ptr.To(false), nil}).Draw(t, "controller")
		o.BlockOwnerDeletion = rapid.SampledFrom([]*bool{nil, nil, ptr.To(true)}).Draw(t, "blocks")
	}
	spec := &pod.Spec
	spec.ServiceAccountName = one(t, []string{"", "", "mysa"}, "account")
	c := &spec.Containers[0]
	switch rapid.IntRange(0, 4).Draw(t, "environment") {
	case 0:
		c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
	case 1:
		c.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}}}}
	}
	sources := []corev1.VolumeSource{
		{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		{HostPath: &corev1.HostPathVolumeSource{Path: "/d"}},
		claimVolume("pvclaim"), tokenVolume("foo"),
		{AzureFile: &corev1.AzureFileVolumeSource{ShareName: "s", SecretName: "s"}},
		{Secret: &corev1.SecretVolumeSource{SecretName: "s"}},
		{Glusterfs: &corev1.GlusterfsVolumeSource{EndpointsName: "e", Path: "p"}},
		{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "127.0.0.1", IQN: "iqn.2015-02.example.com:test", SecretRef: &corev1.LocalObjectReference{Name: "s"}}},
		{DownwardAPI: &corev1.DownwardAPIVolumeSource{}},
		{CSI: &corev1.CSIVolumeSource{Driver: driverName, NodePublishSecretRef: &corev1.LocalObjectReference{Name: "s"}}},
	}
	for i, source := range rapid.SliceOfN(rapid.SampledFrom(sources), 0, 2).Draw(t, "volumes") {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "v" + string(rune('0'+i)), VolumeSource: source})
	}
	return nodeRequest{op: admission.Create, resource: podsResource, namespace: "ns", name: pod.Name, body: pod}
}

func drawPodStatus(t *rapid.T, w *nodeWorld) nodeRequest {
	r := nodeRequest{
		op: admission.Update, resource: podsResource, sub: one(t, []string{"", "status", "status"}, "subresource"), namespace: "ns",
		name: one(t, []string{"mypod", "othermirrorpod", "unboundpod"}, "pod"),
	}
	pod := w.stored(r).(*corev1.Pod).DeepCopy()
	if rapid.Bool().Draw(t, "labels") {
		pod.Labels = map[string]string{"a": "b"}
	}
	if rapid.Bool().Draw(t, "claims") {
		pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: ptr.To("d")}}
	}
	pod.Status.Message = one(t, []string{"", "m"}, "message")
	r.body = pod
	return r
}

func drawNode(t *rapid.T, w *nodeWorld) nodeRequest {
	r := nodeRequest{
		op:       rapid.SampledFrom([]admission.Operation{admission.Create, admission.Update, admission.Update, admission.Delete}).Draw(t, "operation"),
		resource: nodesResource, name: one(t, []string{"mynode", "othernode", "third"}, "name"),
	}
	stored, ok := w.stored(r).(*corev1.Node)
	switch {
	case !ok:
		r.op = admission.Create
		stored = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.name}}
	case r.op == admission.Delete:
		return r
	}
	node := stored.DeepCopy()
	if r.op == admission.Create {
		node.ResourceVersion, node.UID = "", ""
	} else {
		r.sub = one(t, []string{"", "status"}, "subresource")
	}
	keys := slices.Concat(allowedLabels, forbiddenLabels, []string{"k8s.io", "kubernetes.io", "a.kubernetes.io.b/c", "xkubernetes.io/foo", "example.com/kubernetes.io"})
	setLabels(node, one(t, []string{"old", "new"}, "value"), rapid.SliceOfN(rapid.SampledFrom(keys), 0, 3).Draw(t, "set"))
	delete(node.Labels, one(t, keys, "remove"))
	if rapid.IntRange(0, 3).Draw(t, "taints") == 0 {
		node.Spec.Taints = []corev1.Taint{{Key: "mykey", Value: one(t, []string{"A", "B"}, "taint"), Effect: corev1.TaintEffectNoSchedule}}
	}
	if rapid.IntRange(0, 3).Draw(t, "owners") == 0 {
		node.OwnerReferences = nil
	}
	if rapid.IntRange(0, 3).Draw(t, "source") == 0 {
		node.Spec.ConfigSource = &corev1.NodeConfigSource{ConfigMap: &corev1.ConfigMapNodeConfigSource{Name: "f", Namespace: "b", KubeletConfigKey: "k"}}
	}
	r.body = node
	return r
}

func drawToken(t *rapid.T, w *nodeWorld) nodeRequest {
	name := one(t, []string{
		"", "unknown", "mypod", "otherpod", "none", "projected", "csi", "csi-unknown", "claim", "claim-unknown", "claim-lost",
		"claim-azure", "claim-nfs", "azure", "ephemeral",
	}, "pod")
	uid := types.UID(one(t, []string{"", "u"}, "UID"))
	if pod := w.stored(nodeRequest{resource: podsResource, namespace: "ns", name: name}); pod != nil && rapid.IntRange(0, 4).Draw(t, "right") > 0 {
		uid = pod.GetUID()
	}
	return tokenRequest(name, uid, some(t, []string{"foo", "bar", "granted"}, "audiences", 0)...)
}

func drawClaimStatus(t *rapid.T, w *nodeWorld) nodeRequest {
	r := nodeRequest{op: admission.Update, resource: claimsResource, sub: "status", namespace: "ns", name: "pvclaim"}
	claim := w.stored(r).(*corev1.PersistentVolumeClaim).DeepCopy()
	for _, what := range some(t, slices.Sorted(maps.Keys(claimChanges)), "changes", 0) {
		claimChanges[what](claim)
	}
	r.body = claim
	return r
}
