package explore_test

import (
	"context"
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
)

// statefulSetMutants are defects of the StatefulSet controller.
var statefulSetMutants = []mutant{
	{
		name: "a pod of a set is deleted without waiting for its kubelet", rule: "I43",
		scenario: "rules: I43\n" + scaledSet, between: client(setController, forcesDeletions), config: holds, within: 1,
	},
	{
		name: "a set has a second pod of an ordinal", rule: "I43",
		scenario: "rules: I43\n" + scaledSet, between: client(setController, createsAgain), config: holds, within: 1,
	},
	{
		name: "a claim is deleted with its pod", rule: "I44",
		scenario: "rules: I44\n" + scaledSet, between: client(setController, deletesClaims), config: holds, within: 1,
	},
	{
		name: "a retained claim is owned by its set", rule: "I44",
		scenario: "rules: I44\n" + scaledSet, between: client(setController, ownsClaims), config: holds, within: 1,
	},
	{
		name: "a pod beyond the replicas of a set is left", rule: "L10",
		scenario: "rules: L10\n" + scaledSet, between: client(setController, deletesNothing), config: holds, within: 1,
	},
	{
		name: "a pod of an old revision of its set is left", rule: "L10",
		scenario: "rules: L10\n" + updatedSet, between: client(setController, deletesNothing), config: holds, within: 1,
	},
	{
		name: "a pod of a set waits for a claim that is not created", rule: "L10",
		scenario: "rules: L10\n" + pendingSet, between: client(setController, createsNoClaims), config: holds, within: 1,
	},
	{
		name: "a restarted kubelet reports an older state of a pod's containers", rule: "I56",
		scenario: "rules: I56\n" + exitingPod, between: client("kubelet", reportsAnyVersion), config: restarts, within: 240,
	},
}

const setController = "statefulset"

// scaledSet is a set that is created, scaled down and deleted.
const scaledSet = "nodes: 1\ncomponents: pvcontroller, provisioner, scheduler, attachdetach, attacher, kubelet, statefulset, garbagecollector\n" + aSet + `
  wait statefulset web status.readyReplicas=2
  patch statefulset web spec.replicas=1
  wait pod web-1 gone
  delete statefulset web
  wait pod web-0 gone
`

// aSet is a user who creates a set of two pods with claims.
const aSet = `
user alice
  apply
    apiVersion: apps/v1
    kind: StatefulSet
    metadata: {name: web}
    spec:
      replicas: 2
      serviceName: web
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec:
          containers: [{name: main, image: pause, volumeMounts: [{name: data, mountPath: /data}]}]
      volumeClaimTemplates:
      - metadata: {name: data}
        spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`

// updatedSet is a set whose template is changed.
const updatedSet = "nodes: 1\ncomponents: pvcontroller, provisioner, scheduler, attachdetach, attacher, kubelet, statefulset\n" + aSet + `
  wait statefulset web status.readyReplicas=2
  patch statefulset web spec.template.metadata.labels.version=v2
`

// pendingSet is a set whose pods wait for claims.
const pendingSet = "nodes: 1\ncomponents: statefulset\n" + aSet

// exitingPod is a pod whose containers exit twice, and are restarted.
const exitingPod = `nodes: 1
components: kubelet
user alice
  create pod web on=node-1
  set pod web exits=1,1
  wait pod web status.containerStatuses[0].restartCount=2
`

// forcesDeletions lets a controller delete pods at once.
func forcesDeletions(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if r.Verb == "delete" && r.Resource.Resource == "pods" {
			return nil, own.CoreV1().Pods(r.Namespace).Delete(context.Background(), r.Name,
				metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		}
		return serve()
	}
}

// createsAgain lets a controller create each pod a second time, under another name.
func createsAgain(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		object, err := serve()
		if pod, is := r.Body.(*corev1.Pod); is && r.Verb == "create" && err == nil {
			again := pod.DeepCopy()
			again.ObjectMeta = metav1.ObjectMeta{Name: pod.Name + "-again", Labels: pod.Labels, OwnerReferences: pod.OwnerReferences}
			_, err = own.CoreV1().Pods(r.Namespace).Create(context.Background(), again, metav1.CreateOptions{})
		}
		return object, err
	}
}

// deletesClaims lets a controller delete a pod's claims with the pod.
func deletesClaims(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		object, err := serve()
		if r.Verb == "delete" && r.Resource.Resource == "pods" && err == nil {
			err = own.CoreV1().PersistentVolumeClaims(r.Namespace).Delete(context.Background(), "data-"+r.Name, metav1.DeleteOptions{})
		}
		return object, err
	}
}

// ownsClaims lets a controller write claims so that they are deleted with their set.
func ownsClaims(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if claim, is := r.Body.(*corev1.PersistentVolumeClaim); is && (r.Verb == "create" || r.Verb == "update") {
			set, err := own.AppsV1().StatefulSets(r.Namespace).Get(context.Background(), "web", metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
		}
		return serve()
	}
}

// deletesNothing drops a controller's deletions of pods.
func deletesNothing(*fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if r.Verb == "delete" && r.Resource.Resource == "pods" {
			return nil, nil //nolint:nilnil // as the server
		}
		return serve()
	}
}

// createsNoClaims drops a controller's creations of claims.
func createsNoClaims(*fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if r.Verb == "create" && r.Resource.Resource == "persistentvolumeclaims" {
			return r.Body, nil
		}
		return serve()
	}
}

// reportsAnyVersion removes the resourceVersion from a kubelet's reports of pods.
func reportsAnyVersion(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		var report map[string]any
		if !asks(r, "patch", "pods/status") || json.Unmarshal(r.Patch, &report) != nil {
			return serve()
		}
		metadata, _ := report["metadata"].(map[string]any)
		if metadata["resourceVersion"] == nil {
			return serve()
		}
		delete(metadata, "resourceVersion")
		patch, err := json.Marshal(report)
		if err != nil {
			return nil, err
		}
		return given(own.CoreV1().Pods(r.Namespace).
			Patch(context.Background(), r.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"))
	}
}
