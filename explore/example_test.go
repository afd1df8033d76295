package explore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
)

// This search tries every order of events in which one task is held once.
func ExampleSearch() {
	s, err := scenario.Parse("bind", `
components: pvcontroller
user admin
  create volume disk 1Gi
user alice
  create claim data 1Gi class=
  wait claim data Bound
`)
	if err != nil {
		log.Fatal(err)
	}
	report, err := explore.Search(context.Background(), s, explore.Config{Strategy: explore.Holds})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Complete)
	// Output:
	// no failure with at most 1 hold
}

// A failure is a scenario that fails again in each run.
func ExampleSearch_failure() {
	s, err := scenario.Parse("late",
		"components: pvcontroller\nuser alice\n  create claim data 1Gi class=\n  wait claim data Bound\n")
	if err != nil {
		log.Fatal(err)
	}
	report, err := explore.Search(context.Background(), s, explore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Failure)
	fmt.Print(report.Failure.Scenario)
	// Output:
	// at rest, but pending: alice waits for claim data to be Bound
	// components: pvcontroller
	// user alice
	//   create claim data 1Gi class=
	//   wait claim data Bound
	// violates: L7
}
