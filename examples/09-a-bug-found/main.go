// # Lesson 9: a bug, found and drawn
//
// In lesson 2 a conflict stopped an outdated decision. Some programs consider conflicts a nuisance.
// They send their updates without the version that they have read: "just write it". In most orders
// of events that does no harm. In some other order a claim loses its disk. This lesson searches for
// such an order. It is for readers who write Go.
//
// A **schedule** is the default order of events with some deviations. One kind of deviation is a
// **hold**: a task must wait until nothing else can happen, or for about 60 steps.
package main

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/examples/notebook"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim/trace/picture"
)

// ## A careless client
//
// This client sits between the PersistentVolume controller and the API server, and removes the
// `resourceVersion` from each update of a volume. That is all it does.
func careless(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
	if volume, is := r.Body.(*corev1.PersistentVolume); is && r.Verb == "update" {
		volume.ResourceVersion = "" // no more conflicts!
	}
	return serve()
}

// withoutVersions installs the client for all components of a world.
var withoutVersions = cluster.Interceptors{Client: func(_ string, client *fake.Clientset) *fake.Clientset {
	return client.WithInterceptor(fake.InterceptorFunc(careless))
}}

// ## A small world
//
// The world has two claims and one disk. (The lines that begin with `create` are short for manifests
// like those of lesson 1.) For a while two controllers are active, as it happens when an old leader
// has not noticed yet that it was replaced: `replicate` starts the second one. The rule to watch is
// I2: a volume that is rebound to another claim must be unbound in between.
var world = `
components: pvcontroller
rules: I1, I2, I3
user mail
  create volume disk 1Gi
  create claim mail 1Gi class=
user wiki
  create claim wiki 1Gi class=
user admin
  let replicate pvcontroller
`

// search runs the world under one schedule after another, and checks the rules at each step. It
// stops at the first schedule that violates a rule, and removes everything from it that the
// violation does not need.
func search(between cluster.Interceptors) explore.Report {
	s, err := scenario.Parse("two-controllers", world)
	if err != nil {
		log.Fatal(err)
	}
	s.Interceptors = between
	report, err := explore.Search(context.Background(), s, explore.Config{Strategy: explore.Holds, Depth: 2}) // at most two holds
	if err != nil {
		log.Fatal(err)
	}
	return report
}

// ## Found
//
// Two holds are enough. The admin waits, so the first controller is alone when it chooses the disk
// for wiki. It is held before it writes that choice. The second controller gives the disk to mail.
// The old write contains no version, so it succeeds. Now the claim of mail is Bound, but its disk
// is reserved for wiki.
func found() {
	failure := search(withoutVersions).Failure
	fmt.Printf("found in schedule %d\n", failure.Schedules)
	notebook.Show(picture.SpaceTime(failure.Result.Trace.Records(), scenario.Picture(failure.Scenario, failure.Result)))
}

// ## A question
//
// Take the same world and the same search, with the versions back in the updates. Will it find a
// violation? And if not, what is proved?
func question() {
	report := search(cluster.Interceptors{})
	notebook.Fold("What the search finds",
		fmt.Sprintf("%d schedules, %s; failure: %v", report.Schedules, report.Complete, report.Failure))
}

// <details><summary>What is proved?</summary>
//
// The rules hold in this small world with at most two holds. Nothing is proved about three holds,
// crashes or other orders.
//
// </details>
func answer() {}

func main() {
	found()
	question()
	answer()
}
