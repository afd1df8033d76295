package noderesources

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// Events returns the changes of pods and nodes that free resources.
func (*Fit) Events() []framework.EventHint {
	return []framework.EventHint{
		{Resource: framework.Pod, Action: framework.Delete | framework.UpdatePodScaleDown, Hint: freesResources},
		{Resource: framework.Node, Action: framework.Add | framework.UpdateNodeAllocatable, Hint: hasMore},
	}
}

// freesResources reports whether a pod was deleted from its node, requests less of what the pod that waits
// requests, or is that pod.
func freesResources(pod *corev1.Pod, old, new any) bool {
	was, _ := old.(*corev1.Pod)
	is, _ := new.(*corev1.Pod)
	switch {
	case was == nil:
		return false
	case is == nil:
		return was.Spec.NodeName != "" || was.Status.NominatedNodeName != ""
	case is.UID == pod.UID:
		return true
	case is.Spec.NodeName == "":
		return false
	}
	return isLess(requests(is), requests(was), requests(pod))
}

// hasMore reports whether a node that could run the pod, were there no others, is new or has more of what
// the pod requests.
func hasMore(pod *corev1.Pod, old, new any) bool {
	was, _ := old.(*corev1.Node)
	is, _ := new.(*corev1.Node)
	if is == nil {
		return false
	}
	now, wanted := framework.NewNodeInfo(is), requests(pod)
	if !now.Unlimited {
		if missing := (&Fit{}).missing(wanted, now); missing.set != 0 || missing.scalars != nil {
			return false
		}
	}
	if was == nil {
		return true
	}
	before := framework.NewNodeInfo(was)
	if now.Unlimited || before.Unlimited {
		return !before.Unlimited
	}
	return now.Allocatable.Pods > before.Allocatable.Pods || isLess(&before.Allocatable, &now.Allocatable, wanted)
}

func requests(pod *corev1.Pod) *framework.Resource {
	info, _ := framework.NewPodInfo(pod) // its affinity does not matter
	return &info.Requests
}

// isLess reports whether a is less than b in a resource that is wanted.
func isLess(a, b, wanted *framework.Resource) bool {
	if wanted.MilliCPU > 0 && a.MilliCPU < b.MilliCPU || wanted.Memory > 0 && a.Memory < b.Memory ||
		wanted.EphemeralStorage > 0 && a.EphemeralStorage < b.EphemeralStorage {
		return true
	}
	for name, amount := range wanted.Scalar {
		if amount > 0 && a.Scalar[name] < b.Scalar[name] {
			return true
		}
	}
	return false
}
