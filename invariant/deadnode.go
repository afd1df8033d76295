package invariant

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about pods whose nodes fail.
var deadNodeRules = []builtIn{
	{"I51", "a pod evicted although it tolerates the taints of its node", nodeRule(beginEvictions)},
	{"I52", "a pod of an existing node deleted by the pod garbage collector", nodeRule(beginCollectedPods)},
	{"L13", "a pod left on a node that fails", nodeRule(beginPodsOfFailedNodes)},
}

// The components that delete pods of nodes that fail.
const (
	taintEviction = "tainteviction"
	podCollector  = "podgc"
)

// finishedMax is how many finished pods the pod garbage collector keeps.
//
// Upstream: pkg/controller/podgc/config RecommendedDefaultPodGCControllerConfiguration (v1.36).
const finishedMax = 12500

// toleratedFor returns how long a pod may stay on a node with some taints. The bool is false if it may
// stay indefinitely.
func toleratedFor(pod *corev1.Pod, node *corev1.Node) (limit time.Duration, limited bool) {
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		at := slices.IndexFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return schedulinghelpers.TolerationsTolerateTaint(logr.Discard(), []corev1.Toleration{t}, taint, false)
		})
		if at < 0 {
			return 0, true
		}
		if s := pod.Spec.Tolerations[at].TolerationSeconds; s != nil {
			d := time.Duration(max(*s, 0)) * time.Second
			if !limited || d < limit {
				limit, limited = d, true
			}
		}
	}
	return limit, limited
}

// evicts reports whether a node has a taint that evicts pods. It may be nil.
func evicts(node *corev1.Node) bool {
	return node != nil && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoExecute
	})
}

// A stay is that of a pod on a node with taints. Its eviction becomes due, and stays due, once it has
// lasted as long as the shortest toleration in it. A controller may then be late.
type stay struct {
	since time.Time
	limit time.Duration
	lasts bool
	due   bool
}

func (s *stay) change(limit time.Duration, limited bool, now time.Time) {
	s.due = s.isDue(now)
	switch {
	case !limited:
		s.lasts = false
	case !s.lasts:
		s.since, s.limit, s.lasts = now, limit, true
	default:
		s.limit = min(s.limit, limit)
	}
}

func (s *stay) isDue(now time.Time) bool {
	return s.due || s.lasts && now.Sub(s.since) >= s.limit
}

// beginEvictions checks that a pod is evicted only if its node has had a taint that it does not
// tolerate, for as long as it does.
func beginEvictions(c *Checker) watcher {
	stays := reuse.Map[types.UID, *stay](c.Reuse)
	see := func(pod *corev1.Pod, node *corev1.Node) {
		s := stays[pod.UID]
		if s == nil {
			s = &stay{}
			stays[pod.UID] = s
		}
		limit, limited := toleratedFor(pod, node)
		s.change(limit, limited, c.Now())
	}
	return watcher{
		commits: []string{"nodes", "pods"},
		commit: func(e fake.Commit) {
			switch obj := e.After.(type) {
			case *corev1.Node:
				if before, _ := e.Before.(*corev1.Node); e.Type == watch.Deleted || !evicts(obj) && !evicts(before) {
					return
				}
				for _, pod := range c.podsOn(obj.Name) {
					see(pod, obj)
				}
			case *corev1.Pod:
				node, exists := c.nodeOf(obj)
				if exists && e.Type != watch.Deleted && (evicts(node) || stays[obj.UID] != nil) {
					see(obj, node)
				}
			}
		},
		writes: []string{"pods"},
		write: func(r trace.Record) {
			pod, _ := r.Before.(*corev1.Pod)
			if pod == nil || r.Verb != "delete" || !tookEffect(r) || componentOf(r.Task) != taintEviction {
				return
			}
			s := stays[pod.UID]
			if node, exists := c.nodeOf(pod); s == nil && exists {
				see(pod, node)
				s = stays[pod.UID]
			}
			if s == nil || !s.isDue(c.Now()) {
				c.report("I51", "%s evicted pod %s/%s, which tolerates the taints of %s", r.Task, pod.Namespace, pod.Name, pod.Spec.NodeName)
			}
		},
	}
}

