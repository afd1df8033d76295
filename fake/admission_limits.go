package fake

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	resourcehelper "k8s.io/component-helpers/resource"
)

// This file has the plugin LimitRanger. It sets the default requests and limits of a pod's
// containers, and refuses pods and claims outside of the limits of their namespace. Of several limit
// ranges the first by name decides about a default.
//
// Differs: upstream's order of limit ranges, and of the violations in an error, is random.
//
// Upstream: plugin/pkg/admission/limitranger (v1.36).

// limitsAnnotation says which resources of a pod the plugin has set.
const limitsAnnotation = "kubernetes.io/limit-ranger"

// defaultResources sets the requests and limits that a pod's containers lack.
func (s *Server) defaultResources(pod *corev1.Pod) {
	for _, stored := range s.stored("limitranges", pod.Namespace) {
		requests, limits := containerDefaults(stored.(*corev1.LimitRange))
		var notes []string
		for i := range pod.Spec.Containers {
			notes = append(notes, complete(&pod.Spec.Containers[i], requests, limits, "container")...)
		}
		for i := range pod.Spec.InitContainers {
			notes = append(notes, complete(&pod.Spec.InitContainers[i], requests, limits, "init container")...)
		}
		if len(notes) == 0 {
			continue
		}
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[limitsAnnotation] = "LimitRanger plugin set: " + strings.Join(notes, "; ")
	}
}

// containerDefaults returns the resources that a container has by default.
func containerDefaults(l *corev1.LimitRange) (requests, limits corev1.ResourceList) {
	requests, limits = corev1.ResourceList{}, corev1.ResourceList{}
	for i := range l.Spec.Limits {
		if item := &l.Spec.Limits[i]; item.Type == corev1.LimitTypeContainer {
			maps.Copy(requests, item.DefaultRequest)
			maps.Copy(limits, item.Default)
		}
	}
	return requests, limits
}

// complete sets the resources that a container lacks, and returns what it set, in words.
func complete(c *corev1.Container, requests, limits corev1.ResourceList, what string) []string {
	var notes []string
	for _, part := range []struct {
		name     string
		list     *corev1.ResourceList
		defaults corev1.ResourceList
	}{{"request", &c.Resources.Requests, requests}, {"limit", &c.Resources.Limits, limits}} {
		var set []string
		for _, name := range slices.Sorted(maps.Keys(part.defaults)) {
			if _, ok := (*part.list)[name]; ok {
				continue
			}
			if *part.list == nil {
				*part.list = corev1.ResourceList{}
			}
			(*part.list)[name] = part.defaults[name].DeepCopy()
			set = append(set, string(name))
		}
		if len(set) > 0 {
			notes = append(notes, fmt.Sprintf("%s %s for %s %s", strings.Join(set, ", "), part.name, what, c.Name))
		}
	}
	return notes
}

// limit refuses an object outside of the limits of its namespace. An update of a pod, and of an
// object that is being deleted, is not checked.
func (s *Server) limit(k *kind, obj, old Object) error {
	var violations func(limits []corev1.LimitRangeItem) []error
	switch o := obj.(type) {
	case *corev1.Pod:
		violations = func(limits []corev1.LimitRangeItem) []error { return podViolations(limits, o) }
	case *corev1.PersistentVolumeClaim:
		violations = func(limits []corev1.LimitRangeItem) []error { return claimViolations(limits, o) }
	}
	_, isPod := obj.(*corev1.Pod)
	if violations == nil || old != nil && (isPod || old.GetDeletionTimestamp() != nil) {
		return nil
	}
	for _, stored := range s.stored("limitranges", obj.GetNamespace()) {
		if errs := violations(stored.(*corev1.LimitRange).Spec.Limits); len(errs) > 0 {
			return apierrors.NewForbidden(k.groupResource(), requestedName(metaOf(obj)), utilerrors.NewAggregate(errs))
		}
	}
	return nil
}

