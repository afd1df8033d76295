package accessdiff

import (
	"context"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	clientgofake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	"k8s.io/kubernetes/plugin/pkg/admission/noderestriction"
	"k8s.io/kubernetes/plugin/pkg/admission/serviceaccount"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// A nodeWorld is a server whose kubelets may make all requests by their roles, so that only NodeRestriction limits
// them, and upstream's plugin over the same objects.
type nodeWorld struct {
	server *fake.Server
	admin  *fake.Clientset
	// plugins are upstream's ServiceAccount, which comes first, and NodeRestriction.
	accounts *serviceaccount.Plugin
	plugin   *noderestriction.Plugin
}

// A nodeRequest is a request that writes.
type nodeRequest struct {
	op        admission.Operation
	resource  schema.GroupVersionResource
	sub       string
	namespace string
	name      string // of the URL
	body      runtime.Object
}

var (
	podsResource   = corev1.SchemeGroupVersion.WithResource("pods")
	nodesResource  = corev1.SchemeGroupVersion.WithResource("nodes")
	claimsResource = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	accounts       = corev1.SchemeGroupVersion.WithResource("serviceaccounts")
	leases         = coordinationv1.SchemeGroupVersion.WithResource("leases")
	csiNodes       = storagev1.SchemeGroupVersion.WithResource("csinodes")
	slicesResource = resourcev1.SchemeGroupVersion.WithResource("resourceslices")
	configMaps     = corev1.SchemeGroupVersion.WithResource("configmaps")
)

const driverName = "com.example.csi.mydriver"

func kubelet(node string) authenticationv1.UserInfo {
	return authenticationv1.UserInfo{Username: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"}}
}

// podOn returns a pod of a node, which may be a mirror pod with the node as its owner.
func podOn(name, node string, mirror bool) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if mirror {
		pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
		pod.OwnerReferences = []metav1.OwnerReference{ownerOf(node)}
	}
	return pod
}

func ownerOf(node string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node, UID: "uid-of-mynode", Controller: ptr.To(true)}
}

// withVolume returns a pod of the node with a volume.
func withVolume(name string, source corev1.VolumeSource) *corev1.Pod {
	pod := podOn(name, "mynode", false)
	pod.Spec.Volumes = []corev1.Volume{{Name: "myvol", VolumeSource: source}}
	return pod
}

func tokenVolume(audience string) corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: audience, Path: "token"}},
	}}}
}

func claimVolume(name string) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

func claimOf(name, volume string) *corev1.PersistentVolumeClaim {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10G")}
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: volume,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: size},
	}
}

func volumeOf(name string, source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10G")},
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, PersistentVolumeSource: source,
		ClaimRef: &corev1.ObjectReference{Namespace: "ns"},
	}}
}

func csiDriver(name string, audiences ...string) *storagev1.CSIDriver {
	d := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, a := range audiences {
		d.Spec.TokenRequests = append(d.Spec.TokenRequests, storagev1.TokenRequest{Audience: a})
	}
	return d
}

func leaseOf(namespace, name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(name), LeaseDurationSeconds: ptr.To[int32](40)},
	}
}

func sliceOf(name string, node *string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "d.example.com", NodeName: node, Pool: resourcev1.ResourcePool{Name: "p", ResourceSliceCount: 1},
	}}
	if node == nil {
		s.Spec.AllNodes = ptr.To(true)
	}
	return s
}

