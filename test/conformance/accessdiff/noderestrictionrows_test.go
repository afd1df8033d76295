package accessdiff

import (
	"maps"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
)

// A nodeRow is a fact of upstream's table: a request of the kubelet of mynode, and a part of the error; "" is none.
type nodeRow struct {
	name    string
	request nodeRequest
	want    string
}

const (
	notOwn     = "spec.nodeName set to itself"
	unexpected = "forbidden: unexpected operation"
)

// podRows are the requests about each stored pod, and about one that does not exist.
func podRows(w *nodeWorld) []nodeRow {
	var rows []nodeRow
	for _, name := range []string{"mypod", "mymirrorpod", "otherpod", "othermirrorpod", "unboundpod", "unboundmirrorpod"} {
		at := nodeRequest{resource: podsResource, namespace: "ns", name: name}
		pod := w.stored(at).(*corev1.Pod)
		own, foreign := "", notOwn
		if pod.Spec.NodeName == "mynode" {
			foreign = ""
		}
		fresh := podOn("new", pod.Spec.NodeName, pod.Annotations != nil)
		switch {
		case pod.Annotations == nil:
			own = "can only create mirror pods"
		default:
			own = foreign
		}
		row := func(what string, op admission.Operation, sub string, body runtime.Object, want string) {
			r := at
			r.op, r.sub, r.body = op, sub, body
			rows = append(rows, nodeRow{what + " " + name, r, want})
		}
		row("update", admission.Update, "", pod, unexpected)
		row("update the status of", admission.Update, "status", pod, foreign)
		row("delete", admission.Delete, "", nil, foreign)
		row("evict", admission.Create, "eviction", &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}}, foreign)
		row("evict, without a name in the body,", admission.Create, "eviction", &policyv1.Eviction{}, foreign)
		row("bind", admission.Create, "binding", &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "mynode"}},
			`unexpected pod subresource "binding"`)
		at.name = "new"
		row("create as", admission.Create, "", fresh, own)
	}
	for _, labels := range []map[string]string{{"a": "x"}, {"a": "x", "b": "y"}} {
		r := nodeRequest{op: admission.Update, resource: podsResource, sub: "status", namespace: "ns", name: "mypod"}
		pod := w.stored(r).(*corev1.Pod).DeepCopy()
		pod.Labels = labels
		r.body = pod
		rows = append(rows, nodeRow{"labels through the status", r, "cannot update labels through pod status"})
	}
	extended := nodeRequest{op: admission.Update, resource: podsResource, sub: "status", namespace: "ns", name: "mypod"}
	pod := w.stored(extended).(*corev1.Pod).DeepCopy()
	pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "c"}
	extended.body = pod
	claims := extended
	pod = w.stored(extended).(*corev1.Pod).DeepCopy()
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: ptr.To("d")}}
	claims.body = pod
	return append(rows,
		nodeRow{"extended resource claim", extended, "cannot update extended resource claim status"},
		nodeRow{"resource claims", claims, "cannot update resource claim statues"},
		nodeRow{"evict none", nodeRequest{
			op: admission.Create, resource: podsResource, sub: "eviction", namespace: "ns", name: "unknown", body: &policyv1.Eviction{},
		}, "not found"})
}

// mirrorRows create mirror pods with other references and owners.
func mirrorRows() []nodeRow {
	row := func(name, want string, change func(*corev1.Pod)) nodeRow {
		pod := podOn("new", "mynode", true)
		change(pod)
		return nodeRow{name, nodeRequest{op: admission.Create, resource: podsResource, namespace: "ns", name: "new", body: pod}, want}
	}
	volume := func(source corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}} }
	}
	owner := func(change func(*metav1.OwnerReference)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(&p.OwnerReferences[0]) }
	}
	self := "can only create pods with an owner reference set to itself"
	return []nodeRow{
		row("config map", "reference configmaps", volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "foo"},
		}})),
		row("trust bundle", "reference clustertrustbundles", volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: ptr.To("foo"), Path: "p"}}},
		}})),
		row("claim", "can not create pods that reference persistentvolumeclaims", volume(claimVolume("foo"))),
		row("inline CSI", "csidrivers (via CSI volumes)", volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}})),
		row("directory", "", volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc"}})),
		row("resource claim", "reference resourceclaim", func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: ptr.To("d")}}
		}),
		row("no owner", self, func(p *corev1.Pod) { p.OwnerReferences = nil }),
		row("two owners", "can only create pods with a single owner reference set to itself", func(p *corev1.Pod) {
			second := p.OwnerReferences[0]
			second.UID = "another"
			p.OwnerReferences = append(p.OwnerReferences, second)
		}),
		row("owner's name", self, owner(func(o *metav1.OwnerReference) { o.Name = "othernode" })),
		row("owner's version", self, owner(func(o *metav1.OwnerReference) { o.APIVersion = "v2" })),
		row("owner's kind", self, owner(func(o *metav1.OwnerReference) { o.Kind = "Machine" })),
		row("owner's UID", "UID mismatch", owner(func(o *metav1.OwnerReference) { o.UID = "another" })),
		row("owner is no controller", "controller owner reference", owner(func(o *metav1.OwnerReference) { o.Controller = nil })),
		row("owner is not the controller", "controller owner reference", owner(func(o *metav1.OwnerReference) { o.Controller = ptr.To(false) })),
		row("owner blocks", "must not set blockOwnerDeletion", owner(func(o *metav1.OwnerReference) { o.BlockOwnerDeletion = ptr.To(true) })),
	}
}

