package invariant

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about StatefulSets.
var statefulSetRules = []builtIn{
	{"I43", "two pods of one ordinal of a StatefulSet", nodeRule(beginOrdinals)},
	{"I44", "a claim of a StatefulSet deleted by a controller, although the set retains it", workloadRule(beginRetained)},
	{"L10", "a StatefulSet without its pods and their claims", workloadRule(beginSetPods)},
}

// The components that delete pods and claims of sets.
const (
	setController    = "statefulset"
	garbageCollector = "garbagecollector"
)

// ordinalOf returns the ordinal at the end of a name, and what is before it; -1 if there is none.
func ordinalOf(name string) (prefix string, ordinal int) {
	i := strings.LastIndexByte(name, '-')
	n, err := strconv.ParseUint(name[i+1:], 10, 31)
	if i < 0 || err != nil {
		return "", -1
	}
	return name[:i], int(n)
}

// An ordinal is a place of a set.
type ordinal struct {
	set types.UID
	n   string // the label with the index
}

// setOf returns the UID of the set that controls a pod; "" if none does.
func setOf(pod *corev1.Pod) types.UID {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && ref.Kind == "StatefulSet" {
		return ref.UID
	}
	return ""
}

// beginOrdinals checks that a set controls one pod of an ordinal, and that controllers leave it to the
// kubelet to remove a pod that may run. A user may force a deletion.
func beginOrdinals(c *Checker) watcher {
	pods := reuse.Map[ordinal, types.NamespacedName](c.Reuse)
	placeOf := func(pod *corev1.Pod) (ordinal, bool) {
		at := ordinal{setOf(pod), pod.Labels[appsv1.PodIndexLabel]}
		return at, at.set != "" && at.n != ""
	}
	return watcher{
		commits: []string{"pods"},
		commit: func(e fake.Commit) {
			if before, ok := e.Before.(*corev1.Pod); ok {
				if at, ok := placeOf(before); ok && pods[at].Name == before.Name {
					delete(pods, at)
				}
			}
			pod := e.After.(*corev1.Pod)
			at, ok := placeOf(pod)
			if !ok || e.Type == watch.Deleted {
				return
			}
			if other, taken := pods[at]; taken && other.Name != pod.Name {
				c.report("I43", "pods %s and %s/%s both have ordinal %s of their set", other, pod.Namespace, pod.Name, at.n)
			}
			pods[at] = types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		},
		writes: []string{"pods"},
		write: func(r trace.Record) {
			before, _ := r.Before.(*corev1.Pod)
			if r.Verb != "delete" || !tookEffect(r) || before == nil || before.Spec.NodeName == "" || setOf(before) == "" ||
				before.Status.Phase == corev1.PodFailed || before.Status.Phase == corev1.PodSucceeded {
				return
			}
			after, _ := r.After.(*corev1.Pod)
			removed := after == nil || ptr.Deref(after.DeletionGracePeriodSeconds, 1) == 0 && after.DeletionTimestamp != nil
			if removed && isOneOf(componentOf(r.Task), setController, garbageCollector) {
				c.report("I43", "%s removed pod %s/%s of a set, which may run on %s, without waiting for its end",
					r.Task, before.Namespace, before.Name, before.Spec.NodeName)
			}
		},
	}
}

func isOneOf(name string, names ...string) bool { return slices.Contains(names, name) }

// retaining says what a set has retained in all its life.
type retaining struct {
	whenScaled, whenDeleted bool
	templates               []string
	gone                    bool // it is being deleted, or has been
}

