package namespace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
)

// errRemaining means that content remains without a finalizer. It is not retried: its deletion will
// be observed.
var errRemaining = errors.New("unexpected items still remain in namespace")

// content is the content that remained in a namespace after its deletion was requested.
type content struct {
	remaining  map[types.UID]schema.GroupVersionResource
	resources  map[schema.GroupVersionResource]int // number of remaining objects
	finalizers map[string]int                      // number of objects with the finalizer
	grace      time.Duration                       // until the pods should be gone
}

func newContent() content {
	return content{
		remaining:  map[types.UID]schema.GroupVersionResource{},
		resources:  map[schema.GroupVersionResource]int{},
		finalizers: map[string]int{},
	}
}

// deleteContent deletes the content of a namespace, reports in its conditions what remains, and
// returns it. If content remained before, it deletes from the resources of that content first. The
// other resources follow only if nothing remains there.
//
// Differs: in discovery order; upstream's order is that of a map.
//
// Upstream: pkg/controller/namespace/deletion namespacedResourcesDeleter.deleteAllContent.
func (c *controller) deleteContent(
	ctx context.Context, ns *corev1.Namespace, before map[types.UID]schema.GroupVersionResource,
) (content, error) {
	conditions := &conditions{now: metav1.NewTime(c.process.Now())}
	resources, errs := c.resources(conditions)
	found := newContent()
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	sweep := func(some func(schema.GroupVersionResource) bool) {
		for _, r := range resources {
			if !some(r) {
				continue
			}
			if err := c.deleteResource(ctx, ns, r, &found); err != nil {
				errs = append(errs, err)
				conditions.failed = append(conditions.failed, err)
			}
		}
	}
	earlier := slices.Collect(maps.Values(before))
	if len(earlier) > 0 {
		sweep(func(r schema.GroupVersionResource) bool { return slices.Contains(earlier, r) })
	}
	if len(found.remaining) == 0 && len(conditions.failed) == 0 {
		sweep(func(r schema.GroupVersionResource) bool { return r == pods })
		if found.resources[pods] == 0 {
			sweep(func(r schema.GroupVersionResource) bool { return r != pods })
		}
	}
	if found.resources[pods] == 0 { // upstream does not report content while it waits for pods
		conditions.remaining(found)
	}
	if conditions.update(&ns.Status) {
		// As upstream, a failure is ignored: the next attempt writes the conditions again.
		if updated, err := c.client.CoreV1().Namespaces().UpdateStatus(ctx, ns, metav1.UpdateOptions{}); err == nil {
			*ns = *updated
		}
	}
	return found, c.aggregate(errs)
}

// aggregate returns errRemaining if there are no other errors, or else the others.
func (c *controller) aggregate(errs []error) error {
	remaining := false
	var others []error
	for _, err := range errs {
		if errors.Is(err, errRemaining) {
			remaining = true
		} else {
			others = append(others, err)
		}
	}
	switch {
	case len(others) > 0:
		return utilerrors.NewAggregate(others)
	case remaining:
		return errRemaining
	}
	return nil
}

// resources returns the namespaced resources that support deletion, in discovery order.
func (c *controller) resources(conditions *conditions) ([]schema.GroupVersionResource, []error) {
	var errs []error
	lists, err := c.discover()
	if err != nil {
		errs = append(errs, err)
		conditions.discovery(err)
	}
	lists = discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"delete"}}, lists)
	var all []schema.GroupVersionResource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			errs = append(errs, err)
			conditions.parsing(err)
			continue
		}
		for i := range list.APIResources {
			if list.APIResources[i].Namespaced {
				all = append(all, gv.WithResource(list.APIResources[i].Name))
			}
		}
	}
	return all, errs
}

// deleteResource deletes the objects of a resource in a namespace, and adds the remaining ones to
// found.
//
// Upstream: pkg/controller/namespace/deletion
// namespacedResourcesDeleter.deleteAllContentForGroupVersionResource.
func (c *controller) deleteResource(
	ctx context.Context, ns *corev1.Namespace, r schema.GroupVersionResource, found *content,
) error {
	grace := time.Duration(0)
	if r == corev1.SchemeGroupVersion.WithResource("pods") {
		var err error
		if grace, err = c.graceOfPods(ctx, ns); err != nil {
			return err
		}
	}
	client := c.metadata.Resource(r).Namespace(ns.Name)
	err := client.DeleteCollection(ctx, background(), metav1.ListOptions{})
	if unsupported(err) {
		err = c.deleteEach(ctx, r, ns.Name)
	}
	if err != nil {
		return err
	}
	list, err := client.List(ctx, metav1.ListOptions{})
	if unsupported(err) {
		return nil
	}
	if err != nil {
		return err
	}
	kept := false
	for i := range list.Items {
		item := &list.Items[i]
		found.remaining[item.UID] = r
		for _, f := range item.Finalizers {
			found.finalizers[f]++
			kept = true
		}
	}
	if len(list.Items) == 0 {
		return nil
	}
	found.resources[r] = len(list.Items)
	found.grace = max(found.grace, grace)
	if grace == 0 && !kept {
		return fmt.Errorf("%w: %s for gvr: %v", errRemaining, ns.Name, r)
	}
	return nil
}

// deleteEach deletes the objects of a resource that does not support deletecollection.
func (c *controller) deleteEach(ctx context.Context, r schema.GroupVersionResource, namespace string) error {
	client := c.metadata.Resource(r).Namespace(namespace)
	list, err := client.List(ctx, metav1.ListOptions{})
	if unsupported(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range list.Items {
		err := client.Delete(ctx, list.Items[i].Name, background())
		if err != nil && !unsupported(err) {
			return err
		}
	}
	return nil
}

// background lets the garbage collector delete dependents, so no finalizer is added.
func background() metav1.DeleteOptions {
	return metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
}

func unsupported(err error) bool {
	return apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err)
}

// graceOfPods returns the time until the pods of a namespace should be gone: the longest grace
// period, counted from the deletion of the namespace.
//
// Upstream: pkg/controller/namespace/deletion
// namespacedResourcesDeleter.estimateGracefulTermination. It returns the whole grace period until
// that has passed.
func (c *controller) graceOfPods(ctx context.Context, ns *corev1.Namespace) (time.Duration, error) {
	pods, err := c.client.CoreV1().Pods(ns.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	var longest time.Duration
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
			longest = max(longest, time.Duration(*s)*time.Second)
		}
	}
	return max(longest-c.process.Now().Sub(ns.DeletionTimestamp.Time), 0), nil
}
