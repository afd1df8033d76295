package simtest_test

import (
	"fmt"
	"testing"

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
