package explore_test

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
)

// deadNodeMutants are defects of the controllers that remove pods from nodes that fail.
var deadNodeMutants = []mutant{
	{
		name: "a pod elsewhere is evicted, too", rule: "I51",
		scenario: "rules: I51\n" + lostPod, between: client("tainteviction", deletesNeighbours), config: holds, within: 1,
	},
	{
		name: "a pod of an existing node is collected, too", rule: "I52",
		scenario: "rules: I52\n" + lostPod, between: client("podgc", deletesNeighbours), config: holds, within: 1,
	},
	{
		name: "a pod is not evicted", rule: "L13",
		scenario: "rules: L13\n" + lostPod, between: client("tainteviction", deletesNothing), config: holds, within: 1,
	},
	{
		name: "a pod of a node that does not exist is left", rule: "L13",
		scenario: "rules: L13\ncomponents: podgc\nuser alice\n  create pod web on=node-7\n  pass 10m\n", between: client("podgc", deletesNothing), config: holds, within: 1,
	},
}

// lostPod is a pod on a node that is shut down, while another runs elsewhere.
const lostPod = `nodes: 2
node-leases: on
components: scheduler, kubelet, nodelifecycle, tainteviction, podgc
user alice
  create pod web on=node-1
  create pod other on=node-2
  wait pod web Running
  wait pod other Running
  let partition node-1
  set node node-1 out-of-service=true
  pass 10m
`

// deletesNeighbours lets a controller delete all pods with the first one.
func deletesNeighbours(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		object, err := serve()
		if r.Verb == "delete" && r.Resource.Resource == "pods" && err == nil {
			err = own.CoreV1().Pods(r.Namespace).Delete(context.Background(), "other", metav1.DeleteOptions{})
		}
		return object, err
	}
}
