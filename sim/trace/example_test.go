package trace_test

import (
	"context"
	"fmt"
	"log"

	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/sim/trace"
)

// The writes of a world in words.
func ExampleDescribe() {
	s, err := scenario.Parse("bind", "components: pvcontroller\nuser alice\n  create volume disk 1Gi\n  create claim data 1Gi class=\n")
	if err != nil {
		log.Fatal(err)
	}
	r, err := s.Run(context.Background(), scenario.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, record := range r.Trace.Records() {
		if words, worth := trace.Describe(record); worth && record.Step > r.SetupEnd {
			fmt.Println(trace.Process(record.Task), words)
		}
	}
	// Output:
	// alice creates volume disk of 1Gi
	// pvcontroller marks volume disk Available
	// alice creates claim default/data of 1Gi
	// pvcontroller reserves volume disk for claim default/data
	// pvcontroller marks volume disk Bound
	// pvcontroller binds claim default/data to volume disk
	// pvcontroller marks claim default/data Bound
}

// The text of a log can be parsed.
func ExampleParse() {
	var kept trace.Log
	kept.Append(trace.Record{
		Task:    "pvcontroller/claims",
		Action:  trace.Action{Kind: trace.KindAPI, Verb: "update", Object: "persistentvolumeclaims/default/data"},
		Outcome: trace.Outcome{Detail: "rv=7"},
	})
	lines, err := trace.Parse(kept.Text())
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range lines {
		fmt.Println(l.Step, l.Task, "|", l.Action.Verb, trace.ObjectName(l.Action.Object), "|", l.Result)
	}
	// Output:
	// 1 pvcontroller/claims | update claim default/data | rv=7
}
