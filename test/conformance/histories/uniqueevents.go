package histories

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/sim"
)

// UniqueEvents returns a client that numbers the names of events with count. Upstream derives names
// from the object's name and the time. In a bubble time stands still, and the API server would
// reject the second of two events about an object.
func UniqueEvents(server *fake.Server, caller sim.Caller, count *atomic.Int64) kubernetes.Interface {
	return uniqueClient{server.Client(caller), server, caller, count}
}

// ConfigOf returns a configuration for further clients of the server of a client of UniqueEvents. Their
// requests are made by the same caller.
func ConfigOf(client kubernetes.Interface) *rest.Config {
	of := client.(uniqueClient)
	return apiserver.NewConfig(of.server, of.caller)
}

type uniqueClient struct {
	kubernetes.Interface
	server *fake.Server
	caller sim.Caller
	count  *atomic.Int64
}

func (r uniqueClient) CoreV1() typedcorev1.CoreV1Interface {
	return uniqueCore{r.Interface.CoreV1(), r}
}

func (r uniqueClient) number(e *corev1.Event) { e.Name = fmt.Sprintf("%s.%d", e.Name, r.count.Add(1)) }

type uniqueCore struct {
	typedcorev1.CoreV1Interface
	client uniqueClient
}

func (r uniqueCore) Events(namespace string) typedcorev1.EventInterface {
	return uniqueEvents{r.CoreV1Interface.Events(namespace), r.client}
}

// RESTClient returns a client for events, which some of upstream's controllers record so.
func (r uniqueCore) RESTClient() rest.Interface {
	number := func(request fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if Is(request, "create", "events") {
			r.client.number(request.Body.(*corev1.Event))
		}
		return serve()
	}
	config := apiserver.NewConfig(r.client.server, sim.DirectCaller(), func(client *fake.Clientset) *fake.Clientset {
		return client.WithInterceptor(fake.InterceptorFunc(number))
	})
	return kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient()
}

type uniqueEvents struct {
	typedcorev1.EventInterface
	client uniqueClient
}

func (r uniqueEvents) CreateWithEventNamespace(e *corev1.Event) (*corev1.Event, error) {
	e = e.DeepCopy()
	r.client.number(e)
	return r.EventInterface.CreateWithEventNamespaceWithContext(context.Background(), e)
}

// ShutDownEvents ends the goroutines of the field eventRecorder of a controller that ends only with its
// process.
func ShutDownEvents(controller any) {
	field := reflect.ValueOf(controller).Elem().FieldByName("eventRecorder").Elem()
	recorder := reflect.Indirect(field).FieldByName("recorderImpl").Elem()
	(*watch.Broadcaster)(recorder.FieldByName("Broadcaster").UnsafePointer()).Shutdown()
}
