package invariant

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about Deployments, ReplicaSets and ReplicationControllers.
var deploymentRules = []builtIn{
	{"I45", "a Deployment that exceeds maxSurge", workloadRule(beginSurge)},
	{"I46", "a ReplicaSet or ReplicationController with more pods than replicas, by its controller", workloadRule(beginReplicas)},
	{"L11", "a Deployment, ReplicaSet or ReplicationController without its pods", workloadRule(beginDeploymentPods)},
}

// deploymentController is the component that scales Deployments.
const deploymentController = "deployment"

// ownerOf returns the UID of the controller of an object, if it is of a kind.
func ownerOf(obj metav1.Object, kind string) types.UID {
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil && ref.Kind == kind {
		return ref.UID
	}
	return ""
}

// limits has the limits of an owner, by generation, and the generation that its controller has observed.
// The controller never returns to an earlier one, unless its process ends: the next one may begin with
// an old list.
type limits struct {
	of       map[int64]int32
	observed int64
}

// highest returns the highest limit on which the controller may act.
func (l *limits) highest() int32 {
	limit := int32(0)
	for generation, n := range l.of {
		if generation >= l.observed {
			limit = max(limit, n)
		}
	}
	return limit
}

// An excess rule checks that what a controller creates or enlarges stays within the limit of its
// owner. It counts what the process of the controller must know of: what it has written itself, and
// what its cache had when it took up the owner. A process that begins with an old list, or whose
// request got no response, may exceed a limit.
type excess struct {
	checker    *Checker
	controller string
	limits     map[types.UID]*limits // by owner
	written    map[types.UID]bool    // by the present process, with a response
}

func newExcess(c *Checker, controller string) *excess {
	return &excess{c, controller, map[types.UID]*limits{}, map[types.UID]bool{}}
}

func (e *excess) event(r trace.Record) {
	if !endsProcess(r, e.controller) {
		return
	}
	clear(e.written)
	for _, l := range e.limits {
		l.observed = 0
	}
}

// note adds the limit of an owner in its present generation.
func (e *excess) note(made fake.Commit, limit int32) {
	owner := made.After
	if made.Type == watch.Deleted {
		delete(e.limits, owner.GetUID())
		return
	}
	if e.limits[owner.GetUID()] == nil {
		e.limits[owner.GetUID()] = &limits{of: map[int64]int32{}}
	}
	e.limits[owner.GetUID()].of[owner.GetGeneration()] = limit
}

// observes notes that the controller has written a generation into the status of an owner.
func (e *excess) observes(r trace.Record, owner metav1.Object, generation int64) {
	if l := e.limits[owner.GetUID()]; l != nil && componentOf(r.Task) == e.controller && tookEffect(r) {
		l.observed = max(l.observed, generation)
	}
}

// enlarged notes a write that creates or enlarges an object, and reports whether it must be checked. What
// others have enlarged is known only from the cache.
func (e *excess) enlarged(r trace.Record, after metav1.Object) bool {
	if !tookEffect(r) {
		return false
	}
	own := componentOf(r.Task) == e.controller
	e.written[after.GetUID()] = own && r.Err == nil
	return own
}

// mustKnow reports whether the controller must know of an object at its write.
func (e *excess) mustKnow(r trace.Record, owner, resource string, obj metav1.Object) bool {
	if e.written[obj.GetUID()] {
		return true
	}
	revision, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	return err == nil && e.checker.knew(r, owner, resource+"/"+obj.GetNamespace()+"/"+obj.GetName(), revision)
}

// surgeOf returns the largest number of replicas of all sets of a Deployment.
func surgeOf(d *appsv1.Deployment) int32 {
	replicas := *d.Spec.Replicas
	if update := d.Spec.Strategy.RollingUpdate; update != nil && update.MaxSurge != nil {
		if surge, err := intstr.GetScaledValueFromIntOrPercent(update.MaxSurge, int(replicas), true); err == nil {
			return replicas + int32(surge) //nolint:gosec // validated
		}
	}
	return replicas
}

