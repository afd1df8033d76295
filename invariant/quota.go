package invariant

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/quota"
	"github.com/volsim/volsim/internal/reuse"
)

// Rules about quotas and disruption budgets.
var quotaRules = []builtIn{
	{"I54", "a claim or a pod beyond a ResourceQuota of its namespace", workloadRule(beginQuotas)},
	{"I55", "an eviction beyond the pod's disruption budget", nodeRule(beginBudgets)},
	{"L14", "a ResourceQuota whose status is not what is used", workloadRule(beginQuotaStatus)},
}

// quotaController is the component that counts what is used.
const quotaController = "resourcequota"

// charged is a quota with what was added to its status since the last object that was charged.
type charged struct {
	*corev1.ResourceQuota
	more corev1.ResourceList
}

// beginQuotas checks that an object is charged before it is stored, and that what is used then does
// not exceed the quota.
func beginQuotas(c *Checker) watcher {
	var quotas map[string]map[string]*charged // by namespace and name; nil before the first one
	note := func(q *corev1.ResourceQuota, used corev1.ResourceList, gone bool) {
		in := quotas[q.Namespace]
		switch {
		case gone:
			delete(in, q.Name)
			return
		case in == nil:
			if quotas == nil {
				quotas = map[string]map[string]*charged{}
			}
			in = map[string]*charged{}
			quotas[q.Namespace] = in
		}
		in[q.Name] = &charged{q, quota.Growth(used, q.Status.Used)}
	}
	for _, obj := range c.API.List("resourcequotas") {
		note(obj.(*corev1.ResourceQuota), nil, false)
	}
	return watcher{
		commits: []string{"resourcequotas", "persistentvolumeclaims", "pods"},
		commit: func(e fake.Commit) {
			if q, ok := e.After.(*corev1.ResourceQuota); ok {
				var used corev1.ResourceList
				if before, ok := e.Before.(*corev1.ResourceQuota); ok {
					used = before.Status.Used
				}
				note(q, used, e.Type == watch.Deleted)
				return
			}
			in := quotas[e.After.GetNamespace()]
			if len(in) == 0 || e.Type != watch.Added {
				return
			}
			for _, name := range slices.Sorted(maps.Keys(in)) {
				if why := in[name].refuses(e, c); why != "" {
					c.report("I54", "%s/%s/%s %s", e.Resource, e.After.GetNamespace(), e.After.GetName(), why)
				}
			}
		},
	}
}

// refuses says why an object should not have been stored.
func (q *charged) refuses(e fake.Commit, c *Checker) string {
	of := schema.GroupResource{Resource: e.Resource}
	if in, err := quota.InScopes(q.ResourceQuota, e.After); !in || err != nil {
		return ""
	}
	usage := quota.Usage(of, e.After, c.Now())
	charge := q.more
	q.more = nil
	for _, name := range quota.Resources(of, q.Status.Hard) {
		amount, used, hard := usage[name], q.Status.Used[name], q.Status.Hard[name]
		if paid := charge[name]; paid.Cmp(amount) < 0 {
			return fmt.Sprintf("uses %s of %s, which quota %s was not charged", amount.String(), name, q.Name)
		}
		if amount.Sign() > 0 && used.Cmp(hard) > 0 {
			return fmt.Sprintf("was stored although quota %s has used %s of %s %s", q.Name, used.String(), hard.String(), name)
		}
	}
	return ""
}

// beginQuotaStatus checks that at rest the status of quotas is what claims and pods use.
func beginQuotaStatus(c *Checker) watcher {
	return watcher{
		rest: func(report func(object, why string)) {
			if !c.controllers[quotaController] {
				return
			}
			for _, obj := range c.API.List("resourcequotas") {
				q := obj.(*corev1.ResourceQuota)
				for _, resource := range []string{"persistentvolumeclaims", "pods"} {
					if why := c.miscounted(q, resource); why != "" {
						report(fmt.Sprintf("resourcequotas/%s/%s", q.Namespace, q.Name), why)
					}
				}
			}
		},
	}
}

