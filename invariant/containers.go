package invariant

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
)

// Rules about the containers of pods.
var containerRules = []builtIn{
	{"I56", "a pod that has ended runs again, or a restart of a container is undone", nodeRule(beginContainers)},
}

// beginContainers checks that the phases Succeeded and Failed are final, and that the restart counts
// of containers never decrease: a kubelet that reports an older state of a pod would undo what others
// have concluded from the newer one.
func beginContainers(c *Checker) watcher {
	return watcher{
		commits: []string{"pods"},
		commit: func(e fake.Commit) {
			before, _ := e.Before.(*corev1.Pod)
			if before == nil || e.Type == watch.Deleted {
				return
			}
			after := e.After.(*corev1.Pod)
			if was, is := before.Status.Phase, after.Status.Phase; was != is && (was == corev1.PodSucceeded || was == corev1.PodFailed) {
				c.report("I56", "pod %s/%s was %s and is %s", after.Namespace, after.Name, was, is)
			}
			for i := range after.Status.ContainerStatuses {
				is := &after.Status.ContainerStatuses[i]
				at := slices.IndexFunc(before.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == is.Name })
				if at < 0 {
					continue
				}
				if was := before.Status.ContainerStatuses[at].RestartCount; is.RestartCount < was {
					c.report("I56", "container %s of pod %s/%s had been restarted %d times, and is reported with %d",
						is.Name, after.Namespace, after.Name, was, is.RestartCount)
				}
			}
		},
	}
}
