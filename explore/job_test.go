package explore_test

import (
	"strings"
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
)

// jobFaults are the faults of a world with a job. Schedules may end with more pods: one whose deletion fails runs
// on, and is not counted.
const jobFaults = "nodes: 2\nends: differ\nfaults: conflict(0.05), refused(0.03), lost(0.03), crash(job, 2), crash(cronjob, 1)\n"

// jobLife creates a job, of whose pods one fails, and changes its size while another user suspends it.
const jobLife = `
user alice
  apply
    apiVersion: batch/v1
    kind: Job
    metadata: {name: pi}
    spec:
      completions: 4
      parallelism: 3
      suspend: true
      template:
        metadata: {annotations: {volsim.dev/exit-codes: "CODES"}}
        spec:
          restartPolicy: Never
          containers: [{name: main, image: pause}]
  patch job pi spec.suspend=false
  patch job pi spec.parallelism=1
  wait job pi condition=END
user bob
  wait job pi exists
  patch job pi spec.suspend=true
  patch job pi spec.suspend=false
  wait job pi condition=END
`

// TestJobs searches worlds with a job under faults, with all components and all rules.
func TestJobs(t *testing.T) {
	testcheck.Stepped(t)
	for _, world := range []struct{ name, codes, end, text string }{
		{"complete", "0", "Complete", jobLife},
		{"failed", "3", "Failed", jobLife},
		{"cron job", "", "", aCronJob},
	} {
		t.Run(world.name, func(t *testing.T) {
			t.Parallel()
			text := strings.NewReplacer("CODES", world.codes, "END", world.end).Replace(world.text)
			s, err := scenario.Parse(world.name, jobFaults+text)
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
