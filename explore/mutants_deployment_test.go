package explore_test

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
)

// deploymentMutants are defects of the controllers of Deployments, ReplicaSets and ReplicationControllers.
var deploymentMutants = []mutant{
	{
		name: "a new set begins with all replicas", rule: "I45",
		scenario: "rules: I45\n" + rolledOut, between: client("deployment", createsFullSets), config: holds, within: 1,
	},
	{
		name: "a set has each pod twice", rule: "I46",
		scenario: "rules: I46\n" + rolledOut, between: client("replicaset", createsTwice), config: holds, within: 1,
	},
	{
		name: "pods beyond the replicas of a set are left", rule: "L11",
		scenario: "rules: L11\n" + scaledDeployment, between: client("replicaset", deletesNothing), config: holds, within: 1,
	},
	{
		name: "old sets are not scaled down", rule: "L11",
		scenario: "rules: L11\n" + scaledDeployment, between: client("deployment", neverScalesDown), config: holds, within: 1,
	},
	{
		name: "a replication controller has each pod twice", rule: "I46",
		scenario: "rules: I46\n" + scaledReplicationController,
		between:  client("replicationcontroller", createsTwice), config: holds, within: 1,
	},
	{
		name: "pods beyond the replicas of a replication controller are left", rule: "L11",
		scenario: "rules: L11\n" + strings.Replace(scaledReplicationController, "  wait rc web status.replicas=1\n", "", 1),
		between:  client("replicationcontroller", deletesNothing), config: holds, within: 1,
	},
}

// scaledReplicationController is a ReplicationController that is scaled down. Its first pod has been there
// before.
const scaledReplicationController = "nodes: 1\ncomponents: scheduler, kubelet, replicationcontroller, garbagecollector\n" +
	aReplicationController + `
  wait rc web status.readyReplicas=3
  patch rc web spec.replicas=1
  wait rc web status.replicas=1
`

// aReplicationController is a user who creates a pod, and a ReplicationController of three pods that adopts
// it.
const aReplicationController = `
user alice
  apply
    apiVersion: v1
    kind: Pod
    metadata: {name: first, labels: {app: web}}
    spec: {containers: [{name: main, image: pause}]}
  apply
    apiVersion: v1
    kind: ReplicationController
    metadata: {name: web}
    spec:
      replicas: 3
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: main, image: pause}]}
`

// deploymentComponents are what acts on a Deployment without volumes.
const deploymentComponents = "nodes: 1\ncomponents: scheduler, kubelet, deployment, replicaset, garbagecollector\n"

// rolledOut is a Deployment that is updated.
const rolledOut = deploymentComponents + aDeployment + `
  wait deployment web status.readyReplicas=2
  patch deployment web spec.template.metadata.labels.version=v2
  wait deployment web status.updatedReplicas=2
`

// scaledDeployment is a Deployment that is updated and scaled down.
const scaledDeployment = rolledOut + `
  patch deployment web spec.replicas=1
  wait deployment web spec.replicas=1
`

// aDeployment is a user who creates a Deployment of two pods, with one more while it is updated.
const aDeployment = `
user alice
  apply
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec:
      replicas: 2
      selector: {matchLabels: {app: web}}
      strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: main, image: pause}]}
`

// createsFullSets lets a controller create each set with all replicas.
func createsFullSets(*fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if set, is := r.Body.(*appsv1.ReplicaSet); is && r.Verb == "create" {
			*set.Spec.Replicas = 2
		}
		return serve()
	}
}

// createsTwice lets a controller create each pod a second time.
func createsTwice(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		object, err := serve()
		if pod, is := r.Body.(*corev1.Pod); is && r.Verb == "create" && err == nil {
			_, err = own.CoreV1().Pods(r.Namespace).Create(context.Background(), pod.DeepCopy(), metav1.CreateOptions{})
		}
		return object, err
	}
}

// neverScalesDown drops a controller's updates that make a set smaller.
func neverScalesDown(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if set, is := r.Body.(*appsv1.ReplicaSet); is && r.Verb == "update" && r.Subresource == "" {
			stored, err := own.AppsV1().ReplicaSets(r.Namespace).Get(context.Background(), set.Name, metav1.GetOptions{})
			if err == nil && *set.Spec.Replicas < *stored.Spec.Replicas {
				return stored, nil
			}
		}
		return serve()
	}
}