// beginCollectedPods checks that the pod garbage collector deletes a pod only if its node has not
// existed at some time since the pod is on it, or if the pod was terminating on a node out of service.
// A controller may be late.
func beginCollectedPods(c *Checker) watcher {
	lost := reuse.Map[types.UID, bool](c.Reuse)
	see := func(pod *corev1.Pod) {
		node, exists := c.nodeOf(pod)
		if pod.Spec.NodeName != "" && (!exists || pod.DeletionTimestamp != nil && isOutOfService(node)) {
			lost[pod.UID] = true
		}
	}
	return watcher{
		commits: []string{"nodes", "pods"},
		commit: func(e fake.Commit) {
			switch obj := e.After.(type) {
			case *corev1.Node:
				if e.Type != watch.Deleted && !isOutOfService(obj) {
					return
				}
				for _, pod := range c.podsOn(obj.Name) {
					see(pod)
				}
			case *corev1.Pod:
				see(obj)
			}
		},
		writes: []string{"pods"},
		write: func(r trace.Record) {
			pod, _ := r.Before.(*corev1.Pod)
			if pod == nil || r.Verb != "delete" || !tookEffect(r) || componentOf(r.Task) != podCollector || pod.Spec.NodeName == "" {
				return
			}
			finished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
			if !lost[pod.UID] && (!finished || c.API.Count("pods") <= finishedMax) {
				c.report("I52", "%s deleted pod %s/%s of node %s", r.Task, pod.Namespace, pod.Name, pod.Spec.NodeName)
			}
		},
	}
}

// beginPodsOfFailedNodes checks that at rest no pod is left that a controller must remove.
func beginPodsOfFailedNodes(c *Checker) watcher {
	return watcher{
		rest: func(report func(object, why string)) {
			for _, obj := range c.API.List("pods") {
				pod := obj.(*corev1.Pod)
				if why := c.mustGo(pod); why != "" {
					report(fmt.Sprintf("pods/%s/%s", pod.Namespace, pod.Name), why)
				}
			}
		},
	}
}

// mustGo returns why a controller that runs must remove a pod; "" if none must.
func (c *Checker) mustGo(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		return ""
	}
	node, exists := c.nodeOf(pod)
	if !exists {
		if c.controllers[podCollector] {
			return "is on " + pod.Spec.NodeName + ", which does not exist"
		}
		return ""
	}
	if limit, limited := toleratedFor(pod, node); c.controllers[taintEviction] && limited && limit == 0 && pod.DeletionTimestamp == nil {
		return "does not tolerate the taints of " + node.Name
	}
	if c.controllers[podCollector] && pod.DeletionTimestamp != nil && len(pod.Finalizers) == 0 && isOutOfService(node) {
		return "is terminating on " + node.Name + ", which is out of service"
	}
	return ""
}

// podsOn returns the pods of a node, in order of their names.
func (c *Checker) podsOn(node string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, obj := range c.API.List("pods") {
		if pod := obj.(*corev1.Pod); pod.Spec.NodeName == node {
			pods = append(pods, pod)
		}
	}
	return pods
}

// nodeOf returns the node of a pod, and whether it exists.
func (c *Checker) nodeOf(pod *corev1.Pod) (*corev1.Node, bool) {
	obj, exists := c.API.Get("nodes", "", pod.Spec.NodeName)
	if !exists {
		return nil, false
	}
	return obj.(*corev1.Node), true
}

// isOutOfService reports whether a node is not ready and has the taint of a node that is shut down.
func isOutOfService(node *corev1.Node) bool {
	return !isReady(node) && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}
