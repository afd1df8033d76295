package explore_test

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
)

// quotaMutants are defects of the controllers of quotas and disruption budgets.
var quotaMutants = []mutant{
	{
		name: "a quota is not counted again", rule: "L14",
		scenario: "rules: L14\n" + aQuota, between: client("resourcequota", countsOnce), config: holds, within: 1,
	},
	{
		name: "the controller of budgets forgets evicted pods", rule: "I55",
		scenario: "rules: I55\n" + aBudget, between: client("disruption", forgetsEvicted), extra: evictor, config: holds, within: 60,
	},
}

// aQuota is a user whose claim comes and goes in a namespace with a quota.
const aQuota = `nodes: 1
components: pvcontroller, provisioner, pvcprotection, resourcequota
user alice
  apply
    apiVersion: v1
    kind: ResourceQuota
    metadata: {name: web}
    spec: {hard: {persistentvolumeclaims: 2, requests.storage: 1Gi}}
  wait resourcequota web status.used.persistentvolumeclaims=0
  create claim data 64Mi
  wait claim data Bound
  delete claim data
  wait claim data gone
`

// aBudget is a user with three pods, one of which may be evicted.
const aBudget = `nodes: 1
components: scheduler, kubelet, disruption
user alice
  apply
    apiVersion: policy/v1
    kind: PodDisruptionBudget
    metadata: {name: web}
    spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: web-0, labels: {app: web}}
    spec: {containers: [{name: main, image: pause}]}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: web-1, labels: {app: web}}
    spec: {containers: [{name: main, image: pause}]}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: web-2, labels: {app: web}}
    spec: {containers: [{name: main, image: pause}]}
`

// evictor evicts a pod, and tries to evict a second one at once.
func evictor(bool) []cluster.Component {
	return []cluster.Component{{Name: "evictor", Start: func(p cluster.ComponentContext) error {
		p.Process.User("", func(ctx context.Context) {
			evict := func(name string) error {
				return p.Client.CoreV1().Pods("default").EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
			running := func() bool {
				pod, err := p.Client.CoreV1().Pods("default").Get(ctx, "web-2", metav1.GetOptions{})
				return err == nil && pod.Status.Phase == corev1.PodRunning
			}
			for try := 0; try < 10 && !running() || evict("web-0") != nil; try++ {
				p.Process.Sleep(time.Second)
			}
			for range 3 {
				_ = evict("web-1") // the budget refuses
			}
		})
		return nil
	}}}
}

// countsOnce drops all but the first status of a quota.
func countsOnce(*fake.Clientset) fake.InterceptorFunc {
	counted := false
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if q, is := r.Body.(*corev1.ResourceQuota); is && r.Verb == "update" {
			if counted {
				return q, nil
			}
			counted = true
		}
		return serve()
	}
}

// forgetsEvicted counts pods that were evicted as healthy ones until their deletion is seen.
func forgetsEvicted(*fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if b, is := r.Body.(*policyv1.PodDisruptionBudget); is && r.Verb == "update" {
			b.Status.DisruptionsAllowed += int32(len(b.Status.DisruptedPods))
			b.Status.DisruptedPods = nil
		}
		return serve()
	}
}