// miscounted says what the status of a quota has other than the objects of a resource use; "" if
// nothing.
func (c *Checker) miscounted(q *corev1.ResourceQuota, resource string) string {
	of := schema.GroupResource{Resource: resource}
	var objects []metav1.Object
	for _, obj := range c.API.List(resource) {
		if obj.GetNamespace() == q.Namespace {
			objects = append(objects, obj)
		}
	}
	total, err := quota.Total(q, of, objects, c.Now())
	if err != nil {
		return ""
	}
	for _, name := range quota.Resources(of, q.Spec.Hard) {
		used, ok := q.Status.Used[name]
		if actual := total[name]; !ok || used.Cmp(actual) != 0 {
			return fmt.Sprintf("has used %s of %s, in its status %s", actual.String(), name, used.String())
		}
	}
	return ""
}

// beginBudgets checks that an eviction leaves as many healthy pods as the budget desires, unless
// another cause than an eviction has removed one.
func beginBudgets(c *Checker) watcher {
	budgets := reuse.Map[types.NamespacedName, *policyv1.PodDisruptionBudget](c.Reuse)
	disturbed := reuse.Map[types.NamespacedName, bool](c.Reuse) // budgets with a pod that is gone for another cause
	selecting := func(pod *corev1.Pod) []types.NamespacedName {
		var found []types.NamespacedName
		for key, budget := range budgets {
			selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
			if err == nil && key.Namespace == pod.Namespace && selector.Matches(labels.Set(pod.Labels)) {
				found = append(found, key)
			}
		}
		slices.SortFunc(found, func(a, b types.NamespacedName) int { return compareKeys(a, b) })
		return found
	}
	note := func(budget *policyv1.PodDisruptionBudget, gone bool) {
		key := types.NamespacedName{Namespace: budget.Namespace, Name: budget.Name}
		budgets[key] = budget
		if gone {
			delete(budgets, key)
			delete(disturbed, key)
		}
	}
	for _, obj := range c.API.List("poddisruptionbudgets") {
		note(obj.(*policyv1.PodDisruptionBudget), false)
	}
	return watcher{
		commits: []string{"poddisruptionbudgets", "pods"},
		commit: func(e fake.Commit) {
			if budget, ok := e.After.(*policyv1.PodDisruptionBudget); ok {
				note(budget, e.Type == watch.Deleted)
				return
			}
			before, ok := e.Before.(*corev1.Pod)
			if !ok || len(budgets) == 0 || !podReady(before) {
				return
			}
			after := e.After.(*corev1.Pod)
			evicted := isEvicted(after)
			if !evicted && podReady(after) && e.Type != watch.Deleted || evicted && isEvicted(before) {
				return
			}
			for _, key := range selecting(before) {
				if !evicted {
					disturbed[key] = true
				} else if healthy, desired := c.healthyBut(after, budgets[key]), budgets[key].Status.DesiredHealthy; healthy < desired && !disturbed[key] {
					c.report("I55", "pod %s/%s was evicted, which leaves %d healthy pods; budget %s needs %d",
						after.Namespace, after.Name, healthy, key.Name, desired)
				}
			}
		},
	}
}

func compareKeys(a, b types.NamespacedName) int {
	switch {
	case a == b:
		return 0
	case a.String() < b.String():
		return -1
	}
	return 1
}

// isEvicted reports whether a pod has the condition that it is being evicted.
func isEvicted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "EvictionByEvictionAPI"
	})
}

// healthyBut returns how many pods of a budget are ready, without one that is being evicted.
func (c *Checker) healthyBut(evicted *corev1.Pod, budget *policyv1.PodDisruptionBudget) int32 {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		return 0
	}
	n := int32(0)
	for _, obj := range c.API.List("pods") {
		pod := obj.(*corev1.Pod)
		if pod.Namespace == budget.Namespace && pod.Name != evicted.Name && podReady(pod) && selector.Matches(labels.Set(pod.Labels)) {
			n++
		}
	}
	return n
}
