package fake

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/reference"
)

// namespaces is the client of namespaces, with the subresource finalize.
type namespaces struct {
	resource[*corev1.Namespace, *corev1.NamespaceList, *applycorev1.NamespaceApplyConfiguration]
}

// Finalize replaces the finalizers in a namespace's spec. No other update can.
func (n namespaces) Finalize(ctx context.Context, ns *corev1.Namespace, opts metav1.UpdateOptions) (*corev1.Namespace,
	error,
) {
	return n.update(ctx, ns, opts, "finalize")
}

// nodes is the client of nodes, with PatchStatus.
type nodes struct {
	resource[*corev1.Node, *corev1.NodeList, *applycorev1.NodeApplyConfiguration]
}

// PatchStatus applies a strategic merge patch to a node's status.
func (n nodes) PatchStatus(ctx context.Context, name string, data []byte) (*corev1.Node, error) {
	return n.Patch(ctx, name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
}

// events is the client of events, with methods that take the namespace from the event.
type events struct {
	resource[*corev1.Event, *corev1.EventList, *applycorev1.EventApplyConfiguration]
}

// in returns the client of the event's namespace.
func (e events) in(verb string, event *corev1.Event) (events, error) {
	if e.namespace != "" && event.Namespace != e.namespace {
		return e, fmt.Errorf("can't %s an event with namespace '%v' in namespace '%v'", verb, event.Namespace,
			e.namespace)
	}
	e.namespace = event.Namespace
	return e, nil
}

// CreateWithEventNamespace creates an event in its own namespace.
func (e events) CreateWithEventNamespace(event *corev1.Event) (*corev1.Event, error) {
	return e.CreateWithEventNamespaceWithContext(context.Background(), event)
}

// CreateWithEventNamespaceWithContext creates an event in its own namespace.
func (e events) CreateWithEventNamespaceWithContext(ctx context.Context, event *corev1.Event) (*corev1.Event, error) {
	own, err := e.in("create", event)
	if err != nil {
		return nil, err
	}
	return own.Create(ctx, event, metav1.CreateOptions{})
}

// UpdateWithEventNamespace updates an event in its own namespace.
func (e events) UpdateWithEventNamespace(event *corev1.Event) (*corev1.Event, error) {
	return e.UpdateWithEventNamespaceWithContext(context.Background(), event)
}

// UpdateWithEventNamespaceWithContext updates an event in its own namespace.
func (e events) UpdateWithEventNamespaceWithContext(ctx context.Context, event *corev1.Event) (*corev1.Event, error) {
	own, err := e.in("update", event)
	if err != nil {
		return nil, err
	}
	return own.Update(ctx, event, metav1.UpdateOptions{})
}

// PatchWithEventNamespace applies a strategic merge patch to an event in its own namespace.
func (e events) PatchWithEventNamespace(event *corev1.Event, data []byte) (*corev1.Event, error) {
	return e.PatchWithEventNamespaceWithContext(context.Background(), event, data)
}

// PatchWithEventNamespaceWithContext applies a strategic merge patch to an event in its own
// namespace.
func (e events) PatchWithEventNamespaceWithContext(ctx context.Context,
	event *corev1.Event, data []byte) (*corev1.Event,
	error,
) {
	own, err := e.in("patch", event)
	if err != nil {
		return nil, err
	}
	return own.Patch(ctx, event.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{})
}

// Search returns the events about an object.
func (e events) Search(scheme *runtime.Scheme, obj runtime.Object) (*corev1.EventList, error) {
	return e.SearchWithContext(context.Background(), scheme, obj)
}

// SearchWithContext returns the events about an object.
func (e events) SearchWithContext(ctx context.Context, scheme *runtime.Scheme, obj runtime.Object) (*corev1.EventList,
	error,
) {
	ref, err := reference.GetReference(scheme, obj)
	if err != nil {
		return nil, err
	}
	if e.namespace != "" && ref.Namespace != e.namespace {
		return nil, fmt.Errorf("won't be able to find any events of namespace '%v' in namespace '%v'", ref.Namespace,
			e.namespace)
	}
	var kind, uid *string
	if ref.Kind != "" {
		kind = &ref.Kind
	}
	if u := string(ref.UID); u != "" {
		uid = &u
	}
	sel := e.GetFieldSelector(&ref.Name, &ref.Namespace, kind, uid)
	return e.List(ctx, metav1.ListOptions{FieldSelector: sel.String()})
}

// GetFieldSelector returns the selector of the events about an object. Nil fields are not selected
// by.
func (e events) GetFieldSelector(name, namespace, kind, uid *string) fields.Selector {
	set := fields.Set{}
	for label, value := range map[string]*string{
		"involvedObject.name": name, "involvedObject.namespace": namespace,
		"involvedObject.kind": kind, "involvedObject.uid": uid,
	} {
		if value != nil {
			set[label] = *value
		}
	}
	return set.AsSelector()
}

// serviceAccounts is the client of service accounts, with tokens.
type serviceAccounts struct {
	resource[*corev1.ServiceAccount, *corev1.ServiceAccountList, *applycorev1.ServiceAccountApplyConfiguration]
}

// CreateToken creates a token for a service account.
func (a serviceAccounts) CreateToken(ctx context.Context, name string, request *authenticationv1.TokenRequest,
	opts metav1.CreateOptions,
) (*authenticationv1.TokenRequest, error) {
	if err := a.addressable(name); err != nil {
		return nil, err
	}
	answer, err := a.CreateSubresource(ctx, name, "token", request.DeepCopy(), opts)
	if err != nil {
		return nil, err
	}
	if answer == nil { // from an interceptor
		return &authenticationv1.TokenRequest{}, nil
	}
	return answer.(*authenticationv1.TokenRequest), nil
}

// services is the client of services, with a proxy that answers 404.
type services struct {
	resource[*corev1.Service, *corev1.ServiceList, *applycorev1.ServiceApplyConfiguration]
}

// ProxyGet returns a request that fails: services have no backends.
func (s services) ProxyGet(scheme, name, port, path string, params map[string]string) rest.ResponseWrapper {
	return unservedClient().CoreV1().Services(s.namespace).ProxyGet(scheme, name, port, path, params)
}
