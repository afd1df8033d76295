package accessdiff

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/node"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// A readWorld is a server and upstream's Node authorizer over the same objects.
type readWorld struct {
	admin      *fake.Clientset
	authorizer authorizer.Authorizer
}

// A nodeQuestion is a request that a kubelet may or may not make. selected is a node whose objects it selects.
type nodeQuestion struct {
	node, verb, resource, group, sub, namespace, name, selected string
}

// String returns the request.
func (q nodeQuestion) String() string {
	return strings.Join([]string{q.node, q.verb, q.group + "/" + q.resource, q.sub, q.namespace + "/" + q.name, q.selected}, " ")
}

func newReadWorld(t rapid.TB, objects ...runtime.Object) *readWorld {
	server := fake.NewServer(fake.Config{
		Now: func() time.Time { return sim.Epoch }, RBAC: true, Namespaces: []string{"ns0", "ns1"},
	})
	if err := server.Add(objects...); err != nil {
		t.Fatal(err)
	}
	graph := node.NewGraph()
	for _, obj := range objects {
		switch o := obj.(type) {
		case *corev1.Pod:
			if o.Spec.NodeName != "" {
				graph.AddPod(o)
			}
		case *corev1.PersistentVolume:
			graph.AddPV(o)
		case *storagev1.VolumeAttachment:
			graph.AddVolumeAttachment(o.Name, o.Spec.NodeName)
		case *resourcev1.ResourceSlice:
			if o.Spec.NodeName != nil {
				graph.AddResourceSlice(o.Name, *o.Spec.NodeName)
			}
		}
	}
	return &readWorld{
		server.Client(sim.DirectCaller()),
		node.NewAuthorizer(graph, nodeidentifier.NewDefaultNodeIdentifier(), bootstrappolicy.NodeRules()),
	}
}

// compare fails unless both decide alike, with the same reason. It returns whether the request is allowed.
func (w *readWorld) compare(t rapid.TB, q nodeQuestion) bool {
	who := kubelet(q.node)
	attributes := authorizer.AttributesRecord{
		User: infoOf(who), Verb: q.verb, APIGroup: q.group, Resource: q.resource, Subresource: q.sub, Namespace: q.namespace, Name: q.name,
		ResourceRequest: true,
	}
	ours := &authorizationv1.ResourceAttributes{
		Verb: q.verb, Group: q.group, Resource: q.resource, Subresource: q.sub, Namespace: q.namespace, Name: q.name,
	}
	if q.selected != "" {
		attributes.FieldSelectorRequirements = fields.Requirements{{Field: "spec.nodeName", Operator: selection.Equals, Value: q.selected}}
		ours.FieldSelector = &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{
			{Key: "spec.nodeName", Operator: metav1.FieldSelectorOpIn, Values: []string{q.selected}},
		}}
	}
	decision, reason, err := w.authorizer.Authorize(context.Background(), attributes)
	if err != nil {
		t.Fatal(err)
	}
	review, err := w.admin.AuthorizationV1().SubjectAccessReviews().Create(context.Background(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: who.Username, Groups: []string{"system:nodes"}, ResourceAttributes: ours},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if allowed := decision == authorizer.DecisionAllow; allowed != review.Status.Allowed || reason != review.Status.Reason {
		t.Fatalf("%s:\nupstream %v %q\nours     %v %q", q, allowed, reason, review.Status.Allowed, review.Status.Reason)
	}
	return review.Status.Allowed
}

// usingPod returns a pod of a node with one reference of each kind to an object whose name ends as the pod's.
func usingPod(namespace, name, nodeName string) *corev1.Pod {
	local := func(prefix string) corev1.LocalObjectReference {
		return corev1.LocalObjectReference{Name: prefix + "-" + name}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			NodeName: nodeName, ServiceAccountName: "account-" + name, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "shared"}},
			Containers: []corev1.Container{{Name: "c", Image: "i", Env: []corev1.EnvVar{
				{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: local("secret"), Key: "k"}}},
				{Name: "B", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: local("map"), Key: "k"}}},
			}}},
			Volumes: []corev1.Volume{
				{Name: "claim", VolumeSource: claimVolume("claim-" + name)},
				{Name: "own", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
					VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claimOf("", "").Spec},
				}}},
			},
			ResourceClaims: []corev1.PodResourceClaim{
				{Name: "direct", ResourceClaimName: ptr.To("direct-" + name)},
				{Name: "made", ResourceClaimTemplateName: ptr.To("t")},
				{Name: "unmade", ResourceClaimTemplateName: ptr.To("u")},
			},
		},
		Status: corev1.PodStatus{
			ResourceClaimStatuses:       []corev1.PodResourceClaimStatus{{Name: "made", ResourceClaimName: ptr.To("made-" + name)}},
			ExtendedResourceClaimStatus: &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "extended-" + name},
		},
	}
}

// volumeFor returns a volume of a claim with secrets for the node and for the controller.
func volumeFor(name, namespace, claim string, source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
	pv := volumeOf(name, source)
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: claim}
	return pv
}

