package explore_test

import (
	"strings"
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
)

// deploymentFaults are the faults of a world with a Deployment.
const deploymentFaults = "nodes: 2\nfaults: conflict(0.05), refused(0.03), lost(0.03), crash(deployment, 2), crash(replicaset, 2)\n"

// wholeRollout updates a Deployment twice in succession, scales it, and deletes it, while another user
// deletes its pods.
const wholeRollout = aDeployment + `
  wait deployment web status.readyReplicas=2
  patch deployment web spec.template.metadata.labels.version=v2
  patch deployment web spec.template.metadata.labels.version=v3
  wait deployment web status.updatedReplicas=2
  patch deployment web spec.replicas=4
  patch deployment web spec.template.metadata.labels.version=v2
  wait deployment web status.readyReplicas=4
  patch deployment web spec.replicas=1
  wait deployment web status.replicas=1
`

// TestDeployments searches worlds with a Deployment under faults, with all components and all rules.
func TestDeployments(t *testing.T) {
	testcheck.Stepped(t)
	for name, strategy := range map[string]string{
		"rolling":  "strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}",
		"25%":      "minReadySeconds: 2",
		"recreate": "strategy: {type: Recreate}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := scenario.Parse(name, deploymentFaults+
				strings.Replace(wholeRollout, "strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}", strategy, 1))
			if err != nil {
				t.Fatal(err)
			}
			r, err := explore.Search(t.Context(), s, explore.Config{Strategy: explore.Random, Count: 30})
			if err != nil {
				t.Fatal(err)
			}
			if f := r.Failure; f != nil {
				t.Fatalf("%v\nunder %s", f, f.Scenario.Schedule)
			}
		})
	}
}

// TestReplicationControllers searches a world with a ReplicationController under faults, while another user
// deletes its pods and takes one from it.
func TestReplicationControllers(t *testing.T) {
	testcheck.Stepped(t)
	t.Parallel()
	s, err := scenario.Parse("replicationcontroller",
		"nodes: 2\nfaults: conflict(0.05), refused(0.03), lost(0.03), crash(replicationcontroller, 3)\n"+
			aReplicationController+`
  wait rc web status.readyReplicas=3
  patch rc web spec.template.metadata.labels.version=v2
  patch rc web spec.replicas=5
  wait rc web status.readyReplicas=5
  patch rc web spec.replicas=1
  wait rc web status.replicas=1

user bob
  wait rc web status.readyReplicas=3
  patch pod first metadata.labels.app=other
  wait rc web status.readyReplicas=5
  delete pod first
`)
	if err != nil {
		t.Fatal(err)
	}
	r, err := explore.Search(t.Context(), s, explore.Config{Strategy: explore.Random, Count: 60})
	if err != nil {
		t.Fatal(err)
	}
	if f := r.Failure; f != nil {
		t.Fatalf("%v\nunder %s", f, f.Scenario.Schedule)
	}
}
