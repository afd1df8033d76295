package simtest

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/sim"
)

// Schedules of equal objects end in the same state; any difference lets them diverge.
func TestEndsDifferUnlessTheWorkloadCannot(t *testing.T) {
	small := claim{Size: "1Gi", Modes: once, Life: stays}
	large := claim{Size: "2Gi", Modes: once, Life: stays}
	disk := volume{Size: "1Gi", Modes: once, Life: stays}
	for name, tt := range map[string]struct {
		draft Draft
		want  bool
	}{
		"alike":                 {Draft{claims: []claim{small, small}, volumes: []volume{disk, disk}}, false},
		"more claims":           {Draft{claims: []claim{small, small}, volumes: []volume{disk}}, false},
		"provisioned":           {Draft{claims: []claim{{Size: "1Gi", Class: "standard", Modes: once, Life: stays}}}, false},
		"a larger claim":        {Draft{claims: []claim{small, large}, volumes: []volume{disk, disk}}, true},
		"a claim that goes":     {Draft{claims: []claim{{Size: "1Gi", Modes: once, Life: goes}}, volumes: []volume{disk}}, true},
		"a reserved volume":     {Draft{claims: []claim{small}, volumes: []volume{{Size: "1Gi", Modes: once, For: 1, Life: stays}}}, true},
		"a claim for a volume":  {Draft{claims: []claim{{Size: "1Gi", Modes: once, Volume: 1, Life: stays}}, volumes: []volume{disk}}, true},
		"a volume with a class": {Draft{claims: []claim{small}, volumes: []volume{{Size: "1Gi", Class: "standard", Modes: once, Life: stays}}}, true},
		"a pod":                 {Draft{claims: []claim{small}, pods: []pod{{Claims: []int{1}, Life: stays}}}, true},
		"a user of the test":    {Draft{users: []scenario.User{{Name: "alice"}}}, true},
		"a part of the test":    {Draft{world: scenario.Scenario{Extra: []cluster.Component{{Name: "x"}}}}, true},
		"a world that says so":  {Draft{world: scenario.Scenario{OutcomesDiffer: true}}, true},
	} {
		if got := tt.draft.scenario().OutcomesDiffer; got != tt.want {
			t.Errorf("%s: ends differ: %t, want %t", name, got, tt.want)
		}
	}
}

// No pod keeps a claim indefinitely that will be created again.
func TestPodsOfAClaimThatComesAgainEnd(t *testing.T) {
	d := Draft{
		world:  scenario.Scenario{Components: []string{"pvcontroller", "pvcprotection"}},
		claims: []claim{{Size: "1Gi", Modes: once, Life: again}, {Size: "2Gi", Modes: many, Volume: 1, Life: stays}},
		pods:   []pod{{Claims: []int{2, 1, 2, 7}, Node: 1, Life: stays}, {Claims: []int{2}, Node: 2, Life: stays}},
	}
	const want = `components: pvcontroller, pvcprotection
ends: differ
user owner-c1
  create claim c1 1Gi class=
  delete claim c1
  create claim c1 1Gi class=
user owner-c2
  create claim c2 2Gi class= modes=ReadWriteMany
user tenant-p1
  create pod p1 c2 c1 on=node-1
  delete pod p1 now=true
user tenant-p2
  create pod p2 c2 on=node-2
`
	if got := d.scenario().String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Every draft is a scenario whose text parses, and needs no component that the world lacks.
func TestDraftsAreScenarios(t *testing.T) {
	for name, parts := range map[string][]string{
		"all": nil, "pvcontroller": {"pvcontroller"}, "protected": {"pvcontroller", "pvcprotection", "pvprotection"},
	} {
		rapid.Check(t, func(rt *rapid.T) {
			d := &Draft{world: scenario.Scenario{Components: parts}}
			for _, w := range []Workload{
				Classes(0, 2), Claims(0, 3), Volumes(0, 3), Pods(0, 3), Acts("alice", "create claim mine 1Gi class="),
			} {
				w(rt, d)
			}
			s := d.scenario()
			text := s.String()
			read, err := scenario.Parse("", text)
			if err != nil || read.String() != text {
				rt.Fatalf("%s: %v: written\n%s\nread\n%s", name, err, text, read)
			}
			if name == "pvcontroller" && (strings.Contains(text, "delete claim") || strings.Contains(text, "delete volume")) {
				rt.Fatalf("%s: something is deleted that cannot go:\n%s", name, text)
			}
			if name != "all" && strings.Contains(text, "class=standard") {
				rt.Fatalf("%s: a class of which nobody provisions:\n%s", name, text)
			}
		})
	}
}

func TestUserPanicsOnWhatIsNoAct(t *testing.T) {
	defer func() {
		if r := recover(); r == nil || !strings.Contains(r.(string), "fly") {
			t.Errorf("recovered %v", r)
		}
	}()
	new(Draft).User("alice", "fly away")
}

// Each set of faults is drawn now and then, and none of them is the simplest.
func TestSwarmDrawsEachSetOfFaults(t *testing.T) {
	specs, err := sim.ParseFaultSpecs("conflict(0.1), crash(pvcontroller, 1)")
	if err != nil {
		t.Fatal(err)
	}
	sets := rapid.Custom(func(rt *rapid.T) string { return swarm(rt, specs).String() })
	var drawn []string
	for i := range 100 {
		if s := sets.Example(i); !slices.Contains(drawn, s) {
			drawn = append(drawn, s)
		}
	}
	slices.Sort(drawn)
	want := []string{"", "conflict(0.1)", "conflict(0.1), crash(pvcontroller, 1)", "crash(pvcontroller, 1)"}
	if !slices.Equal(drawn, want) {
		t.Errorf("drawn %q, want %q", drawn, want)
	}
}
