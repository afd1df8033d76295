package known

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/invariant"
)

// instanceRuns requires that each instance of a cluster runs when the world is at rest. The pod of
// instance 1 of cluster db is db-1.
var instanceRuns = invariant.Rule{
	ID: "instance-runs", Forbids: "an instance of a cluster that never runs",
	Begin: func(w invariant.World) invariant.Checks {
		return invariant.Checks{AtRest: func() error {
			running := map[string]bool{}
			for _, obj := range w.API.List("pods") {
				pod := obj.(*corev1.Pod)
				running[pod.Namespace+"/"+pod.Name] = pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil
			}
			for _, obj := range w.API.List("configmaps") {
				cm := obj.(*corev1.ConfigMap)
				instances, _ := strconv.Atoi(cm.Data["instances"]) // other ConfigMaps have none
				for i := 1; i <= instances; i++ {
					name := fmt.Sprintf("%s/%s-%d", cm.Namespace, cm.Name, i)
					if is, exists := running[name]; !is {
						return fmt.Errorf("pod %s of configmap %s/%s %s", name, cm.Namespace, cm.Name, map[bool]string{
							true: "is not running", false: "does not exist",
						}[exists])
					}
				}
			}
			return nil
		}}
	},
}

// liveClaim forbids that a claim is deleted whose replica the cluster has.
var liveClaim = invariant.Rule{
	ID: "live-claim", Forbids: "the claim of a replica that a cluster has is deleted",
	Begin: func(w invariant.World) invariant.Checks {
		return invariant.Checks{Commit: func(e fake.Commit) error {
			if e.Resource != "persistentvolumeclaims" || !endsNow(e) {
				return nil
			}
			claim := e.After.(*corev1.PersistentVolumeClaim)
			if cm := owner(w, claim); cm != nil && cm.DeletionTimestamp == nil && wanted(claim, cm) {
				return fmt.Errorf("claim %s/%s of configmap %s/%s", claim.Namespace, claim.Name, cm.Namespace, cm.Name)
			}
			return nil
		}}
	},
}

// surplusClaim forbids claims of replicas that their cluster does not have, when the world is at rest.
var surplusClaim = invariant.Rule{
	ID: "surplus-claim", Forbids: "a claim stays whose replica the cluster no longer has",
	Begin: func(w invariant.World) invariant.Checks {
		return invariant.Checks{AtRest: func() error {
			for _, obj := range w.API.List("persistentvolumeclaims") {
				claim := obj.(*corev1.PersistentVolumeClaim)
				if cm := owner(w, claim); cm != nil && !wanted(claim, cm) {
					return fmt.Errorf("claim %s/%s of configmap %s/%s", claim.Namespace, claim.Name, cm.Namespace, cm.Name)
				}
			}
			return nil
		}}
	},
}

// destroyed forbids claims that are still terminating when the world is at rest.
var destroyed = invariant.Rule{
	ID: "destroyed", Forbids: "an instance that was destroyed keeps its claim",
	Begin: func(w invariant.World) invariant.Checks {
		return invariant.Checks{AtRest: func() error {
			for _, obj := range w.API.List("persistentvolumeclaims") {
				if obj.GetDeletionTimestamp() != nil {
					return fmt.Errorf("claim %s/%s is terminating", obj.GetNamespace(), obj.GetName())
				}
			}
			return nil
		}}
	},
}

// endsNow reports whether the deletion of an object begins with a commit, or the object is gone without
// having been terminating.
func endsNow(e fake.Commit) bool {
	switch {
	case e.Type == watch.Added || e.Before.GetDeletionTimestamp() != nil:
		return false
	default:
		return e.Type == watch.Deleted || e.After.GetDeletionTimestamp() != nil
	}
}

// owner returns the cluster of an object; nil if it does not exist.
func owner(w invariant.World, obj fake.Object) *corev1.ConfigMap {
	stored, _ := w.API.Get("configmaps", obj.GetNamespace(), obj.GetLabels()[clusterLabel])
	if cm, is := stored.(*corev1.ConfigMap); is && string(cm.UID) == obj.GetLabels()[uidLabel] {
		return cm
	}
	return nil
}

// wanted reports whether a claim belongs to one of the replicas of a cluster.
func wanted(claim *corev1.PersistentVolumeClaim, cm *corev1.ConfigMap) bool {
	ordinal, _ := strconv.Atoi(claim.Labels[ordinalLabel])
	return ordinal < replicas(cm)
}

// claimSize requires that claims request the size of their cluster when the world is at rest.
var claimSize = invariant.Rule{
	ID: "claim-size", Forbids: "a claim that is never expanded to the size of its cluster",
	Begin: func(w invariant.World) invariant.Checks {
		return invariant.Checks{AtRest: func() error {
			for _, obj := range w.API.List("persistentvolumeclaims") {
				claim := obj.(*corev1.PersistentVolumeClaim)
				cm := owner(w, claim)
				if cm == nil {
					continue
				}
				requested := claim.Spec.Resources.Requests[corev1.ResourceStorage]
				if requested.Cmp(resource.MustParse(cm.Data["size"])) < 0 {
					return fmt.Errorf("claim %s/%s requests %s, and configmap %s/%s has %s", claim.Namespace, claim.Name, &requested,
						cm.Namespace, cm.Name, cm.Data["size"])
				}
			}
			return nil
		}}
	},
}

// neededSet forbids that a StatefulSet is deleted that has the size of its cluster.
var neededSet = invariant.Rule{
	ID: "needed-set", Forbids: "a StatefulSet is deleted that has the size of its cluster",
	Begin: func(w invariant.World) invariant.Checks {
		return invariant.Checks{Commit: func(e fake.Commit) error {
			if e.Resource != "statefulsets" || !endsNow(e) {
				return nil
			}
			set := e.After.(*appsv1.StatefulSet)
			size := sizeOf(set)
			if cm := owner(w, set); cm != nil && size.Cmp(resource.MustParse(cm.Data["size"])) == 0 {
				return fmt.Errorf("statefulset %s/%s of configmap %s/%s", set.Namespace, set.Name, cm.Namespace, cm.Name)
			}
			return nil
		}}
	},
}
