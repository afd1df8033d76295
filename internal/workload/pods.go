package workload

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// controllerIndex indexes pods by the UID of their controller. Orphans are indexed by their namespace.
const controllerIndex = "controller of a pod"

func orphansIn(namespace string) string { return "orphans " + namespace }

// IndexPods adds the index of [Pods] to a cache of pods, unless it has it.
func IndexPods(pods cache.Indexer) {
	if pods.GetIndexers()[controllerIndex] != nil {
		return
	}
	err := pods.AddIndexers(cache.Indexers{controllerIndex: func(obj any) ([]string, error) {
		pod := obj.(*corev1.Pod)
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
			return []string{string(ref.UID)}, nil
		}
		return []string{orphansIn(pod.Namespace)}, nil
	}})
	if err != nil {
		panic("workload: index of pods: " + err.Error())
	}
}

// Pods returns the pods that an owner controls, and the orphans of its namespace if they are asked
// for, by name.
func Pods(index cache.Indexer, owner metav1.Object, orphans bool) []*corev1.Pod {
	keys := []string{string(owner.GetUID())}
	if orphans {
		keys = append(keys, orphansIn(owner.GetNamespace()))
	}
	var pods []*corev1.Pod
	for _, key := range keys {
		objects, err := index.ByIndex(controllerIndex, key)
		if err != nil {
			panic("workload: index of pods: " + err.Error()) // IndexPods was not called
		}
		for _, obj := range objects {
			pods = append(pods, obj.(*corev1.Pod))
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

// ListPods returns the pods of a lister for which match holds, in order of their keys.
func ListPods(pods corelisters.PodLister, match func(pod *corev1.Pod) bool) []*corev1.Pod {
	all, err := pods.List(labels.Everything())
	if err != nil {
		return nil // a lister does not fail
	}
	all = slices.DeleteFunc(all, func(pod *corev1.Pod) bool { return !match(pod) })
	slices.SortFunc(all, func(a, b *corev1.Pod) int {
		return cmp.Compare(Key(a).String(), Key(b).String())
	})
	return all
}

// PodsOn returns the pods of a Node, in order of their keys.
func PodsOn(pods corelisters.PodLister, node string) []*corev1.Pod {
	return ListPods(pods, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == node })
}

// NewPod returns a pod with a template and a generated name. The owner controls it.
//
// Upstream: pkg/controller GetPodFromTemplate (v1.36).
func NewPod(template *corev1.PodTemplateSpec, owner metav1.Object, kind schema.GroupVersionKind) *corev1.Pod {
	t := template.DeepCopy()
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: NamePrefix(owner.GetName()), Namespace: owner.GetNamespace(),
			Labels: t.Labels, Annotations: t.Annotations, Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{ControllerRef(owner, kind)},
		},
		Spec: t.Spec,
	}
}

// NamePrefix returns the part of a generated name that is the name of the owner.
//
// Upstream: pkg/controller getPodsPrefix (v1.36).
func NamePrefix(owner string) string {
	prefix := owner + "-"
	if len(validation.NameIsDNSSubdomain(prefix, true)) > 0 {
		return owner
	}
	return prefix
}

// IsTerminating reports whether a pod is being deleted.
func IsTerminating(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }

// HasEnded reports whether all containers of a pod have ended, whatever the result.
func HasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// IsActive reports whether a pod counts as a replica: it has not ended and is not being deleted.
//
// Upstream: pkg/controller IsPodActive (v1.36).
func IsActive(pod *corev1.Pod) bool { return !HasEnded(pod) && !IsTerminating(pod) }

// Ready returns the condition of a ready pod; nil if the pod is not ready.
func Ready(pod *corev1.Pod) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	if i < 0 || pod.Status.Conditions[i].Status != corev1.ConditionTrue {
		return nil
	}
	return &pod.Status.Conditions[i]
}

// IsAvailable reports whether a pod has been ready for so many seconds.
//
// Upstream: pkg/api/v1/pod IsPodAvailable (v1.36).
func IsAvailable(pod *corev1.Pod, seconds int32, now time.Time) bool {
	ready := Ready(pod)
	return ready != nil && (seconds == 0 ||
		!ready.LastTransitionTime.IsZero() && !availableAt(ready, seconds).After(now))
}

// NextAvailable returns after what time the next pod becomes available; 0 if none waits for that.
//
// Upstream: pkg/controller FindMinNextPodAvailabilityCheck (v1.36).
func NextAvailable(pods []*corev1.Pod, seconds int32, now time.Time) time.Duration {
	var next time.Duration
	for _, pod := range pods {
		ready := Ready(pod)
		if ready == nil || IsAvailable(pod, seconds, now) {
			continue
		}
		if d := availableAt(ready, seconds).Sub(now); d > 0 && (next == 0 || d < next) {
			next = d
		}
	}
	return next
}

// availableAt returns when a ready pod becomes available.
func availableAt(ready *corev1.PodCondition, seconds int32) time.Time {
	return ready.LastTransitionTime.Add(time.Duration(seconds) * time.Second)
}