var allowedLabels = []string{
	"foo", "example.com/foo", "kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "topology.kubernetes.io/zone",
	"topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
	"beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type", "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
	"kubelet.kubernetes.io/foo", "foo.kubelet.kubernetes.io/foo", "node.kubernetes.io/foo", "foo.node.kubernetes.io/foo",
}

var forbiddenLabels = []string{
	"foo.node-restriction.kubernetes.io/foo", "node-restriction.kubernetes.io/foo", "other.k8s.io/foo", "other.kubernetes.io/foo",
}

func setLabels(node *corev1.Node, value string, keys []string) {
	node.Labels = maps.Clone(node.Labels)
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	for _, key := range keys {
		node.Labels[key] = value
	}
}

// nodeRows are requests about Nodes.
func nodeRows(w *nodeWorld) []nodeRow {
	row := func(name, want string, op admission.Operation, of, sub string, change func(*corev1.Node)) nodeRow {
		r := nodeRequest{op: op, resource: nodesResource, sub: sub, name: of}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: of}}
		if op == admission.Update {
			node = w.stored(r).(*corev1.Node).DeepCopy()
		}
		change(node)
		if op != admission.Delete {
			r.body = node
		}
		return nodeRow{name, r, want}
	}
	none := func(*corev1.Node) {}
	all := strings.Join(forbiddenLabels, ", ")
	source := func(n *corev1.Node) {
		n.Spec.ConfigSource = &corev1.NodeConfigSource{ConfigMap: &corev1.ConfigMapNodeConfigSource{
			Name: "foo", Namespace: "bar", UID: "u", KubeletConfigKey: "kubelet",
		}}
	}
	update := func(name, want string, change func(*corev1.Node)) nodeRow {
		return row(name, want, admission.Update, "mynode", "", change)
	}
	return []nodeRow{
		row("create", "", admission.Create, "mynode", "", none),
		row("create with taints", "", admission.Create, "mynode", "", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
		}),
		row("create with labels", "", admission.Create, "mynode", "", func(n *corev1.Node) { setLabels(n, "v", allowedLabels) }),
		row("create with forbidden labels", "is not allowed to set the following labels: "+all, admission.Create, "mynode", "",
			func(n *corev1.Node) { setLabels(n, "v", forbiddenLabels) }),
		row("create with a source", "is not allowed to create pods with a non-nil configSource", admission.Create, "mynode", "", source),
		row("delete", "", admission.Delete, "mynode", "", none),
		row("status", "", admission.Update, "mynode", "status", none),
		row("taints through the status", "is not allowed to modify taints", admission.Update, "mynode", "status",
			func(n *corev1.Node) { n.Spec.Taints = nil }),
		update("unchanged", "", none),
		update("new source", "update configSource to a new non-nil configSource", source),
		update("allowed labels", "", func(n *corev1.Node) { setLabels(n, "new", allowedLabels) }),
		update("allowed labels removed", "", func(n *corev1.Node) { delete(n.Labels, "foo"); delete(n.Labels, "kubernetes.io/os") }),
		update("forbidden labels", "is not allowed to modify labels: "+all, func(n *corev1.Node) { setLabels(n, "new", forbiddenLabels) }),
		update("forbidden labels removed", "is not allowed to modify labels: node-restriction.kubernetes.io/foo, other.k8s.io/foo",
			func(n *corev1.Node) { n.Labels = nil }),
		update("taint added", "is not allowed to modify taints", func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute})
		}),
		update("taint removed", "is not allowed to modify taints", func(n *corev1.Node) { n.Spec.Taints = nil }),
		update("taint changed", "is not allowed to modify taints", func(n *corev1.Node) { n.Spec.Taints[0].Value = "B" }),
		update("owner removed", "is not allowed to modify ownerReferences", func(n *corev1.Node) { n.OwnerReferences = nil }),
		update("owner changed", "is not allowed to modify ownerReferences", func(n *corev1.Node) { n.OwnerReferences[0].Name = "x" }),
		row("create another", "is not allowed to modify node", admission.Create, "third", "", none),
		row("update another", "is not allowed to modify node", admission.Update, "othernode", "", none),
		row("another's status", "is not allowed to modify node", admission.Update, "othernode", "status", none),
		row("delete another", "is not allowed to modify node", admission.Delete, "othernode", "", none),
	}
}

