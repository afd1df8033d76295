package explore_test

import (
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
)

// TestQuotasAndBudgets searches a world with a quota, a budget and a pod under faults, with all
// components and all rules. All runs end in the same state.
func TestQuotasAndBudgets(t *testing.T) {
	testcheck.Stepped(t)
	t.Parallel()
	const faults = "nodes: 1\nfaults: conflict(0.05), refused(0.03), lost(0.03), crash(resourcequota, 2), crash(disruption, 2)\n"
	s, err := scenario.Parse("quota and budget", faults+`user alice
  apply
    apiVersion: v1
    kind: ResourceQuota
    metadata: {name: all}
    spec: {hard: {persistentvolumeclaims: 5, requests.storage: 1Gi, pods: 3, count/configmaps: 9}}
    ---
    apiVersion: policy/v1
    kind: PodDisruptionBudget
    metadata: {name: web}
    spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
  wait resourcequota all status.used.pods=0
  create claim data 64Mi
  create claim more 64Mi
  apply
    apiVersion: v1
    kind: Pod
    metadata: {name: web, labels: {app: web}}
    spec: {containers: [{name: main, image: pause}]}
  wait pod web Running
  wait claim data Bound
  delete claim data
  delete pod web
  wait pod web gone
  wait claim data gone
`)
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
}
