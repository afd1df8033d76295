package apiserver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

var claimResource = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")

// TestInformersFollow runs client-go's informers across a compaction that forces a relist.
func TestInformersFollow(t *testing.T) {
	eachWay(t, func(t *testing.T, w world) {
		ctx, cancel := context.WithCancel(t.Context())
		factory := informers.NewSharedInformerFactory(w.client, 0)
		calls := make(chan string)
		record := func(what string) func(any) {
			return func(obj any) {
				if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					obj = gone.Obj
				}
				calls <- what + obj.(metav1.Object).GetName()
			}
		}
		claims := factory.Core().V1().PersistentVolumeClaims()
		testcheck.Must(claims.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: record("+"), UpdateFunc: func(_, obj any) { record("~")(obj) }, DeleteFunc: record("-"),
		}))
		direct := w.server.Client(direct).CoreV1().PersistentVolumeClaims("default")
		create := func(name string) {
			testcheck.Must(direct.Create(ctx, newClaim(name), metav1.CreateOptions{}))
		}
		create("a")
		factory.Start(ctx.Done())
		var got []string
		next := func() { got = append(got, <-calls) }
		next()
		create("b")
		next()
		w.server.Compact()
		create("c")
		next()
		testcheck.Must(direct.Patch(ctx, "a", types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null,"labels":{"a":"b"}}}`), metav1.PatchOptions{}))
		next()
		if err := direct.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		next()
		if diff := cmp.Diff([]string{"+a", "+b", "+c", "~a", "-a"}, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		cancel()
		factory.Shutdown()
	})
}

// TestDynamicClient uses built-in and custom resources without their Go types.
func TestDynamicClient(t *testing.T) {
	for _, by := range transports() {
		t.Run(by.name, func(t *testing.T) {
			ctx, s := t.Context(), newThings()
			client := dynamic.NewForConfigOrDie(by.open(t, s))
			of := testcheck.Must[*unstructured.Unstructured]
			for _, r := range []schema.GroupVersionResource{
				{Group: "example.com", Version: "v1", Resource: "things"},
				corev1.SchemeGroupVersion.WithResource("configmaps"),
			} {
				kind := map[string]string{"things": "Thing", "configmaps": "ConfigMap"}[r.Resource]
				things := client.Resource(r).Namespace("default")
				obj := &unstructured.Unstructured{}
				obj.SetGroupVersionKind(r.GroupVersion().WithKind(kind))
				obj.SetName("a")
				obj = of(things.Create(ctx, obj, metav1.CreateOptions{}))
				obj.SetLabels(map[string]string{"a": "b"})
				of(things.Update(ctx, obj, metav1.UpdateOptions{}))
				obj = of(things.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"c":"d"}}}`),
					metav1.PatchOptions{}))
				list := testcheck.Must(things.List(ctx,
					metav1.ListOptions{LabelSelector: "a=b"}))
				if len(list.Items) != 1 || list.GetKind() != kind+"List" {
					t.Fatalf("list: got %v", list)
				}
				if diff := cmp.Diff(obj, &list.Items[0]); diff != "" {
					t.Errorf("(-patched +listed)\n%s", diff)
				}
				if err := things.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				if list := testcheck.Must(things.List(ctx,
					metav1.ListOptions{})); len(list.Items) != 0 && r.Resource == "things" {
					t.Errorf("left: %v", list.Items)
				}
			}
		})
	}
}