// storedObjects are the objects of a nodeWorld.
func storedObjects() []runtime.Object {
	mynode := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mynode", UID: "uid-of-mynode", Labels: map[string]string{
		"foo": "old", "kubernetes.io/os": "old", "other.k8s.io/foo": "old", "node-restriction.kubernetes.io/foo": "old",
	}}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "mykey", Value: "A", Effect: corev1.TaintEffectNoSchedule}}}}
	mynode.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Machine", Name: "m", UID: "u"}}
	all := []runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}},
		mynode, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "othernode", UID: "uid-of-othernode"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mysa"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "default"}},
		withVolume("none", tokenVolume("")), withVolume("projected", tokenVolume("foo")),
		withVolume("csi", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driverName}}),
		withVolume("csi-unknown", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "unknown"}}),
		withVolume("claim", claimVolume("pvclaim")), withVolume("claim-unknown", claimVolume("unknown")),
		withVolume("claim-lost", claimVolume("lost")), withVolume("claim-azure", claimVolume("pvclaim-azurefile")),
		withVolume("claim-nfs", claimVolume("nfs")),
		withVolume("azure", corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{ShareName: "default", SecretName: "secret"}}),
		withVolume("ephemeral", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claimOf("", "").Spec},
		}}),
		claimOf("pvclaim", "pvname"), claimOf("ephemeral-myvol", "pvname"), claimOf("lost", "unknown"),
		claimOf("pvclaim-azurefile", "pvname-azurefile"), claimOf("nfs", "nfs"),
		volumeOf("pvname", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: "h"}}),
		volumeOf("pvname-azurefile", corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{
			ShareName: "default", SecretName: "secret", SecretNamespace: ptr.To("ns"),
		}}),
		volumeOf("nfs", corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}}),
		csiDriver(driverName, "foo"), csiDriver("file.csi.azure.com", "foo"),
		leaseOf("ns", "mynode"), leaseOf(corev1.NamespaceNodeLease, "mynode"), leaseOf(corev1.NamespaceNodeLease, "othernode"),
		&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "mynode"}}, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "othernode"}},
		sliceOf("mine", ptr.To("mynode")), sliceOf("other", ptr.To("othernode")), sliceOf("none", nil),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "map"}},
	}
	for _, mirror := range []string{"", "mirror"} {
		all = append(all, podOn("my"+mirror+"pod", "mynode", mirror != ""), podOn("other"+mirror+"pod", "othernode", mirror != ""),
			podOn("unbound"+mirror+"pod", "", mirror != ""))
	}
	return all
}

