package simtest_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/simtest"
)

// t is the *testing.T of a test.
var t testing.TB = &listener{}

// Every schedule in which one task is held: the claim is bound in all of them.
func ExampleComplete() {
	s := simtest.Parse(t, `
components: pvcontroller
user admin
  create volume disk 1Gi
user alice
  create claim data 1Gi class=
  wait claim data Bound
`)
	r := simtest.Complete(t, s, explore.Config{Strategy: explore.Holds, Depth: 1})
	fmt.Println(r.Complete)
	// Output: no failure with at most 1 hold
}

// Each claim and each volume is bound at most once, whatever the workload and the schedule.
func ExampleCheck() {
	world := scenario.Scenario{Components: []string{"pvcontroller", "pvcprotection", "pvprotection"}}
	budget := simtest.Budget{Holds: 1, Restarts: true, Schedules: 10}
	simtest.Check(t, world, budget, simtest.Claims(1, 2), simtest.Volumes(1, 2))
	fmt.Println(t.Failed())
	// Output: false
}

// An operator takes part with drawn settings, whatever the arguments of a user in Go.
func ExampleComponent() {
	world := scenario.Scenario{Components: []string{}}
	simtest.Check(t, world, simtest.Budget{Schedules: 5},
		simtest.Component("copier", settingsFor("configmaps"), copier),
		simtest.Script("alice", rapid.IntRange(1, 4), changes))
	fmt.Println(t.Failed())
	// Output: false
}

// A workload of the test's own draws what its components and scripts depend on with Draw.
func ExampleDraw() {
	operators := func(rt *rapid.T, d *simtest.Draft) {
		d.Component(copier(settings{For: "configmaps", Copies: simtest.Draw(rt, d, rapid.IntRange(1, 2), "copies")}))
		d.User("alice", "create claim data 1Gi class=")
	}
	simtest.Check(t, scenario.Scenario{Components: []string{}}, simtest.Budget{Schedules: 5}, operators)
	fmt.Println(t.Failed())
	// Output: false
}

// A search reports its coverage.
func ExampleSearch() {
	s := simtest.Parse(t, `
components: pvcontroller
user admin
  create volume disk 1Gi
user alice
  create claim data 1Gi class=
`)
	r := simtest.Search(t, s, explore.Config{Strategy: explore.Exhaustive, Depth: 1})
	fmt.Println(r.Complete)
	// Output: no failure in any order of events with at most 1 deviation
}
