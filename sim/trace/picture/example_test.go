package picture_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/sim/trace/picture"
)

// A volume and a claim in a world whose only controller is the PersistentVolume controller.
func ExampleSpaceTime() {
	s, err := scenario.Parse("bind", "components: pvcontroller\nuser alice\n  create volume disk 1Gi\n  create claim data 1Gi class=\n")
	if err != nil {
		log.Fatal(err)
	}
	r, err := s.Run(context.Background(), scenario.Options{})
	if err != nil {
		log.Fatal(err)
	}
	d := picture.SpaceTime(r.Trace.Records(), picture.Options{Title: "A claim finds its volume", After: r.SetupEnd})
	fmt.Print(d.Text()) // d.SVG() is the same picture for a web page
	// Output:
	// A claim finds its volume
	//   alice
	//   │        API server
	//   │        │        pvcontroller
	//   o───────>7        │       2  alice creates volume disk of 1Gi
	//   │        8  <─────o       5  pvcontroller marks volume disk Available
	//   o───────>9        │       8  alice creates claim default/data of 1Gi
	//   │        10 <─────o      11  pvcontroller reserves volume disk for claim default/data
	//   │        11 <─────o      13  pvcontroller marks volume disk Bound
	//   │        12 <─────o      15  pvcontroller binds claim default/data to volume disk
	//   │        13 <─────o      17  pvcontroller marks claim default/data Bound
	// o acts; left: resourceVersions, right: steps
}

func ExampleStates() {
	s, err := scenario.Find("one-pod-life")
	if err != nil {
		log.Fatal(err)
	}
	r, err := s.Run(context.Background(), scenario.Options{})
	if err != nil {
		log.Fatal(err)
	}
	text := picture.States(r.Trace.Records(), picture.Options{After: r.SetupEnd}).Text()
	claim, _, _ := strings.Cut(text, "Volume")
	fmt.Print(claim)
	// Output:
	// State transitions
	// Claim default/data
	//   absent     ──  1 ──> Pending
	//   Pending    ──  4 ──> Bound
	//   Bound      ── 20 ──> deleting
	//   deleting   ── 21 ──> deleted
}