func newNodeWorld(t rapid.TB) *nodeWorld {
	w := &nodeWorld{server: fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }, RBAC: true, MountTokens: true})}
	w.admin = w.server.Client(sim.DirectCaller())
	meta := metav1.ObjectMeta{Name: "test"}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "test"}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:authenticated"}}
	objects := append(storedObjects(),
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"get", "create", "update", "patch", "delete"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
			{Verbs: []string{"request-serviceaccounts-token-audience"}, APIGroups: []string{""}, Resources: []string{"granted"}},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
	if err := w.server.Add(objects...); err != nil {
		t.Fatal(err)
	}
	w.plugin = noderestriction.NewPlugin(nodeidentifier.NewDefaultNodeIdentifier())
	w.plugin.InspectFeatureGates(utilfeature.DefaultFeatureGate)
	factory := informers.NewSharedInformerFactory(clientgofake.NewClientset(), 0)
	w.plugin.SetExternalKubeInformerFactory(factory)
	w.accounts = serviceaccount.NewServiceAccount()
	w.accounts.SetExternalKubeClientSet(clientgofake.NewClientset())
	w.accounts.SetExternalKubeInformerFactory(factory)
	w.plugin.SetAuthorizer(authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetVerb() == "request-serviceaccounts-token-audience" && a.GetResource() == "granted" {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	}))
	for resource, indexer := range map[string]cache.Indexer{
		"pods": factory.Core().V1().Pods().Informer().GetIndexer(), "nodes": factory.Core().V1().Nodes().Informer().GetIndexer(),
		"serviceaccounts":        factory.Core().V1().ServiceAccounts().Informer().GetIndexer(),
		"persistentvolumeclaims": factory.Core().V1().PersistentVolumeClaims().Informer().GetIndexer(),
		"persistentvolumes":      factory.Core().V1().PersistentVolumes().Informer().GetIndexer(),
		"csidrivers":             factory.Storage().V1().CSIDrivers().Informer().GetIndexer(),
	} {
		for _, obj := range w.server.List(resource) {
			if err := indexer.Add(obj); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.plugin.ValidateInitialization(); err != nil {
		t.Fatal(err)
	}
	return w
}

// internal returns an object as upstream's admission plugins see it: decoded, with defaults.
func internal(t rapid.TB, obj runtime.Object) runtime.Object {
	if obj == nil {
		return nil
	}
	obj = obj.DeepCopyObject()
	legacyscheme.Scheme.Default(obj)
	kinds, _, err := legacyscheme.Scheme.ObjectKinds(obj)
	if err != nil {
		t.Fatal(err)
	}
	out, err := legacyscheme.Scheme.ConvertToVersion(obj, schema.GroupVersion{Group: kinds[0].Group, Version: runtime.APIVersionInternal})
	if err != nil {
		t.Fatal(err)
	}
	out.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return out
}

// stored returns the stored object of a request, or nil.
func (w *nodeWorld) stored(r nodeRequest) fake.Object {
	client, _ := w.admin.Resource(r.resource, r.namespace)
	obj, err := client.Get(context.Background(), r.name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return obj
}

// theirs returns the decision of upstream's plugin.
func (w *nodeWorld) theirs(t rapid.TB, who authenticationv1.UserInfo, r nodeRequest) error {
	var old runtime.Object
	if r.op != admission.Create {
		if obj := w.stored(r); obj != nil {
			old = internal(t, obj)
		}
	}
	info := &user.DefaultInfo{Name: who.Username, Groups: who.Groups}
	attributes := admission.NewAttributesRecord(internal(t, r.body), old, schema.GroupVersionKind{},
		r.namespace, r.name, r.resource, r.sub, r.op, nil, false, info)
	if err := w.accounts.Admit(context.Background(), attributes, nil); err != nil {
		return err
	}
	return w.plugin.Admit(context.Background(), attributes, nil)
}

// ours makes the request without an effect.
func (w *nodeWorld) ours(t rapid.TB, who *authenticationv1.UserInfo, r nodeRequest) error {
	c := w.admin
	if who != nil {
		c = c.AsUser(*who)
	}
	client, ok := c.Resource(r.resource, r.namespace)
	if !ok {
		t.Fatalf("%s is not served", r.resource)
	}
	ctx, dry := context.Background(), []string{metav1.DryRunAll}
	var sub []string
	if r.sub != "" {
		sub = []string{r.sub}
	}
	var err error
	switch {
	case r.op == admission.Delete:
		_, err = client.Delete(ctx, r.name, metav1.DeleteOptions{DryRun: dry})
	case r.op == admission.Update:
		_, err = client.Update(ctx, r.name, r.body.DeepCopyObject().(fake.Object), metav1.UpdateOptions{DryRun: dry}, sub...)
	case r.sub != "":
		_, err = client.CreateSubresource(ctx, r.name, r.sub, r.body.DeepCopyObject(), metav1.CreateOptions{DryRun: dry})
	default:
		_, err = client.Create(ctx, r.body.DeepCopyObject().(fake.Object), metav1.CreateOptions{DryRun: dry})
	}
	return err
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// compare fails unless both decide alike: with the same error or, if upstream's plugin admits the request, with the
// error that an administrator gets for it. It returns upstream's.
func (w *nodeWorld) compare(t rapid.TB, who authenticationv1.UserInfo, r nodeRequest) string {
	theirs, ours := w.theirs(t, who, r), w.ours(t, &who, r)
	want, got := textOf(theirs), textOf(ours)
	if theirs == nil {
		want = textOf(w.ours(t, nil, r))
	}
	// The rest is the difference of two objects, whose fields have other names.
	const fields = "other than status.quantity and status.conditions: "
	if i := strings.Index(want, fields); i >= 0 {
		end := i + len(fields)
		if want = want[:end]; len(got) > end {
			got = got[:end]
		}
	}
	if want != got {
		t.Fatalf("%s %s %s %s/%s by %s: %s\nupstream %q\nours     %q", r.op, r.resource.Resource, r.sub, r.namespace, r.name,
			who.Username, bodyOf(r.body), want, got)
	}
	return textOf(theirs)
}

func bodyOf(obj runtime.Object) string {
	if obj == nil {
		return ""
	}
	return fmt.Sprintf("%+v", obj)
}