// tokenRequest is a request for a token of mysa, bound to a pod.
func tokenRequest(pod string, uid types.UID, audiences ...string) nodeRequest {
	body := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences, ExpirationSeconds: ptr.To[int64](3600)}}
	if pod != "" {
		body.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod, UID: uid}
	}
	return nodeRequest{op: admission.Create, resource: accounts, sub: "token", namespace: "ns", name: "mysa", body: body}
}

// tokenRows are requests for tokens.
func tokenRows(w *nodeWorld) []nodeRow {
	row := func(pod, audience, want string) nodeRow {
		stored := w.stored(nodeRequest{resource: podsResource, namespace: "ns", name: pod})
		var audiences []string
		if audience != "" {
			audiences = strings.Split(audience, ",")
		}
		return nodeRow{"token for " + pod + " " + audience, tokenRequest(pod, stored.GetUID(), audiences...), want}
	}
	const missing = ` not found in pod spec volume, system:node:mynode is not authorized to request tokens for this audience`
	return []nodeRow{
		{"unbound", tokenRequest("", "", "foo"), "not bound to a pod"},
		{"unknown pod", tokenRequest("unknown", "u", "foo"), "not found"},
		{"without a UID", tokenRequest("mypod", "", "foo"), "pod binding without a uid"},
		{"another UID", tokenRequest("mypod", "u", "foo"), "does not match the UID in record"},
		row("otherpod", "foo", "pod scheduled on a different node"),
		row("none", "", ""), row("projected", "foo", ""), row("projected", "foo,bar", "node may only request 0 or 1 audiences"),
		row("mypod", "foo", `audience "foo"`+missing), row("mypod", "granted", ""),
		row("csi", "foo", ""), row("csi", "bar", `audience "bar"`+missing),
		row("csi-unknown", "foo", `error validating audience "foo": csidriver.storage.k8s.io "unknown" not found`),
		row("claim", "foo", ""), row("claim", "bar", `audience "bar"`+missing), row("ephemeral", "foo", ""),
		row("ephemeral", "bar", `audience "bar"`+missing),
		row("claim-unknown", "foo", `error validating audience "foo": persistentvolumeclaim "unknown" not found`),
		row("claim-lost", "foo", `error validating audience "foo": persistentvolume "unknown" not found`),
		row("claim-azure", "foo", ""), row("azure", "foo", ""), row("claim-nfs", "foo", `audience "foo"`+missing),
	}
}

