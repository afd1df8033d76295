package cluster

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/controllers/nodelifecycle"
	"github.com/volsim/volsim/controllers/podgc"
	"github.com/volsim/volsim/controllers/tainteviction"
	"github.com/volsim/volsim/fake"
)

// nodeComponents returns the controllers that act when a node fails or is deleted. hasNode reports
// whether a Node is stored.
func nodeComponents(hasNode func(name string) bool) []recipe {
	return []recipe{
		{
			name: "nodelifecycle", replaces: "node-lifecycle-controller",
			filters: changes(nodelifecycle.Concerns, "leases", "nodes", "pods"), wakes: nodeLifecycleWakes,
			start: func(p ComponentContext) error {
				nodelifecycle.New(nodelifecycle.Config{
					Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers,
					Recorder: p.Recorder(nodelifecycle.EventSource), LeasedOnly: p.cluster != nil, GracePeriod: gracePeriod(p.cluster),
				})
				return nil
			},
		},
		{
			name: "tainteviction", replaces: "taint-eviction-controller",
			filters: changes(tainteviction.Concerns, "nodes", "pods"), wakes: taintEvictionWakes,
			start: func(p ComponentContext) error {
				tainteviction.New(tainteviction.Config{
					Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers,
					Recorder: p.Recorder(tainteviction.EventSource),
				})
				return nil
			},
		},
		{
			name: "podgc", replaces: "pod-garbage-collector-controller",
			filters: changes(podgc.Concerns, "nodes", "pods"), wakes: podGCWakes(hasNode),
			start: func(p ComponentContext) error {
				podgc.New(podgc.Config{Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers})
				return nil
			},
		},
	}
}

// gracePeriod returns how long a node of a cluster may be silent. nil is a cluster elsewhere.
func gracePeriod(c *Cluster) time.Duration {
	if c == nil {
		return 0
	}
	return c.nodeGrace
}

// changes passes the changes of some resources that concern a controller.
func changes(concerns func(seen informers.SharedInformerFactory, old, obj metav1.Object) bool, resources ...string) filterFunc {
	return func(caches func() informers.SharedInformerFactory) []fake.Filter {
		var filters []fake.Filter
		for _, resource := range resources {
			filters = append(filters, fake.Filter{
				Resource: resource,
				Match:    func(old, obj fake.Object) bool { return concerns(caches(), old, obj) },
			})
		}
		return filters
	}
}

var nodeLifecycleWakes = []wake{{resource: "leases", match: func(obj fake.Object) bool {
	return obj.GetNamespace() == corev1.NamespaceNodeLease
}}}

var taintEvictionWakes = []wake{{resource: "nodes", match: func(obj fake.Object) bool {
	return slices.ContainsFunc(obj.(*corev1.Node).Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoExecute
	})
}}}

// podGCWakes are pods that no kubelet ends, and changes of nodes with which pods become such pods.
// Finished pods are none: a stepped world has no 12,500.
func podGCWakes(hasNode func(name string) bool) []wake {
	return []wake{
		{resource: "nodes", gone: true},
		{resource: "nodes", match: func(obj fake.Object) bool {
			return slices.ContainsFunc(obj.(*corev1.Node).Spec.Taints, func(t corev1.Taint) bool {
				return t.Key == corev1.TaintNodeOutOfService
			})
		}},
		{resource: "pods", match: func(obj fake.Object) bool {
			pod := obj.(*corev1.Pod)
			if pod.Spec.NodeName == "" {
				return pod.DeletionTimestamp != nil
			}
			return !hasNode(pod.Spec.NodeName)
		}},
	}
}