// beginSurge checks each set that the controller creates or scales up: the replicas of all sets of its
// Deployment.
func beginSurge(c *Checker) watcher {
	e := newExcess(c, deploymentController)
	return watcher{
		commits: []string{"deployments"},
		commit:  func(made fake.Commit) { e.note(made, surgeOf(made.After.(*appsv1.Deployment))) },
		event:   e.event,
		writes:  []string{"replicasets", "deployments"},
		write: func(r trace.Record) {
			if d, is := r.After.(*appsv1.Deployment); is {
				e.observes(r, d, d.Status.ObservedGeneration)
			}
			after, _ := r.After.(*appsv1.ReplicaSet)
			if after == nil {
				return
			}
			before, _ := r.Before.(*appsv1.ReplicaSet)
			if before != nil && *before.Spec.Replicas >= *after.Spec.Replicas || !e.enlarged(r, after) {
				return
			}
			ref := metav1.GetControllerOfNoCopy(after)
			if ref == nil || ref.Kind != "Deployment" {
				return
			}
			l := e.limits[ref.UID]
			all, sure := int32(0), int32(0)
			var siblings []*appsv1.ReplicaSet
			for _, obj := range c.API.List("replicasets") {
				if set := obj.(*appsv1.ReplicaSet); ownerOf(set, "Deployment") == ref.UID {
					siblings, all = append(siblings, set), all+*set.Spec.Replicas
				}
			}
			if l == nil || all <= l.highest() {
				return
			}
			limit := l.highest()
			for _, set := range siblings {
				if set.UID == after.UID || e.mustKnow(r, after.Namespace+"/"+ref.Name, "replicasets", set) {
					sure += *set.Spec.Replicas
				}
			}
			if sure > limit {
				c.report("I45", "%s scaled set %s/%s to %d: Deployment %s has %d replicas in all sets, and at most %d",
					r.Task, after.Namespace, after.Name, *after.Spec.Replicas, ref.Name, sure, limit)
			}
		},
	}
}

// beginDeploymentPods checks that at rest the controllers have observed their objects, each set has its
// pods, and a Deployment whose pods are available has them in the set of its template.
func beginDeploymentPods(c *Checker) watcher {
	return watcher{
		rest: func(report func(object, why string)) {
			for _, kind := range replicaKinds {
				for _, obj := range c.API.List(kind.resource) {
					if why := c.missingReplica(kind, obj); c.controllers[kind.controller] && obj.GetDeletionTimestamp() == nil && why != "" {
						report(fmt.Sprintf("%s/%s/%s", kind.resource, obj.GetNamespace(), obj.GetName()), why)
					}
				}
			}
			for _, obj := range c.API.List("deployments") {
				d := obj.(*appsv1.Deployment)
				if why := c.unfinishedRollout(d); c.controllers[deploymentController] && d.DeletionTimestamp == nil && why != "" {
					report(fmt.Sprintf("deployments/%s/%s", d.Namespace, d.Name), why)
				}
			}
		},
	}
}

const unobserved = "has a change that its controller has not observed"

// unfinishedRollout says what a Deployment must still do; "" if it has nothing to do, or waits for pods.
func (c *Checker) unfinishedRollout(d *appsv1.Deployment) string {
	if d.Status.ObservedGeneration < d.Generation {
		return unobserved
	}
	var newest *appsv1.ReplicaSet
	for _, obj := range c.API.List("replicasets") {
		set := obj.(*appsv1.ReplicaSet)
		if ownerOf(set, "Deployment") != d.UID {
			continue
		}
		template := set.Spec.Template.DeepCopy()
		delete(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
		if equality.Semantic.DeepEqual(template, &d.Spec.Template) {
			newest = set
		}
		if set.Status.AvailableReplicas != *set.Spec.Replicas {
			return "" // it waits for pods
		}
	}
	switch {
	case d.Spec.Paused:
		return ""
	case newest == nil:
		return "has no set of its template"
	case *newest.Spec.Replicas != *d.Spec.Replicas || d.Status.Replicas != *d.Spec.Replicas:
		return fmt.Sprintf("has %d of %d replicas in set %s, and %d pods", *newest.Spec.Replicas, *d.Spec.Replicas, newest.Name, d.Status.Replicas)
	}
	return ""
}
