package explore_test

import (
	"context"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
)

// preemptionMutants are defects of preemption.
var preemptionMutants = []mutant{
	{
		name: "a pod of the same priority is preempted", rule: "I58",
		scenario: "rules: I58\n" + anImportantPod, between: client("scheduler", preemptsThePeer), config: holds, within: 1,
	},
	{
		name: "the successor of a victim is preempted", rule: "I58",
		scenario: "rules: I58\nends: differ\n" + anImportantPod + aSuccessor, between: client("scheduler", preemptsByName), config: holds, within: 60,
	},
}

const (
	// anImportantPod is a user with a node that has room for two of three pods, of which the last is
	// more important than the first.
	anImportantPod = `nodes: 1
components: scheduler, kubelet
user alice
  apply
    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata: {name: high}
    value: 1000
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: batch}
    spec: {containers: [{name: main, image: pause, resources: {requests: {cpu: "2"}}}]}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: peer}
    spec: {priorityClassName: high, containers: [{name: main, image: pause, resources: {requests: {cpu: "2"}}}]}
  wait pod batch Running
  wait pod peer Running
  apply
    apiVersion: v1
    kind: Pod
    metadata: {name: web}
    spec: {priorityClassName: high, containers: [{name: main, image: pause, resources: {requests: {cpu: "2"}}}]}
`
	// aSuccessor is a user who replaces the first of the pods.
	aSuccessor = `user bob
  wait pod web Pending|Running
  delete pod batch
  wait pod batch gone
  apply
    apiVersion: v1
    kind: Pod
    metadata: {name: batch}
    spec: {containers: [{name: main, image: pause, resources: {requests: {cpu: "2"}}}]}
`
)

// preemptsThePeer deletes another pod than the victim.
func preemptsThePeer(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if !asks(r, "delete", "pods") {
			return serve()
		}
		return nil, own.CoreV1().Pods(r.Namespace).Delete(context.Background(), "peer", metav1.DeleteOptions{})
	}
}

// uidInPatch is the UID in the patch of a status.
var uidInPatch = regexp.MustCompile(`"metadata":\{"uid":"[^"]*"\},?`)

// preemptsByName deletes victims by their names only, as upstream does.
func preemptsByName(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		pods := own.CoreV1().Pods(r.Namespace)
		switch {
		case asks(r, "delete", "pods"):
			return nil, pods.Delete(context.Background(), r.Name, metav1.DeleteOptions{})
		case asks(r, "patch", "pods/status"):
			patch := uidInPatch.ReplaceAll(r.Patch, nil)
			return given(pods.Patch(context.Background(), r.Name, r.PatchType, patch, metav1.PatchOptions{}, "status"))
		}
		return serve()
	}
}