// readObjects are pods of two nodes in two namespaces, and what they use. Claims and secrets need not exist.
func readObjects() []runtime.Object {
	var all []runtime.Object
	for _, nodeName := range []string{"node0", "node1", ""} {
		for _, namespace := range []string{"ns0", "ns1"} {
			name := "pod" + strings.TrimPrefix(nodeName, "node")
			all = append(all, usingPod(namespace, name, nodeName),
				volumeFor("pv-"+namespace+"-"+name, namespace, "claim-"+name, corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
					Driver: "d", VolumeHandle: "h-" + namespace + name,
					NodeStageSecretRef:         &corev1.SecretReference{Namespace: "kube-system", Name: "stage-" + name},
					ControllerPublishSecretRef: &corev1.SecretReference{Namespace: "kube-system", Name: "controller-" + name},
				}}))
		}
	}
	mirror := usingPod("ns0", "mirror", "node0")
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
	debugged := podOn("debugged", "node0", false)
	debugged.Namespace = "ns0"
	debugged.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "e", Image: "i", EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "debug"}}}},
	}}}
	ref := &corev1.SecretReference{Namespace: "ns1", Name: "flex"}
	all = append(all, mirror, debugged,
		volumeFor("flex", "ns0", "claim-pod0", corev1.PersistentVolumeSource{FlexVolume: &corev1.FlexPersistentVolumeSource{Driver: "d/e", SecretRef: ref}}),
		volumeFor("iscsi", "ns0", "pod0-own", corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{
			TargetPortal: "127.0.0.1", IQN: "iqn.2015-02.example.com:test", SecretRef: &corev1.SecretReference{Name: "chap"},
		}}),
		volumeOf("free", corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/d"}}),
		sliceOf("slice0", ptr.To("node0")), sliceOf("slice1", ptr.To("node1")), sliceOf("all", nil))
	for _, nodeName := range []string{"node0", "node1"} {
		all = append(all, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "attachment-" + nodeName}, Spec: storagev1.VolumeAttachmentSpec{
			NodeName: nodeName, Attacher: "d", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pv-ns0-pod0")},
		}})
	}
	return all
}

// readNames are the names in questions, by resource: of what node0 may read, and others.
var readNames = map[string][]string{
	"secrets":                {"secret-pod0", "secret-pod1", "secret-pod", "shared", "stage-pod0", "controller-pod0", "flex", "chap", "debug", "secret-mirror"},
	"configmaps":             {"map-pod0", "map-pod1", "map-pod", "map-mirror"},
	"persistentvolumeclaims": {"claim-pod0", "claim-pod1", "pod0-own", "claim-mirror"},
	"persistentvolumes":      {"pv-ns0-pod0", "pv-ns1-pod0", "pv-ns0-pod1", "pv-ns0-pod", "flex", "iscsi", "free", "unknown"},
	"serviceaccounts":        {"account-pod0", "account-pod1", "account-mirror"},
	"pods":                   {"pod0", "pod1", "pod", "mirror", "debugged", "unknown"},
	"nodes":                  {"node0", "node1", "unregistered"},
	"leases":                 {"node0", "node1"},
	"csinodes":               {"node0", "node1"},
	"volumeattachments":      {"attachment-node0", "attachment-node1", "unknown"},
	"resourceclaims":         {"direct-pod0", "made-pod0", "extended-pod0", "unmade", "direct-pod1", "direct-mirror"},
	"resourceslices":         {"slice0", "slice1", "all", "unknown"},
	"podcertificaterequests": {"r"}, "endpoints": {"e"}, "services": {"s"}, "events": {"e"},
	"certificatesigningrequests": {"c"}, "runtimeclasses": {"r"}, "csidrivers": {"d"},
}

var readGroups = map[string]string{
	"leases": "coordination.k8s.io", "csinodes": "storage.k8s.io", "volumeattachments": "storage.k8s.io", "csidrivers": "storage.k8s.io",
	"resourceclaims": "resource.k8s.io", "resourceslices": "resource.k8s.io", "podcertificaterequests": "certificates.k8s.io",
	"certificatesigningrequests": "certificates.k8s.io", "runtimeclasses": "node.k8s.io",
}

// TestNodeAuthorizerDecidesAlike asks all questions of some verbs, subresources, names and namespaces. Upstream's table is among
// them.
//
// Upstream: plugin/pkg/auth/authorizer/node TestNodeAuthorizer, TestNodeAuthorizerSharedResources,
// TestNodeAuthorizerAddEphemeralContainers.
func TestNodeAuthorizerDecidesAlike(t *testing.T) {
	w := newReadWorld(t, readObjects()...)
	asked, allowed := 0, 0
	for resource, names := range readNames {
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
			for _, sub := range []string{"", "status", "token", "eviction", "proxy"} {
				for _, namespace := range []string{"", "ns0", "ns1", "kube-system", "kube-node-lease"} {
					for _, name := range append(slices.Clone(names), "") {
						for _, selected := range []string{"", "node0", "node1"} {
							for _, nodeName := range []string{"node0", "unregistered", ""} {
								asked++
								if w.compare(t, nodeQuestion{nodeName, verb, resource, readGroups[resource], sub, namespace, name, selected}) {
									allowed++
								}
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d questions, %d allowed", asked, allowed)
	if allowed < 500 || asked-allowed < 500 {
		t.Errorf("%d of %d questions are allowed", allowed, asked)
	}
}
