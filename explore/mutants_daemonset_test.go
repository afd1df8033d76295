package explore_test

import (
	"k8s.io/apimachinery/pkg/runtime"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/fake"
)

// daemonSetMutants are defects of the controller of DaemonSets.
var daemonSetMutants = []mutant{
	{
		name: "a node has each pod twice", rule: "I57",
		scenario: "rules: I57\n" + runDaemonSet, between: client("daemonset", createsTwice), config: holds, within: 1,
	},
	{
		name: "only one node gets a pod", rule: "L15",
		scenario: "rules: L15\n" + runDaemonSet, between: client("daemonset", createsOnOneNode), config: holds, within: 1,
	},
	{
		name: "a pod is left on a node that is not selected any more", rule: "L15",
		scenario: "rules: L15\n" + runDaemonSet + `
  patch node node-2 spec.taints=[{"key":"k","effect":"NoExecute"}]
`, between: client("daemonset", deletesNothing), config: holds, within: 1,
	},
	{
		name: "outdated pods are left", rule: "L15",
		scenario: "rules: L15\n" + runDaemonSet + `
  patch daemonset web spec.template.metadata.labels.version=v2
`, between: client("daemonset", deletesNothing), config: holds, within: 1,
	},
}

// runDaemonSet is a DaemonSet with its pods.
const runDaemonSet = "nodes: 2\ncomponents: scheduler, kubelet, daemonset, garbagecollector\n" + aDaemonSet + `
  wait daemonset web status.currentNumberScheduled=2
`

// aDaemonSet is a user who creates a DaemonSet.
const aDaemonSet = `
user alice
  apply
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: web}
    spec:
      selector: {matchLabels: {app: web}}
      updateStrategy: {}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: main, image: pause}]}
`

// createsOnOneNode drops the pods that a controller creates for other nodes than node-1.
func createsOnOneNode(*fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if pod, is := r.Body.(*corev1.Pod); is && r.Verb == "create" {
			term := &pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0]
			if term.MatchFields[0].Values[0] != "node-1" {
				return pod, nil
			}
		}
		return serve()
	}
}
