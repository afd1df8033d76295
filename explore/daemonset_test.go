package explore_test

import (
	"strings"
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
)

// daemonSetFaults are the faults of a world with a DaemonSet.
const daemonSetFaults = "nodes: 3\nfaults: conflict(0.05), refused(0.03), lost(0.03), crash(daemonset, 3)\n"

// wholeDaemonSet updates a DaemonSet twice in succession and back, while its nodes change.
const wholeDaemonSet = aDaemonSet + `
  wait daemonset web status.numberReady=3
  patch daemonset web spec.template.metadata.labels.version=v2
  patch daemonset web spec.template.metadata.labels.version=v3
  patch node node-2 spec.taints=[{"key":"k","effect":"NoExecute"}]
  wait daemonset web status.desiredNumberScheduled=2
  wait daemonset web status.updatedNumberScheduled=2
  patch node node-2 spec.taints=null
  patch daemonset web spec.template.metadata.labels.version=v2
  wait daemonset web status.updatedNumberScheduled=3

user bob
  wait daemonset web status.numberReady=3
  patch node node-3 metadata.labels.role=other
`

// TestDaemonSets searches worlds with a DaemonSet under faults, with all components and all rules.
func TestDaemonSets(t *testing.T) {
	testcheck.Stepped(t)
	for name, strategy := range map[string]string{
		"deletion": "updateStrategy: {rollingUpdate: {maxUnavailable: 2}}",
		"surge":    "updateStrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}\n      minReadySeconds: 2",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := scenario.Parse(name, daemonSetFaults+strings.Replace(wholeDaemonSet, "updateStrategy: {}", strategy, 1))
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
