package explore_test

import (
	"strings"
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
)

// setFaults are the faults of a world with a set.
const setFaults = "nodes: 2\nfaults: conflict(0.05), refused(0.03), lost(0.03), crash(statefulset, 2), crash(kubelet(node-1), 1)\n"

// wholeLife scales a set of three down and up and deletes it, while another user deletes a pod.
var wholeLife = strings.Replace(aSet, "replicas: 2", "replicas: 3", 1) + `
  wait statefulset web status.readyReplicas=3
  patch statefulset web spec.replicas=1
  wait pod web-2 gone
  patch statefulset web spec.replicas=2 spec.template.metadata.labels.version=v2
  wait statefulset web status.readyReplicas=2
  delete statefulset web
  wait pod web-0 gone
  wait pod web-1 gone
user bob
  wait pod web-0 Running
  delete pod web-0
`

// TestStatefulSets searches worlds with a set under faults, with all components and all rules. All runs
// end in the same state.
func TestStatefulSets(t *testing.T) {
	testcheck.Stepped(t)
	for name, policy := range map[string]string{
		"ordered, claims are retained": "serviceName: web\n",
		"parallel, claims are deleted": "serviceName: web\n      podManagementPolicy: Parallel\n" +
			"      persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Delete}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := scenario.Parse(name, setFaults+strings.Replace(wholeLife, "serviceName: web\n", policy, 1))
			if err != nil {
				t.Fatal(err)
			}
			r, err := explore.Search(t.Context(), s, explore.Config{Strategy: explore.Random, Count: 40})
			if err != nil {
				t.Fatal(err)
			}
			if f := r.Failure; f != nil {
				t.Fatalf("%v\nunder %s", f, f.Scenario.Schedule)
			}
		})
	}
}
