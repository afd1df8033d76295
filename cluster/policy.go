package cluster

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/controllers/disruption"
	"github.com/volsim/volsim/controllers/resourcequota"
	"github.com/volsim/volsim/fake"
)

// policyComponents returns the controllers of quotas and disruption budgets.
var policyComponents = sync.OnceValue(func() []recipe {
	return []recipe{
		{
			name: "resourcequota", replaces: "resourcequota-controller",
			filters: quotaFilters, wakes: []wake{{resource: "resourcequotas"}}, start: startResourceQuota,
		},
		{
			name: "disruption", replaces: "disruption-controller",
			filters: disruptionFilters, wakes: disruptionWakes, start: startDisruption,
		},
	}
})

func startResourceQuota(p ComponentContext) error {
	client, err := p.metadataClient()
	if err != nil {
		return err
	}
	cfg := resourcequota.Config{
		Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers, Metadata: client, Discover: p.discover,
	}
	if p.cluster != nil { // of a real server it would watch everything, also without quotas
		cfg.Watcher = p.cluster.server.MetadataWatcher(p.Process)
	}
	resourcequota.New(cfg)
	return nil
}

// quotaFilters passes only what is in namespaces with quotas.
func quotaFilters(caches func() informers.SharedInformerFactory) []fake.Filter {
	var filters []fake.Filter
	for _, resource := range []string{
		"configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "secrets", "services",
	} {
		filters = append(filters, fake.Filter{Resource: resource, Match: func(old, obj fake.Object) bool {
			return resourcequota.Concerns(caches(), old, obj)
		}})
	}
	return filters
}

func startDisruption(p ComponentContext) error {
	client, err := p.dynamicClient()
	if err != nil {
		return err
	}
	disruption.New(disruption.Config{
		Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers,
		Dynamic: client, Discover: p.discover, Recorder: p.Recorder(disruption.EventSource),
	})
	return nil
}

var disruptionWakes = []wake{{resource: "poddisruptionbudgets"}, {resource: "pods", match: func(obj fake.Object) bool {
	return disruption.MayBeStale(obj.(*corev1.Pod))
}}}

// disruptionFilters passes budgets, and the pods that they select. The controllers of pods are read
// when a budget is counted.
func disruptionFilters(caches func() informers.SharedInformerFactory) []fake.Filter {
	filters := []fake.Filter{{Resource: "pods", Match: either(func(obj fake.Object) bool {
		return disruption.ConcernsPod(caches(), obj.(*corev1.Pod))
	})}}
	for _, resource := range []string{"deployments", "replicasets", "replicationcontrollers", "statefulsets"} {
		filters = append(filters, fake.Filter{Resource: resource, Match: func(_, _ fake.Object) bool { return false }})
	}
	return filters
}