// TestMetadataClient reads, patches and watches metadata only, in protobuf.
func TestMetadataClient(t *testing.T) {
	for _, by := range transports() {
		t.Run(by.name, func(t *testing.T) {
			ctx, s := t.Context(), newServer()
			claims := metadata.NewForConfigOrDie(by.open(t, s)).Resource(claimResource).Namespace("default")
			testcheck.Must(s.Client(direct).CoreV1().PersistentVolumeClaims("default").Create(ctx,
				newClaim("a"), metav1.CreateOptions{}))
			patched := testcheck.Must(claims.Patch(ctx, "a", types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"c":"d"}}}`), metav1.PatchOptions{}))
			list := testcheck.Must(claims.List(ctx,
				metav1.ListOptions{LabelSelector: "c=d"}))
			if len(list.Items) != 1 {
				t.Fatalf("list: got %v", list)
			}
			if diff := cmp.Diff(*patched, list.Items[0]); diff != "" {
				t.Errorf("(-patched +listed)\n%s", diff)
			}
			events, err := claims.Watch(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer events.Stop()
			if e := <-events.ResultChan(); e.Type != "ADDED" || e.Object.(*metav1.PartialObjectMetadata).Name != "a" {
				t.Errorf("event: got %v", e)
			}
		})
	}
}

// TestScaleClient reads and writes a scale through the client that discovers its group and version.
func TestScaleClient(t *testing.T) {
	eachWay(t, func(t *testing.T, w world) {
		ctx, sets := t.Context(), w.client.AppsV1().StatefulSets("default")
		selector := map[string]string{"a": "b"}
		testcheck.Must(sets.Create(ctx, &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: "s"},
			Spec: appsv1.StatefulSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: selector},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: selector}, Spec: newPod("").Spec,
				},
			},
		}, metav1.CreateOptions{}))
		got := testcheck.Must(sets.GetScale(ctx, "s", metav1.GetOptions{}))
		got.Spec.Replicas = 3
		testcheck.Must(sets.UpdateScale(ctx, "s", got, metav1.UpdateOptions{}))
		got = testcheck.Must(sets.GetScale(ctx, "s", metav1.GetOptions{}))
		if got.Spec.Replicas != 3 || got.Status.Selector != "a=b" {
			t.Errorf("got %v", got)
		}
		kind := testcheck.Must(scale.NewDiscoveryScaleKindResolver(w.client.Discovery()).
			ScaleForResource(appsv1.SchemeGroupVersion.WithResource("statefulsets")))
		if want := autoscalingv1.SchemeGroupVersion.WithKind("Scale"); kind != want {
			t.Errorf("kind: got %v, want %v", kind, want)
		}
	})
}

// TestDiscoveryClient lists all resources, aggregated and group by group, while custom resources
// come and go.
func TestDiscoveryClient(t *testing.T) {
	for _, by := range transports() {
		for _, legacy := range []bool{false, true} {
			t.Run(by.name, func(t *testing.T) {
				s := newThings()
				client := discovery.NewDiscoveryClientForConfigOrDie(by.open(t, s))
				client.UseLegacyDiscovery = legacy
				names := func() map[string]string {
					t.Helper()
					_, lists, err := client.ServerGroupsAndResources()
					if err != nil {
						t.Fatal(err)
					}
					found := map[string]string{}
					for _, l := range lists {
						for _, r := range l.APIResources {
							found[l.GroupVersion+" "+r.Name] = r.Kind
						}
					}
					return found
				}
				got := names()
				for name, kind := range map[string]string{
					"v1 pods": "Pod", "v1 pods/eviction": "Eviction", "v1 bindings": "Binding",
					storagev1.SchemeGroupVersion.String() + " storageclasses": "StorageClass",
					"example.com/v1 things":                                   "Thing",
					"example.com/v1 things/status":                            "Thing",
				} {
					if got[name] != kind {
						t.Errorf("%s: got %q, want %q", name, got[name], kind)
					}
				}
				s.Uninstall("example.com", "things")
				if _, is := names()["example.com/v1 things"]; is {
					t.Error("an uninstalled resource is still listed")
				}
				if v, err := client.ServerVersion(); err != nil || v.GitVersion != "v1.36.3" {
					t.Errorf("version: got %v, %v", v, err)
				}
			})
		}
	}
}

// TestReviews creates reviews of identity and of permissions.
func TestReviews(t *testing.T) {
	eachWay(t, func(t *testing.T, w world) {
		ctx := t.Context()
		who := testcheck.Must(w.client.AuthenticationV1().SelfSubjectReviews().Create(ctx,
			&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}))
		if got := who.Status.UserInfo.Username; got != "system:admin" {
			t.Errorf("user: got %q", got)
		}
		attributes := &authorizationv1.ResourceAttributes{Namespace: "default", Verb: "get", Resource: "pods"}
		may := testcheck.Must(w.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
			&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes}},
			metav1.CreateOptions{}))
		local := testcheck.Must(w.client.AuthorizationV1().LocalSubjectAccessReviews("default").Create(ctx,
			&authorizationv1.LocalSubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "u", ResourceAttributes: attributes,
			}},
			metav1.CreateOptions{}))
		if !may.Status.Allowed || !local.Status.Allowed {
			t.Errorf("allowed: got %v and %v", may.Status, local.Status)
		}
	})
}

// TestGenericKinds lists kinds that clients of a cluster list, in JSON and in protobuf.
func TestGenericKinds(t *testing.T) {
	eachWay(t, func(t *testing.T, w world) {
		ctx, all := t.Context(), metav1.ListOptions{}
		for name, got := range map[string]int{
			"service":         len(testcheck.Must(w.client.CoreV1().Services("default").List(ctx, all)).Items),
			"slice":           len(testcheck.Must(w.client.DiscoveryV1().EndpointSlices("").List(ctx, all)).Items),
			"flow schemas":    len(testcheck.Must(w.client.FlowcontrolV1().FlowSchemas().List(ctx, all)).Items) - 1,
			"levels":          len(testcheck.Must(w.client.FlowcontrolV1().PriorityLevelConfigurations().List(ctx, all)).Items) - 1,
			"classes":         len(testcheck.Must(w.client.SchedulingV1().PriorityClasses().List(ctx, all)).Items) - 1,
			"runtime classes": len(testcheck.Must(w.client.NodeV1().RuntimeClasses().List(ctx, all)).Items) + 1,
			"pod templates":   len(testcheck.Must(w.client.CoreV1().PodTemplates("").List(ctx, all)).Items) + 1,
		} {
			if got != 1 {
				t.Errorf("%s: got %d", name, got)
			}
		}
	})
}

// A handler makes requests with the client that its configuration returns, as another user.
func TestClientOfAHandler(t *testing.T) {
	server := newServer()
	srv := httptest.NewServer(apiserver.NewHandler(server, apiserver.HandlerConfig{
		Caller: func(*http.Request) sim.Caller { return direct },
		Client: func(client *fake.Clientset) *fake.Clientset {
			return client.AsUser(authenticationv1.UserInfo{Username: "alice"})
		},
	}))
	defer srv.Close()
	client := kubernetes.NewForConfigOrDie(&clientrest.Config{Host: srv.URL, Proxy: http.ProxyURL(nil)})
	who := testcheck.Must(client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}))
	if got := who.Status.UserInfo.Username; got != "alice" {
		t.Errorf("user: got %q", got)
	}
}
