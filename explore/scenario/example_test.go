package scenario_test

import (
	"context"
	"fmt"
	"log"

	"github.com/volsim/volsim/explore/scenario"
)

// A small world that runs in the default order while every rule is checked.
func Example() {
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
	r, err := s.Run(context.Background(), scenario.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Failure, r.Outcome)
	fmt.Print(scenario.Story(s, r))
	// Output:
	// <nil> 1 claim Bound, 1 volume Bound
	//    3  admin creates volume disk of 1Gi (rv 7)
	//    6  pvcontroller marks volume disk Available (rv 8)
	//    9  alice creates claim default/data of 1Gi (rv 9)
	//   12  pvcontroller reserves volume disk for claim default/data (rv 10)
	//   14  pvcontroller marks volume disk Bound (rv 11)
	//   16  pvcontroller binds claim default/data to volume disk (rv 12)
	//   18  pvcontroller marks claim default/data Bound (rv 13)
	// no invariant violated; final state: 1 claim Bound, 1 volume Bound
}

// A built-in scenario.
func ExampleFind() {
	s, err := scenario.Find("claim-recreated")
	if err != nil {
		log.Fatal(err)
	}
	for _, act := range s.Users[0].Acts {
		fmt.Println(s.Users[0].Name, "does:", act)
	}
	// Output:
	// alice does: create volume disk-1 1Gi
	// alice does: create claim data 1Gi class=
	// alice does: wait claim data Bound
	// alice does: delete claim data
	// alice does: create claim data 1Gi class=
	// alice does: create volume disk-2 1Gi
	// alice does: wait claim data Bound
}

// Users act on custom resources, and wait for fields of them.
func ExampleParse_customResources() {
	s, err := scenario.Parse("widgets", `
components: none
definitions: ../../fake/crd/testdata/widgets.yaml
user alice
  apply
    apiVersion: shop.example.com/v1
    kind: Widget
    metadata: {name: web}
    spec: {size: 1}
  patch widget web spec.size=2 spec.note="two  words"
user bob
  wait widget web spec.size=2
  patch widget web status.ready=true
  delete widget web
`)
	if err != nil {
		log.Fatal(err)
	}
	r, err := s.Run(context.Background(), scenario.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(scenario.Story(s, r))
	// Output:
	//    3  alice creates widget default/web (rv 8)
	//    4  alice changes widget default/web: spec.note=two  words, spec.size 1 → 2 (rv 9)
	//    6  bob changes widget default/web: status.ready=true (rv 10)
	//    7  bob deletes widget default/web (rv 11)
	// no invariant violated; final state: empty
}
