package reactors

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/testing"

	"github.com/volsim/volsim/fake"
)

// Clientset is a client of a server that records its requests and runs reactors. Its methods may be
// called concurrently where those of client-go's may. A zero Clientset has no server, and its
// clients panic.
type Clientset struct {
	*fake.Clientset
	testing.Fake
}

var (
	_ kubernetes.Interface = (*Clientset)(nil)
	_ testing.FakeClient   = (*Clientset)(nil)
)

// NewClientset returns a client of a new server that holds the given objects. See
// [fake.NewClientset].
func NewClientset(objects ...runtime.Object) *Clientset { return wrap(fake.NewClientset(objects...)) }

// NewSimpleClientset is [NewClientset] under the older name of client-go's fake clientset.
func NewSimpleClientset(objects ...runtime.Object) *Clientset { return NewClientset(objects...) }

// wrap returns a client that makes the requests of c, but records them and runs reactors first.
func wrap(c *fake.Clientset) *Clientset {
	out := &Clientset{}
	chain := &out.Fake
	chain.AddReactor("*", "*", func(testing.Action) (bool, runtime.Object, error) { return true, nil, errAskServer })
	chain.AddWatchReactor("*", func(testing.Action) (bool, watch.Interface, error) { return true, nil, errAskServer })
	out.Clientset = c.WithInterceptor(interceptor{chain})
	return out
}

// errAskServer is the result of a chain in which no reactor handled the action. The server is asked
// after the chain, since the chain holds a lock while it runs.
var errAskServer = errors.New("no reactor handled the request")

// interceptor passes requests through the chains.
type interceptor struct{ chain *testing.Fake }

// Intercept records a request, and returns the answer of a reactor or else of the server.
func (i interceptor) Intercept(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
	obj, err := i.chain.Invokes(action(r), nil)
	if errors.Is(err, errAskServer) {
		return serve()
	}
	return obj, err
}

// IsWatchListSemanticsUnSupported reports whether informers must list first. They must: the watch
// of a reactor has no bookmark that ends the initial events, and informers would never sync.
func (interceptor) IsWatchListSemanticsUnSupported() bool { return true }

// InterceptWatch records a watch, and returns that of a reactor or else of the server.
func (i interceptor) InterceptWatch(r fake.Request, serve func() (watch.Interface, error)) (watch.Interface, error) {
	w, err := i.chain.InvokesWatch(action(r))
	if errors.Is(err, errAskServer) {
		return serve()
	}
	return w, err
}

// action returns a request as an action of client-go's clientset.
func action(r fake.Request) testing.Action {
	switch r.Verb {
	case "create":
		return testing.CreateActionImpl{
			ActionImpl: actionImpl(r), Name: r.Name, Object: r.Body, CreateOptions: r.Options.(metav1.CreateOptions),
		}
	case "update":
		return testing.UpdateActionImpl{
			ActionImpl: actionImpl(r), Object: r.Body, UpdateOptions: r.Options.(metav1.UpdateOptions),
		}
	case "patch":
		return testing.PatchActionImpl{
			ActionImpl: actionImpl(r), Name: r.Name, PatchType: r.PatchType, Patch: r.Patch,
			PatchOptions: r.Options.(metav1.PatchOptions),
		}
	case "delete":
		return testing.DeleteActionImpl{
			ActionImpl: actionImpl(r), Name: r.Name, DeleteOptions: r.Options.(metav1.DeleteOptions),
		}
	case "get":
		return testing.GetActionImpl{ActionImpl: actionImpl(r), Name: r.Name, GetOptions: r.Options.(metav1.GetOptions)}
	case "list":
		return testing.NewListActionWithOptions(r.Resource, r.Kind, r.Namespace, r.ListOptions)
	case "watch":
		return testing.NewWatchActionWithOptions(r.Resource, r.Namespace, r.ListOptions)
	default:
		return testing.NewDeleteCollectionActionWithOptions(r.Resource, r.Namespace, r.Options.(metav1.DeleteOptions),
			r.ListOptions)
	}
}

func actionImpl(r fake.Request) testing.ActionImpl {
	return testing.ActionImpl{Namespace: r.Namespace, Verb: r.Verb, Resource: r.Resource, Subresource: r.Subresource}
}
