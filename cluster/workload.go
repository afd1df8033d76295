package cluster

import (
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/controllers/cronjob"
	"github.com/volsim/volsim/controllers/daemonset"
	"github.com/volsim/volsim/controllers/deployment"
	"github.com/volsim/volsim/controllers/job"
	"github.com/volsim/volsim/controllers/replicaset"
	"github.com/volsim/volsim/controllers/statefulset"
	"github.com/volsim/volsim/controllers/ttlafterfinished"
	"github.com/volsim/volsim/fake"
)

// workloadComponents returns the controllers that create pods.
var workloadComponents = sync.OnceValue(func() []recipe {
	return []recipe{
		{
			name: "statefulset", replaces: "statefulset-controller",
			filters: statefulSetFilters, wakes: statefulSetWakes,
			start: func(p ComponentContext) error {
				statefulset.New(statefulset.Config{
					Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers,
					Recorder: p.Recorder(statefulset.EventSource),
				})
				return nil
			},
		},
		replicaSetComponent("replicaset", "replicasets", replicaset.EventSource, false),
		replicaSetComponent("replicationcontroller", "replicationcontrollers", replicaset.ReplicationEventSource, true),
		{
			name: "deployment", replaces: "deployment-controller",
			filters: deploymentFilters, wakes: []wake{{resource: "deployments"}},
			start: func(p ComponentContext) error {
				deployment.New(deployment.Config{
					Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers,
					Recorder: p.Recorder(deployment.EventSource),
				})
				return nil
			},
		},
		{
			name: "daemonset", replaces: "daemonset-controller",
			filters: daemonSetFilters, wakes: []wake{{resource: "daemonsets"}},
			start: func(p ComponentContext) error {
				daemonset.New(daemonset.Config{
					Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers,
					Recorder: p.Recorder(daemonset.EventSource),
				})
				return nil
			},
		},
		{
			name: "job", replaces: "job-controller",
			filters: jobFilters, wakes: []wake{{resource: "jobs"}},
			start: func(p ComponentContext) error {
				job.New(job.Config{
					Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers,
					Recorder: p.Recorder(job.EventSource),
				})
				return nil
			},
		},
		{
			name: "cronjob", replaces: "cronjob-controller",
			filters: cronJobFilters, wakes: []wake{{resource: "cronjobs"}},
			start: func(p ComponentContext) error {
				cronjob.New(cronjob.Config{
					Process: p.Process, Client: p.Client, Informers: p.Informers, Recorder: p.Recorder(cronjob.EventSource),
				})
				return nil
			},
		},
		{
			name: "ttlafterfinished", replaces: "ttl-after-finished-controller",
			filters: finishedJobFilters, wakes: []wake{{resource: "jobs", match: func(obj fake.Object) bool {
				return obj.(*batchv1.Job).Spec.TTLSecondsAfterFinished != nil
			}}},
			start: func(p ComponentContext) error {
				ttlafterfinished.New(ttlafterfinished.Config{Process: p.Process, Client: p.Client, Informers: p.Informers})
				return nil
			},
		},
	}
})

var statefulSetWakes = []wake{{resource: "statefulsets"}}

// statefulSetFilters passes sets, their pods, claims and revisions, and the orphans that they may
// adopt.
func statefulSetFilters(caches func() informers.SharedInformerFactory) []fake.Filter {
	ofSet := func(obj fake.Object) bool {
		ref := metav1.GetControllerOfNoCopy(obj)
		return ref == nil || ref.Kind == "StatefulSet"
	}
	return []fake.Filter{
		{Resource: "statefulsets", Match: func(_, _ fake.Object) bool { return true }},
		{Resource: "controllerrevisions", Match: either(ofSet)},
		{Resource: "pods", Match: either(func(obj fake.Object) bool {
			return statefulset.ConcernsPod(caches(), obj.(*corev1.Pod))
		})},
		{Resource: "persistentvolumeclaims", Match: func(old, obj fake.Object) bool {
			before, _ := old.(*corev1.PersistentVolumeClaim)
			after, _ := obj.(*corev1.PersistentVolumeClaim)
			return statefulset.ConcernsClaim(caches(), before, after)
		}},
	}
}

// replicaSetComponent returns the controller of ReplicaSets, or that of ReplicationControllers. Its
// filters pass sets, their pods, and the orphans that they may adopt.
func replicaSetComponent(name, resource, eventSource string, replicationControllers bool) recipe {
	return recipe{
		name: name, replaces: name + "-controller", wakes: []wake{{resource: resource}},
		filters: func(caches func() informers.SharedInformerFactory) []fake.Filter {
			return []fake.Filter{
				{Resource: resource, Match: func(_, _ fake.Object) bool { return true }},
				{Resource: "pods", Match: either(func(obj fake.Object) bool {
					cfg := replicaset.Config{Informers: caches(), ReplicationControllers: replicationControllers}
					return cfg.ConcernsPod(obj.(*corev1.Pod))
				})},
			}
		},
		start: func(p ComponentContext) error {
			replicaset.New(replicaset.Config{
				Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers,
				Recorder: p.Recorder(eventSource), ReplicationControllers: replicationControllers,
			})
			return nil
		},
	}
}

// deploymentFilters passes Deployments, their sets, the orphans that they may adopt, and the pods of
// those that must end before a set is created.
func deploymentFilters(caches func() informers.SharedInformerFactory) []fake.Filter {
	filters := []fake.Filter{{Resource: "deployments", Match: func(_, _ fake.Object) bool { return true }}}
	return append(filters, changes(deployment.Concerns, "replicasets", "pods")(caches)...)
}

// daemonSetFilters passes sets, their pods and revisions, the orphans that they may adopt, and nodes with
// other labels or taints.
func daemonSetFilters(caches func() informers.SharedInformerFactory) []fake.Filter {
	filters := []fake.Filter{{Resource: "daemonsets", Match: func(_, _ fake.Object) bool { return true }}}
	return append(filters, changes(daemonset.Concerns, "pods", "controllerrevisions", "nodes")(caches)...)
}

// jobFilters passes jobs, their pods, and the orphans that they may adopt or have left.
func jobFilters(caches func() informers.SharedInformerFactory) []fake.Filter {
	return []fake.Filter{
		{Resource: "jobs", Match: func(_, _ fake.Object) bool { return true }},
		{Resource: "pods", Match: either(func(obj fake.Object) bool {
			return job.ConcernsPod(caches(), obj.(*corev1.Pod))
		})},
	}
}

// cronJobFilters passes cron jobs and their jobs.
func cronJobFilters(func() informers.SharedInformerFactory) []fake.Filter {
	return []fake.Filter{
		{Resource: "cronjobs", Match: func(_, _ fake.Object) bool { return true }},
		{Resource: "jobs", Match: either(func(obj fake.Object) bool { return cronjob.ConcernsJob(obj.(*batchv1.Job)) })},
	}
}

// finishedJobFilters passes jobs that will be deleted.
func finishedJobFilters(func() informers.SharedInformerFactory) []fake.Filter {
	return []fake.Filter{{Resource: "jobs", Match: func(_, obj fake.Object) bool {
		return obj != nil && ttlafterfinished.Concerns(obj.(*batchv1.Job))
	}}}
}

// either returns a match of changes whose object matches before or after.
func either(match func(obj fake.Object) bool) func(old, obj fake.Object) bool {
	return func(old, obj fake.Object) bool { return old != nil && match(old) || obj != nil && match(obj) }
}