// objectRows are requests about leases, CSINodes, resource slices, claims and config maps.
func objectRows(w *nodeWorld) []nodeRow {
	var rows []nodeRow
	row := func(want string, r nodeRequest, fresh fake.Object) {
		for _, op := range []admission.Operation{admission.Create, admission.Update, admission.Delete} {
			r, want := r, want
			r.op = op
			switch op {
			case admission.Create:
				r.body = fresh
			case admission.Update:
				r.body = w.stored(r)
				if r.resource == slicesResource {
					want = ""
				}
			}
			rows = append(rows, nodeRow{string(op) + " " + r.resource.Resource + " " + r.namespace + " " + r.name, r, want})
		}
	}
	row("can only access leases in the", nodeRequest{resource: leases, namespace: "ns", name: "mynode"}, leaseOf("ns", "mynode"))
	row("with the same name as the requesting node", nodeRequest{resource: leases, namespace: corev1.NamespaceNodeLease, name: "othernode"},
		leaseOf(corev1.NamespaceNodeLease, "othernode"))
	row("", nodeRequest{resource: leases, namespace: corev1.NamespaceNodeLease, name: "mynode"}, leaseOf(corev1.NamespaceNodeLease, "mynode"))
	for name, want := range map[string]string{"mynode": "", "othernode": "can only access CSINode with the same name as the requesting node"} {
		row(want, nodeRequest{resource: csiNodes, name: name}, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for name, node := range map[string]*string{"mine": ptr.To("mynode"), "other": ptr.To("othernode"), "none": nil} {
		want := "ResourceSlice with the same NodeName as the requesting node"
		if name == "mine" {
			want = ""
		}
		row(want, nodeRequest{resource: slicesResource, name: name}, sliceOf(name, node))
	}
	row("", nodeRequest{resource: configMaps, namespace: "ns", name: "map"}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "map"}})
	row("may only update PVC status", nodeRequest{resource: claimsResource, namespace: "ns", name: "pvclaim"}, claimOf("pvclaim", "pvname"))
	for what, change := range claimChanges {
		r := nodeRequest{op: admission.Update, resource: claimsResource, sub: "status", namespace: "ns", name: "pvclaim"}
		claim := w.stored(r).(*corev1.PersistentVolumeClaim).DeepCopy()
		change(claim)
		r.body = claim
		want := ""
		if strings.HasPrefix(what, "not: ") {
			want = "is not allowed to update fields other than"
		}
		rows = append(rows, nodeRow{"claim, " + what, r, want})
	}
	return rows
}

// claimChanges are the changes through the status of a claim. Those that begin with "not" are rejected.
var claimChanges = map[string]func(*corev1.PersistentVolumeClaim){
	"unchanged": func(*corev1.PersistentVolumeClaim) {},
	"unconditional": func(c *corev1.PersistentVolumeClaim) {
		c.ResourceVersion, c.ManagedFields = "", nil
	},
	"capacity": func(c *corev1.PersistentVolumeClaim) {
		c.Status.Capacity[corev1.ResourceStorage] = resource.MustParse("15G")
	},
	"conditions": func(c *corev1.PersistentVolumeClaim) {
		c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
			{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue},
		}
	},
	"allocated": func(c *corev1.PersistentVolumeClaim) {
		c.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("15G")}
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
			corev1.ResourceStorage: corev1.PersistentVolumeClaimNodeResizeInfeasible,
		}
	},
	"defaulted":       func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = nil },
	"not: phase":      func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost },
	"not: label":      func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{"a": "b"} },
	"not: finalizers": func(c *corev1.PersistentVolumeClaim) { c.Finalizers = append(c.Finalizers, "example.com/f") },
	"not: volume":     func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "another" },
	"not: class":      func(c *corev1.PersistentVolumeClaim) { c.Status.CurrentVolumeAttributesClassName = ptr.To("gold") },
}

// TestNodeRestrictionRows compares the facts of upstream's table, request by request.
//
// Upstream: plugin/pkg/admission/noderestriction Test_nodePlugin_Admit, Test_nodePlugin_Admit_OwnerReference,
// TestAdmitPVCStatus, TestAdmitResourceSlice.
func TestNodeRestrictionRows(t *testing.T) {
	w := newNodeWorld(t)
	rows := podRows(w)
	rows = append(rows, mirrorRows()...)
	rows = append(rows, nodeRows(w)...)
	rows = append(rows, tokenRows(w)...)
	rows = append(rows, objectRows(w)...)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			theirs := w.compare(t, kubelet("mynode"), row.request)
			if (theirs == "") != (row.want == "") || !strings.Contains(theirs, row.want) {
				t.Errorf("upstream says %q, want %q", theirs, row.want)
			}
			// A user that is no kubelet, though its name is one's, is not limited.
			for _, user := range []authenticationv1.UserInfo{
				{Username: "bob", Groups: []string{"system:authenticated"}}, {Username: "system:node:mynode", Groups: []string{"system:authenticated"}},
			} {
				if theirs := w.compare(t, user, row.request); theirs != "" {
					t.Errorf("upstream limits %s: %s", user.Username, theirs)
				}
			}
			w.compare(t, kubelet(""), row.request)
		})
	}
	t.Logf("%d rows", len(rows))
}