// beginRetained checks that the set's controller and the garbage collector do not delete a claim of a
// set because of a pod or of the set, if the set never allowed it. Other owners of a claim, and users,
// may.
func beginRetained(c *Checker) watcher {
	sets := reuse.Map[types.NamespacedName, *retaining](c.Reuse)
	note := func(set *appsv1.StatefulSet, isNew, gone bool) {
		key := types.NamespacedName{Namespace: set.Namespace, Name: set.Name}
		if isNew || sets[key] == nil {
			kept := &retaining{whenScaled: true, whenDeleted: true}
			for i := range set.Spec.VolumeClaimTemplates {
				kept.templates = append(kept.templates, set.Spec.VolumeClaimTemplates[i].Name)
			}
			sets[key] = kept
		}
		kept := sets[key]
		kept.gone = gone || set.DeletionTimestamp != nil
		if p := set.Spec.PersistentVolumeClaimRetentionPolicy; p != nil {
			kept.whenScaled = kept.whenScaled && p.WhenScaled != appsv1.DeletePersistentVolumeClaimRetentionPolicyType
			kept.whenDeleted = kept.whenDeleted && p.WhenDeleted != appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		}
	}
	for _, set := range c.API.List("statefulsets") {
		note(set.(*appsv1.StatefulSet), true, false)
	}
	return watcher{
		commits: []string{"statefulsets"},
		commit: func(e fake.Commit) {
			note(e.After.(*appsv1.StatefulSet), e.Type == watch.Added, e.Type == watch.Deleted)
		},
		writes: claimsOnly,
		write: func(r trace.Record) {
			claim, _ := r.Before.(*corev1.PersistentVolumeClaim)
			if len(sets) == 0 || r.Verb != "delete" || !tookEffect(r) || claim == nil || claim.DeletionTimestamp != nil ||
				!isOneOf(componentOf(r.Task), setController, garbageCollector) {
				return
			}
			name, kept := setOfClaim(sets, claim)
			byPod := slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.Kind == "Pod" })
			switch {
			case kept == nil || slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool {
				return ref.Kind != "Pod" && ref.Kind != "StatefulSet"
			}):
			case kept.whenScaled && kept.whenDeleted, kept.whenScaled && !kept.gone, kept.whenDeleted && kept.gone && !byPod:
				c.report("I44", "%s deleted claim %s/%s, which set %s retains", r.Task, claim.Namespace, claim.Name, name)
			}
		},
	}
}

// setOfClaim returns the set that has a claim of this name; nil if there is none.
func setOfClaim(
	sets map[types.NamespacedName]*retaining, claim *corev1.PersistentVolumeClaim,
) (types.NamespacedName, *retaining) {
	prefix, n := ordinalOf(claim.Name)
	if n < 0 {
		return types.NamespacedName{}, nil
	}
	for _, key := range slices.SortedFunc(maps.Keys(sets), func(a, b types.NamespacedName) int {
		return cmp.Compare(a.String(), b.String())
	}) {
		template, ok := strings.CutSuffix(prefix, "-"+key.Name)
		if ok && key.Namespace == claim.Namespace && slices.Contains(sets[key].templates, template) {
			return key, sets[key]
		}
	}
	return types.NamespacedName{}, nil
}

// beginSetPods checks that at rest the controller has observed each set, and that no pod is missing,
// left over or outdated for which the set waits for nothing. Each pod has the name of its ordinal, and
// its volumes are the claims of its ordinal, which exist while it is Pending. Nothing changes at rest,
// so these are the properties of a set that has become stable.
func beginSetPods(c *Checker) watcher {
	return watcher{
		rest: func(report func(object, why string)) {
			if !c.controllers[setController] {
				return
			}
			for _, obj := range c.API.List("statefulsets") {
				set := obj.(*appsv1.StatefulSet)
				if set.DeletionTimestamp != nil {
					continue
				}
				object := fmt.Sprintf("statefulsets/%s/%s", set.Namespace, set.Name)
				if set.Status.ObservedGeneration < set.Generation {
					report(object, "has a change that its controller has not observed")
				} else if why := cmp.Or(c.missingPod(set), c.wrongPod(set)); why != "" {
					report(object, why)
				}
			}
		},
	}
}

