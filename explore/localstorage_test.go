package explore_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	_ "github.com/volsim/volsim/fake/crd" // for the records of local storage
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
)

// localStorageWorld has a volume of a volume group from its class to nothing left, and a claim that the
// first node is too small for.
const localStorageWorld = `local-storage: on
user alice
  disk node-1 /dev/sdb 64Mi block=true
  disk node-2 /dev/sdb 64Mi block=true
  apply
    apiVersion: storage.k8s.io/v1
    kind: StorageClass
    metadata: {name: fast}
    provisioner: localstorage.volsim.dev
    volumeBindingMode: WaitForFirstConsumer
    parameters: {nodes: '[{"node":"node-1","disks":["/dev/sdb"]},{"node":"node-2","disks":["/dev/sdb"]}]'}
  create claim data 32Mi class=fast
  create pod web data
  wait pod web Running
  delete pod web
  wait pod web gone
  delete claim data
`

// fullNodeWorld has a claim that the first node has no space for.
const fullNodeWorld = `local-storage: on
components: pvcontroller, scheduler, kubelet, localstorage
user alice
  disk node-1 /dev/sdb 16Mi block=true
  disk node-2 /dev/sdb 64Mi block=true
  apply
    apiVersion: storage.k8s.io/v1
    kind: StorageClass
    metadata: {name: fast}
    provisioner: localstorage.volsim.dev
    volumeBindingMode: WaitForFirstConsumer
    parameters: {nodes: '[{"node":"node-1","disks":["/dev/sdb"]},{"node":"node-2","disks":["/dev/sdb"]}]'}
  create claim data 32Mi class=fast
  create pod web data
  wait pod web Running
`

// lateDiskWorld has a claim that waits for a disk.
const lateDiskWorld = `local-storage: on
components: pvcontroller, scheduler, kubelet, localstorage
user alice
  apply
    apiVersion: storage.k8s.io/v1
    kind: StorageClass
    metadata: {name: fast}
    provisioner: localstorage.volsim.dev
    volumeBindingMode: WaitForFirstConsumer
    parameters: {nodes: '[{"node":"node-2","disks":["/dev/sdb"]}]'}
  create claim data 32Mi class=fast
  create pod web data
  pass 1m
  disk node-2 /dev/sdb 64Mi block=true
  wait pod web Running
`

// lastSpaceWorld has two claims for the last space. The second one has it once the first is deleted.
const lastSpaceWorld = `local-storage: on
components: pvcontroller, pvcprotection, pvprotection, scheduler, kubelet, localstorage
user alice
  disk node-1 /dev/sdb 16Mi block=true
  disk node-2 /dev/sdb 64Mi block=true
  apply
    apiVersion: storage.k8s.io/v1
    kind: StorageClass
    metadata: {name: fast}
    provisioner: localstorage.volsim.dev
    volumeBindingMode: WaitForFirstConsumer
    parameters: {nodes: '[{"node":"node-1","disks":["/dev/sdb"]},{"node":"node-2","disks":["/dev/sdb"]}]'}
  create claim data 40Mi class=fast
  create claim more 40Mi class=fast
  create pod web data
  create pod app more
  pass 1m
  delete pod web
  wait pod web gone
  delete claim data
  wait pod app Running
`

// TestLocalStorage searches the worlds of local storage, without and with faults.
func TestLocalStorage(t *testing.T) {
	testcheck.Stepped(t)
	faults, err := sim.ParseFaultSpecs("conflict(0.05), driver-lost Internal(0.02), crash(2), reboot(node-1, 1)")
	testcheck.NoError(t, err)
	for name, text := range map[string]string{"life of a volume": localStorageWorld, "full node": fullNodeWorld, "last space": lastSpaceWorld, "late disk": lateDiskWorld} {
		t.Run(name, func(t *testing.T) {
			s, err := scenario.Parse(name, text)
			testcheck.NoError(t, err)
			if got := s.String(); !strings.HasPrefix(got, "local-storage: on\n") && !strings.Contains(got, "\nlocal-storage: on\n") {
				t.Errorf("written as\n%s", got)
			}
			s.OutcomesDiffer = true
			for _, search := range []explore.Config{
				{Strategy: explore.Holds, Depth: 1, Count: 60},
				{Strategy: explore.Random, Count: 40, Seed: 1, Faults: faults},
			} {
				report, err := explore.Search(t.Context(), s, search)
				testcheck.NoError(t, err)
				if report.Failure != nil {
					t.Fatalf("%v:\n%s", search.Strategy, scenario.Story(report.Failure.Scenario, report.Failure.Result))
				}
				t.Logf("%v: %d schedules, %d steps: %s", search.Strategy, report.Schedules, report.Steps, report.Complete)
			}
		})
	}
}

// acceptsEveryNode is an extender that does not look at the records.
var acceptsEveryNode = map[string]http.Handler{"http://localstorage.volsim.dev": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	args := extenderv1.ExtenderArgs{}
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{NodeNames: args.NodeNames})
})}

// TestSelectedAgainIsFound has an extender that accepts every node.
func TestSelectedAgainIsFound(t *testing.T) {
	s, err := scenario.Parse("every node", fullNodeWorld)
	testcheck.NoError(t, err)
	s.OutcomesDiffer, s.Extenders = true, acceptsEveryNode
	report, err := explore.Search(t.Context(), s, explore.Config{Strategy: explore.Holds, Count: 20, Rule: "I62"})
	testcheck.NoError(t, err)
	if report.Failure == nil {
		t.Fatalf("not found in %d schedules", report.Schedules)
	}
}

// TestFullNodeLivelocks runs the built-in scenario of a full node with an extender that accepts every node: in
// the default order the full node is selected and removed from the claim again and again, and the other node is
// never tried. With our extender two selections are enough.
func TestFullNodeLivelocks(t *testing.T) {
	s, err := scenario.Find("full-node")
	testcheck.NoError(t, err)
	run := func() (story string, failure error) {
		r, err := s.Run(t.Context(), scenario.Options{StepsMax: 1000})
		testcheck.NoError(t, err)
		return scenario.Story(s, r), r.Failure
	}
	story, failure := run()
	if n := strings.Count(story, "selects node-"); failure != nil || n < 1 || n > 2 {
		t.Errorf("%d selections, %v:\n%s", n, failure, story)
	}
	s.Extenders = acceptsEveryNode
	for _, rule := range invariant.Rules() {
		if rule.ID != "I62" { // it forbids the second selection, before the world repeats itself
			s.Rules = append(s.Rules, rule.ID)
		}
	}
	story, failure = run()
	if livelock := (*scenario.Livelock)(nil); !errors.As(failure, &livelock) || scenario.RuleID(failure) != "L7" {
		t.Fatalf("failure %v", failure)
	}
	selected, removed := strings.Count(story, "selects node-1 for claim"), strings.Count(story, "selected-node cleared")
	if selected < 10 || removed < 10 || strings.Contains(story, "selects node-2") {
		t.Errorf("selected %d times, removed %d times:\n%s", selected, removed, story)
	}
}
