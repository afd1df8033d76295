package histories

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// UniqueEvents returns a client that numbers the names of events with count. Upstream derives names
// from the object's name and the time. In a bubble time stands still, and the API server would
// reject the second of two events about an object.
func UniqueEvents(client kubernetes.Interface, count *atomic.Int64) kubernetes.Interface {
	return uniqueClient{client, count}
}

type uniqueClient struct {
	kubernetes.Interface
	count *atomic.Int64
}

func (r uniqueClient) CoreV1() typedcorev1.CoreV1Interface {
	return uniqueCore{r.Interface.CoreV1(), r.count}
}

type uniqueCore struct {
	typedcorev1.CoreV1Interface
	count *atomic.Int64
}

func (r uniqueCore) Events(namespace string) typedcorev1.EventInterface {
	return uniqueEvents{r.CoreV1Interface.Events(namespace), r.count}
}

type uniqueEvents struct {
	typedcorev1.EventInterface
	count *atomic.Int64
}

func (r uniqueEvents) CreateWithEventNamespace(e *corev1.Event) (*corev1.Event, error) {
	e = e.DeepCopy()
	e.Name = fmt.Sprintf("%s.%d", e.Name, r.count.Add(1))
	return r.EventInterface.CreateWithEventNamespaceWithContext(context.Background(), e)
}
