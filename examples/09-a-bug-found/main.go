// # Lesson 9: a bug, found and drawn
//
// In lesson 2 a conflict kept two decisions apart. Some programs find conflicts a nuisance, and send their updates without
// saying which version they have read: "just write it". In most orders of events nothing bad comes of it. Somewhere among the
// millions of others two claims get one disk. This lesson looks for that one.
//
// It is for somebody who writes Go. A **schedule** is one order of events; a **hold** in it keeps somebody back for a while.
package main

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/notebook"
	"github.com/volsim/volsim/scenario"
	"github.com/volsim/volsim/trace/picture"
)

// ## A careless client
//
// It stands between the PersistentVolume controller and the API server, and takes the `resourceVersion` out of each update of a
// volume. That is all.
func careless(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
	if volume, is := r.Body.(*corev1.PersistentVolume); is && r.Verb == "update" {
		volume.ResourceVersion = "" // no more conflicts!
	}
	return serve()
}

var withoutVersions = cluster.Between{Client: func(_ string, client *fake.Clientset) *fake.Clientset {
	return client.Intercepted(fake.InterceptorFunc(careless))
}}

// ## A small world
//
// Two claims and one disk. And for a while two controllers are active, as it happens when one has lost its lease (which says
// who is active) and has not noticed yet.
var world = `
parts: pvcontroller
rules: I1, I2, I3
user mail
  create volume disk 1Gi
  create claim mail 1Gi class=
user wiki
  create claim wiki 1Gi class=
user admin
  let replicate pvcontroller
`

// search runs the world under one order of events after the other, looks at each step whether a rule is broken (here those that
// say whose a volume is: I1 to I3 of package invariant), and takes out of the first order that breaks one whatever it does not need.
func search(between cluster.Between) explore.Report {
	s, err := scenario.Parse("two-controllers", world)
	if err != nil {
		log.Fatal(err)
	}
	s.Between = between
	report, err := explore.Search(context.Background(), s, explore.Config{Strategy: explore.Holds, Depth: 2})
	if err != nil {
		log.Fatal(err)
	}
	return report
}

// ## Found
//
// This is all it takes, told as a story. At its end mail's claim is Bound, but its disk is reserved for wiki, whose pod may write
// over mail's files.
func found() {
	failure := search(withoutVersions).Failure
	fmt.Printf("found in schedule %d\n", failure.Schedules)
	fmt.Print(scenario.Story(failure.Scenario, failure.Result))
}

// ## Drawn
func drawn() {
	failure := search(withoutVersions).Failure
	notebook.Show(picture.SpaceTime(failure.Result.Trace.Records(), scenario.Picture(failure.Scenario, failure.Result)))
}

// ## A question
//
// The same world, the same search, and the versions back in the updates: will it still find something? And if not, what has been
// proved?
func answer() {
	report := search(cluster.Between{})
	fmt.Printf("%d schedules, %s; failure: %v\n", report.Schedules, report.Complete, report.Failure)
	fmt.Println("Nothing, in any order of events with at most two holds. Of those with three nothing is proved.")
}

func main() {
	found()
	drawn()
	answer()
}
