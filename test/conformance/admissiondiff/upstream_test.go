package admissiondiff

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/discovery"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/openapi"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"

	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/sim"
)

var (
	thingGVR = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
	thingGVK = thingGVR.GroupVersion().WithKind("Thing")
)

// plugins are upstream's plugins over client-go's fake clientset.
type plugins struct {
	validating *validating.Plugin
	mutating   *mutating.Plugin
}

// documented is a client whose server has OpenAPI documents.
type documented struct{ kubernetes.Interface }

func (d documented) Discovery() discovery.DiscoveryInterface {
	return documents{d.Interface.Discovery()}
}

// IsWatchListSemanticsUnSupported says of informers what the fake clientset does.
func (documented) IsWatchListSemanticsUnSupported() bool { return true }

type documents struct{ discovery.DiscoveryInterface }

func (documents) OpenAPIV3() openapi.Client { return schemas{} }

// schemas are the OpenAPI documents of our server, whose definitions are those of a real one.
type schemas struct{}

var paths = sync.OnceValues(func() (map[string]openapi.GroupVersion, error) {
	client, err := discovery.NewDiscoveryClientForConfig(apiserver.NewConfig(newServer(), sim.DirectCaller()))
	if err != nil {
		return nil, err
	}
	all, err := client.OpenAPIV3().Paths()
	maps.DeleteFunc(all, func(path string, _ openapi.GroupVersion) bool {
		return path != "api/v1" && path != "apis/apps/v1" && path != "apis/example.com/v1"
	})
	return all, err
})

func (schemas) Paths() (map[string]openapi.GroupVersion, error) { return paths() }

// startPlugins starts the plugins over some objects.
func startPlugins(ctx context.Context, authz authorizer.Authorizer, typed, custom []runtime.Object) (*plugins, error) {
	client := documented{fake.NewClientset(typed...)}
	dynamic := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(scheme.Scheme, map[schema.GroupVersionResource]string{thingGVR: "ThingList"}, custom...)
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind, scope := range map[string]meta.RESTScope{"ConfigMap": meta.RESTScopeNamespace, "Namespace": meta.RESTScopeRoot} {
		mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: kind}, scope)
	}
	mapper.Add(thingGVK, meta.RESTScopeNamespace)
	p := &plugins{}
	var err error
	if p.validating, err = validating.NewPlugin(nil); err != nil {
		return nil, err
	}
	if p.mutating, err = mutating.NewPlugin(nil); err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	for _, each := range []interface {
		SetExternalKubeInformerFactory(informers.SharedInformerFactory)
		SetExternalKubeClientSet(kubernetes.Interface)
		SetRESTMapper(meta.RESTMapper)
		SetDrainedNotification(<-chan struct{})
		SetAuthorizer(authorizer.Authorizer)
		SetEnabled(bool)
		ValidateInitialization() error
	}{p.validating, p.mutating} {
		each.SetExternalKubeInformerFactory(factory)
		each.SetExternalKubeClientSet(client)
		each.SetRESTMapper(mapper)
		each.SetDrainedNotification(ctx.Done())
		each.SetAuthorizer(authz)
		each.SetEnabled(true)
	}
	p.validating.SetDynamicClient(dynamic)
	p.mutating.SetDynamicClient(dynamic)
	if err := p.validating.ValidateInitialization(); err != nil {
		return nil, err
	}
	if err := p.mutating.ValidateInitialization(); err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for !p.validating.WaitForReady() || !p.mutating.WaitForReady() {
		time.Sleep(time.Millisecond)
	}
	return p, nil
}

// internal returns an object in upstream's internal form.
func internal(obj runtime.Object) (runtime.Object, error) {
	if _, custom := obj.(*unstructured.Unstructured); custom || obj == nil {
		return obj, nil
	}
	return legacyscheme.Scheme.ConvertToVersion(obj, runtime.InternalGroupVersioner)
}

// external is the inverse of internal, in a version.
func external(obj runtime.Object, gv schema.GroupVersion) (runtime.Object, error) {
	if _, custom := obj.(*unstructured.Unstructured); custom {
		return obj, nil
	}
	return legacyscheme.Scheme.ConvertToVersion(obj, gv)
}

// objectInterfaces are those of a resource.
func objectInterfaces(custom bool) admission.ObjectInterfaces {
	if custom {
		return unstructuredInterfaces{admission.NewObjectInterfacesFromScheme(legacyscheme.Scheme)}
	}
	return admission.NewObjectInterfacesFromScheme(legacyscheme.Scheme)
}

// unstructuredInterfaces are those of custom resources.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver, the scope of a request.
type unstructuredInterfaces struct{ admission.ObjectInterfaces }

func (u unstructuredInterfaces) GetObjectConvertor() runtime.ObjectConvertor {
	return unstructuredConvertor{u.ObjectInterfaces.GetObjectConvertor()}
}

type unstructuredConvertor struct{ runtime.ObjectConvertor }

func (unstructuredConvertor) Convert(in, out, _ any) error {
	out.(*unstructured.Unstructured).Object = in.(*unstructured.Unstructured).Object
	return nil
}