func claimViolations(limits []corev1.LimitRangeItem, claim *corev1.PersistentVolumeClaim) []error {
	var errs []error
	for i := range limits {
		item := &limits[i]
		if item.Type != corev1.LimitTypePersistentVolumeClaim {
			continue
		}
		b := bounded{typ: item.Type, requests: claim.Spec.Resources.Requests}
		errs = append(errs, b.each(item.Min, b.least)...)
		errs = append(errs, b.each(item.Max, b.mostRequested)...)
	}
	return errs
}

func podViolations(limits []corev1.LimitRangeItem, pod *corev1.Pod) []error {
	var errs []error
	for i := range limits {
		item := &limits[i]
		check := func(requests, limits corev1.ResourceList) {
			b := bounded{item.Type, requests, limits}
			errs = append(errs, b.each(item.Min, b.least)...)
			errs = append(errs, b.each(item.Max, b.most)...)
			errs = append(errs, b.each(item.MaxLimitRequestRatio, b.ratio)...)
		}
		switch item.Type {
		case corev1.LimitTypeContainer:
			for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
				for i := range containers {
					check(containers[i].Resources.Requests, containers[i].Resources.Limits)
				}
			}
		case corev1.LimitTypePod:
			opts := resourcehelper.PodResourcesOptions{ExcludeOverhead: true}
			check(resourcehelper.PodRequests(pod, opts), resourcehelper.PodLimits(pod, opts))
		}
	}
	return errs
}

// bounded is what a limit applies to.
type bounded struct {
	typ              corev1.LimitType
	requests, limits corev1.ResourceList
}

// each checks each resource of a list of bounds.
func (b bounded) each(bounds corev1.ResourceList, check func(corev1.ResourceName, apiresource.Quantity) error) []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(bounds)) {
		if err := check(name, bounds[name]); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func (b bounded) least(name corev1.ResourceName, bound apiresource.Quantity) error {
	request, requested := b.requests[name]
	limit, limited := b.limits[name]
	prefix := fmt.Sprintf("minimum %s usage per %s is %s", name, b.typ, bound.String())
	switch {
	case !requested:
		return fmt.Errorf("%s.  No request is specified", prefix)
	case request.Cmp(bound) < 0:
		return fmt.Errorf("%s, but request is %s", prefix, request.String())
	case limited && limit.Cmp(bound) < 0:
		return fmt.Errorf("%s, but limit is %s", prefix, limit.String())
	}
	return nil
}

// mostRequested is most for objects without limits.
func (b bounded) mostRequested(name corev1.ResourceName, bound apiresource.Quantity) error {
	request, requested := b.requests[name]
	prefix := fmt.Sprintf("maximum %s usage per %s is %s", name, b.typ, bound.String())
	switch {
	case !requested:
		return fmt.Errorf("%s.  No request is specified", prefix)
	case request.Cmp(bound) > 0:
		return fmt.Errorf("%s, but request is %s", prefix, request.String())
	}
	return nil
}

func (b bounded) most(name corev1.ResourceName, bound apiresource.Quantity) error {
	request, requested := b.requests[name]
	limit, limited := b.limits[name]
	prefix := fmt.Sprintf("maximum %s usage per %s is %s", name, b.typ, bound.String())
	switch {
	case !limited:
		return fmt.Errorf("%s.  No limit is specified", prefix)
	case limit.Cmp(bound) > 0:
		return fmt.Errorf("%s, but limit is %s", prefix, limit.String())
	case requested && request.Cmp(bound) > 0:
		return fmt.Errorf("%s, but request is %s", prefix, request.String())
	}
	return nil
}

func (b bounded) ratio(name corev1.ResourceName, bound apiresource.Quantity) error {
	request, limit := b.requests[name], b.limits[name]
	prefix := fmt.Sprintf("%s max limit to request ratio per %s is %s", name, b.typ, bound.String())
	switch {
	case request.IsZero():
		return fmt.Errorf("%s, but no request is specified or request is 0", prefix)
	case limit.IsZero():
		return fmt.Errorf("%s, but no limit is specified or limit is 0", prefix)
	}
	ratio := limit.AsApproximateFloat64() / request.AsApproximateFloat64()
	if ratio > bound.AsApproximateFloat64() {
		return fmt.Errorf("%s, but provided ratio is %f", prefix, ratio)
	}
	return nil
}
