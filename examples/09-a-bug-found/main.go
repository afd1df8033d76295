// # Lesson 9: a bug, found and drawn
//
// In lesson 2 a conflict stopped a decision that was out of date. Some programs find conflicts a nuisance, and send their updates
// without saying which version they have read: "just write it". In most orders of events nothing bad comes of it. In some other
// one a claim loses its disk. This lesson looks for that one, and is for somebody who writes Go.
//
// A **schedule** is the ordinary order of events with some changes. One sort of change is a **hold**: somebody waits until nothing
// else can happen, or for some 60 steps.
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
// It stands between the PersistentVolume controller and the API server, and takes the `resourceVersion` out of each update of a
// volume. That is all.
func careless(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
	if volume, is := r.Body.(*corev1.PersistentVolume); is && r.Verb == "update" {
		volume.ResourceVersion = "" // no more conflicts!
	}
	return serve()
}

// withoutVersions puts it before all parts of a world.
var withoutVersions = cluster.Interceptors{Client: func(_ string, client *fake.Clientset) *fake.Clientset {
	return client.WithInterceptor(fake.InterceptorFunc(careless))
}}

// ## A small world
//
// Two claims and one disk. And for a while two controllers are active, as it happens when one has not noticed yet that it was
// replaced: `replicate` starts the second. I2 is the rule to watch: a volume does not pass from one claim to another without being
// free between.
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

// search runs the world under one schedule after the other, and looks at each step whether a rule is broken. It stops at the first
// schedule that breaks one, and takes out of it whatever is not needed for that.
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
// Two holds are all it takes. The admin waits, so the first controller is alone when it chooses the disk for wiki. It is held back
// before it writes that; the second one gives the disk to mail. The old write names no version, so it goes through: mail's claim
// is Bound, and its disk is reserved for wiki.
func found() {
	failure := search(withoutVersions).Failure
	fmt.Printf("found in schedule %d\n", failure.Schedules)
	notebook.Show(picture.SpaceTime(failure.Result.Trace.Records(), scenario.Picture(failure.Scenario, failure.Result)))
}

// ## A question
//
// The same world, the same search, and the versions back in the updates: will it find something? And if not, what has been proved?
func answer() {
	report := search(cluster.Interceptors{})
	fmt.Printf("%d schedules, %s; failure: %v\n", report.Schedules, report.Complete, report.Failure)
	fmt.Println("No. These rules hold in this small world with at most two holds; of three, of crashes and of quite other orders nothing is proved.")
}

func main() {
	found()
	answer()
}
