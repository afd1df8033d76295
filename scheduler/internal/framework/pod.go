package framework

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcehelper "k8s.io/component-helpers/resource"
)

// What a container without requests counts when nodes are ranked.
//
// Upstream: pkg/scheduler/util DefaultMilliCPURequest, DefaultMemoryRequest (v1.36).
const (
	defaultMilliCPURequest = 100
	defaultMemoryRequest   = 200 * 1024 * 1024
)

// PodInfo is a pod with what is computed from it once. It is not changed.
//
// Upstream: pkg/scheduler/framework PodInfo (v1.36).
type PodInfo struct {
	Pod *corev1.Pod

	RequiredAffinity, RequiredAntiAffinity   []AffinityTerm
	PreferredAffinity, PreferredAntiAffinity []WeightedAffinityTerm

	Requests Resource
	// What the pod requests if containers without requests count a default.
	NonZeroMilliCPU, NonZeroMemory int64
}

// AffinityTerm is a term of a pod's affinity to other pods.
//
// Upstream: k8s.io/kube-scheduler/framework AffinityTerm (v1.36).
type AffinityTerm struct {
	Namespaces        sets.Set[string]
	Selector          labels.Selector
	TopologyKey       string
	NamespaceSelector labels.Selector
}

// WeightedAffinityTerm is a preferred term.
type WeightedAffinityTerm struct {
	AffinityTerm
	Weight int32
}

// Matches reports whether a pod, in a namespace with labels, is one that the term selects.
func (t *AffinityTerm) Matches(pod *corev1.Pod, namespace labels.Set) bool {
	return (t.Namespaces.Has(pod.Namespace) || t.NamespaceSelector.Matches(namespace)) && t.Selector.Matches(labels.Set(pod.Labels))
}

// NewPodInfo returns the information of a pod. The error says which terms of its affinity are invalid; the
// rest is set.
func NewPodInfo(pod *corev1.Pod) (*PodInfo, error) {
	p := &PodInfo{Pod: pod}
	p.computeResources()
	affinity := pod.Spec.Affinity
	if affinity == nil {
		return p, nil
	}
	var errs []error
	terms := func(of string, all []corev1.PodAffinityTerm) []AffinityTerm {
		parsed, err := newTerms(pod, all)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", of, err))
		}
		return parsed
	}
	weighted := func(of string, all []corev1.WeightedPodAffinityTerm) []WeightedAffinityTerm {
		parsed, err := newWeightedTerms(pod, all)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", of, err))
		}
		return parsed
	}
	if a := affinity.PodAffinity; a != nil {
		p.RequiredAffinity = terms("requiredAffinityTerms", a.RequiredDuringSchedulingIgnoredDuringExecution)
		p.PreferredAffinity = weighted("preferredAffinityTerms", a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := affinity.PodAntiAffinity; a != nil {
		p.RequiredAntiAffinity = terms("requiredAntiAffinityTerms", a.RequiredDuringSchedulingIgnoredDuringExecution)
		p.PreferredAntiAffinity = weighted("preferredAntiAffinityTerms", a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return p, utilerrors.NewAggregate(errs)
}

func newTerms(pod *corev1.Pod, all []corev1.PodAffinityTerm) ([]AffinityTerm, error) {
	var terms []AffinityTerm
	for i := range all {
		term, err := newTerm(pod, &all[i])
		if err != nil {
			return nil, err
		}
		terms = append(terms, term)
	}
	return terms, nil
}

func newWeightedTerms(pod *corev1.Pod, all []corev1.WeightedPodAffinityTerm) ([]WeightedAffinityTerm, error) {
	var terms []WeightedAffinityTerm
	for i := range all {
		term, err := newTerm(pod, &all[i].PodAffinityTerm)
		if err != nil {
			return nil, err
		}
		terms = append(terms, WeightedAffinityTerm{AffinityTerm: term, Weight: all[i].Weight})
	}
	return terms, nil
}

func newTerm(pod *corev1.Pod, term *corev1.PodAffinityTerm) (AffinityTerm, error) {
	selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
	if err != nil {
		return AffinityTerm{}, err
	}
	namespaces := sets.New(term.Namespaces...)
	if len(term.Namespaces) == 0 && term.NamespaceSelector == nil {
		namespaces.Insert(pod.Namespace)
	}
	namespaceSelector, err := metav1.LabelSelectorAsSelector(term.NamespaceSelector)
	if err != nil {
		return AffinityTerm{}, err
	}
	return AffinityTerm{Namespaces: namespaces, Selector: selector, TopologyKey: term.TopologyKey, NamespaceSelector: namespaceSelector}, nil
}

// computeResources sets what the pod requests.
//
// Upstream: pkg/scheduler/framework PodInfo.CalculateResource (v1.36).
func (p *PodInfo) computeResources() {
	if !hasRequests(p.Pod) { // most pods of simulated worlds
		for range p.Pod.Spec.Containers {
			p.NonZeroMilliCPU += defaultMilliCPURequest
			p.NonZeroMemory += defaultMemoryRequest
		}
		return
	}
	options := resourcehelper.PodResourcesOptions{UseStatusResources: true}
	requests := resourcehelper.PodRequests(p.Pod, options)
	p.Requests = NewResource(requests)
	nonZero := requests
	if missing := defaultsFor(requests, resourcehelper.IsPodLevelRequestsSet(p.Pod)); len(missing) > 0 {
		options.NonMissingContainerRequests = missing
		nonZero = resourcehelper.PodRequests(p.Pod, options)
	}
	p.NonZeroMilliCPU, p.NonZeroMemory = nonZero.Cpu().MilliValue(), nonZero.Memory().Value()
}

// hasRequests reports whether a pod or any container requests something, or the pod has containers that
// run before the others or along with them.
func hasRequests(pod *corev1.Pod) bool {
	if pod.Spec.Resources != nil || len(pod.Spec.Overhead) > 0 || len(pod.Spec.InitContainers) > 0 {
		return true
	}
	for i := range pod.Spec.Containers {
		if len(pod.Spec.Containers[i].Resources.Requests) > 0 {
			return true
		}
	}
	return false
}

// defaultsFor returns what a container without a request counts. With requests of the whole pod, these
// decide.
//
// Upstream: pkg/scheduler/framework getNonMissingContainerRequests (v1.36).
func defaultsFor(requests corev1.ResourceList, podLevel bool) corev1.ResourceList {
	defaults := corev1.ResourceList{}
	if _, ok := requests[corev1.ResourceCPU]; !podLevel || !ok {
		defaults[corev1.ResourceCPU] = *newMilli(defaultMilliCPURequest)
	}
	if _, ok := requests[corev1.ResourceMemory]; !podLevel || !ok {
		defaults[corev1.ResourceMemory] = *newBytes(defaultMemoryRequest)
	}
	return defaults
}