// missingPod says which pod a set does not have and waits for nothing to create it, or has and waits
// for nothing to delete it; "" if there is none.
func (c *Checker) missingPod(set *appsv1.StatefulSet) string {
	first := firstOrdinal(set)
	parallel := set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement
	end := first + int(*set.Spec.Replicas)
	for n := first; n < end; n++ {
		name := fmt.Sprintf("%s-%d", set.Name, n)
		obj, exists := c.API.Get("pods", set.Namespace, name)
		if !exists && !c.waitsForClaim(set, n) {
			return "has no pod " + name
		}
		if pod, _ := obj.(*corev1.Pod); !parallel && (pod == nil || setOf(pod) != set.UID || !podReady(pod)) {
			return "" // the others wait for it
		}
	}
	for _, obj := range c.API.List("pods") {
		pod := obj.(*corev1.Pod)
		_, n := ordinalOf(pod.Name)
		if setOf(pod) == set.UID && n >= 0 && (n < first || n >= end) && pod.DeletionTimestamp == nil && (parallel || podReady(pod)) {
			return "has pod " + pod.Name + " still"
		}
	}
	return ""
}

// wrongPod says which pod of a set is not what the set's templates say, while the set waits for nothing;
// "" if there is none.
func (c *Checker) wrongPod(set *appsv1.StatefulSet) string {
	var outdated string
	first, allReady := firstOrdinal(set), true
	for _, obj := range c.API.List("pods") {
		pod := obj.(*corev1.Pod)
		_, n := ordinalOf(pod.Name)
		if setOf(pod) != set.UID || n < 0 || pod.DeletionTimestamp != nil {
			continue
		}
		if why := c.wrongClaim(set, pod, n); why != "" {
			return why
		}
		allReady = allReady && podReady(pod)
		if pod.Labels[appsv1.ControllerRevisionHashLabelKey] != set.Status.UpdateRevision && n >= first+partition(set) && outdated == "" {
			outdated = "has pod " + pod.Name + " of an old revision"
		}
	}
	if !allReady || set.Spec.UpdateStrategy.Type != appsv1.RollingUpdateStatefulSetStrategyType {
		return "" // the update waits
	}
	return outdated
}

// wrongClaim says which volume of a pod is not the claim of its ordinal, or which claim does not exist
// for which the pod waits.
func (c *Checker) wrongClaim(set *appsv1.StatefulSet, pod *corev1.Pod, n int) string {
	for i := range set.Spec.VolumeClaimTemplates {
		template := set.Spec.VolumeClaimTemplates[i].Name
		name := fmt.Sprintf("%s-%s-%d", template, set.Name, n)
		if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == template && v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == name
		}) {
			return "has pod " + pod.Name + " without claim " + name
		}
		if _, exists := c.API.Get("persistentvolumeclaims", set.Namespace, name); !exists && pod.Status.Phase == corev1.PodPending {
			return "has no claim " + name + " for pod " + pod.Name
		}
	}
	return ""
}

func firstOrdinal(set *appsv1.StatefulSet) int {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return int(set.Spec.Ordinals.Start)
}

// partition returns how many pods of a set are not updated.
func partition(set *appsv1.StatefulSet) int {
	if u := set.Spec.UpdateStrategy.RollingUpdate; u != nil {
		return int(ptr.Deref(u.Partition, 0))
	}
	return 0
}

// waitsForClaim reports whether a claim of an ordinal must go before its pod can be created.
func (c *Checker) waitsForClaim(set *appsv1.StatefulSet, n int) bool {
	return slices.ContainsFunc(set.Spec.VolumeClaimTemplates, func(t corev1.PersistentVolumeClaim) bool {
		claim, ok := c.API.Get("persistentvolumeclaims", set.Namespace, fmt.Sprintf("%s-%s-%d", t.Name, set.Name, n))
		return ok && (claim.GetDeletionTimestamp() != nil || len(claim.GetOwnerReferences()) > 0)
	})
}

func podReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
