package namespace

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// latest returns the namespace from the server, or nil if it does not exist.
func (c *controller) latest(ctx context.Context, name string) (*corev1.Namespace, error) {
	ns, err := c.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return ns, err
}

// terminating sets the namespace's phase to Terminating.
func (c *controller) terminating(ctx context.Context, ns *corev1.Namespace) (*corev1.Namespace, error) {
	if ns.Status.Phase == corev1.NamespaceTerminating {
		return ns, nil
	}
	ns = ns.DeepCopy()
	ns.Status.Phase = corev1.NamespaceTerminating
	updated, err := c.client.CoreV1().Namespaces().UpdateStatus(ctx, ns, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return updated, err
}

// finalize removes the finalizer kubernetes from a namespace. The namespace is then deleted unless
// it has another one.
//
// Differs: a conflict is an error, and the namespace is synced again. Upstream retries at once with
// the latest version.
//
// Upstream: pkg/controller/namespace/deletion namespacedResourcesDeleter.finalizeNamespace.
func (c *controller) finalize(ctx context.Context, ns *corev1.Namespace) error {
	final := &corev1.Namespace{ObjectMeta: ns.ObjectMeta, Spec: *ns.Spec.DeepCopy()}
	final.Spec.Finalizers = slices.DeleteFunc(final.Spec.Finalizers,
		func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
	slices.Sort(final.Spec.Finalizers)
	_, err := c.client.CoreV1().Namespaces().Finalize(ctx, final, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
