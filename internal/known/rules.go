package known

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/invariant"
)

// instanceRuns requires that each instance of a cluster runs when the world is at rest. The pod of
// instance 1 of cluster db is db-1.
var instanceRuns = invariant.Rule{
	ID: "instance-runs", Forbids: "an instance of a cluster that never runs",
	Begin: func(w invariant.World) invariant.Checks {
		return invariant.Checks{AtRest: func() error {
			running := map[string]bool{}
			for _, obj := range w.API.List("pods") {
				pod := obj.(*corev1.Pod)
				running[pod.Namespace+"/"+pod.Name] = pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil
			}
			for _, obj := range w.API.List("configmaps") {
				cm := obj.(*corev1.ConfigMap)
				instances, _ := strconv.Atoi(cm.Data["instances"]) // other ConfigMaps have none
				for i := 1; i <= instances; i++ {
					name := fmt.Sprintf("%s/%s-%d", cm.Namespace, cm.Name, i)
					if is, exists := running[name]; !is {
						return fmt.Errorf("pod %s of configmap %s/%s %s", name, cm.Namespace, cm.Name, map[bool]string{
							true: "is not running", false: "does not exist",
						}[exists])
					}
				}
			}
			return nil
		}}
	},
}

// lines joins the lines of a scenario.
func lines(all ...string) string { return strings.Join(all, "\n") + "\n" }
