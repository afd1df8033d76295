// # Lesson 10: test your own operator
//
// The parts of the world that you have met are ordinary controllers, and yours can stand among them. Here is one of ten lines:
// it puts the name of the claim on each volume, as a label, so that one finds it again. It looks right, it passes its unit
// tests, and it seems to work on every cluster. Yet it can make Alice lose her data.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/notebook"
	"github.com/volsim/volsim/scenario"
	"github.com/volsim/volsim/trace/picture"
)

// ## The operator
//
// It has the shape of controller-runtime's reconcilers, and its client is made from a `rest.Config`, as yours is. Its author was
// tired of conflicts, hence the line marked with an arrow.
func label(ctx context.Context, volumes corev1.PersistentVolumeInterface, name string, careful bool) error {
	volume, err := volumes.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (volume.Spec.ClaimRef == nil || volume.Labels["claim"] != "") {
		return nil
	} else if err != nil {
		return err
	}
	metav1.SetMetaDataLabel(&volume.ObjectMeta, "claim", volume.Spec.ClaimRef.Name)
	if !careful {
		volume.ResourceVersion = "" // <- no more conflicts!
	}
	_, err = volumes.Update(ctx, volume, metav1.UpdateOptions{})
	return err
}

// labeler makes it a part of a world: it is called for each volume that comes or changes.
func labeler(careful bool) cluster.Part {
	return cluster.Reconciler(cluster.ReconcilerConfig{
		Name: "labeler", For: "persistentvolumes",
		Build: func(p cluster.Process) (cluster.Reconcile, error) {
			client, err := corev1.NewForConfig(p.RESTConfig())
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
				return 0, label(ctx, client.PersistentVolumes(), key.Name, careful)
			}, nil
		},
	})
}

// ## What Alice does
//
// She wants to keep her data when the claim goes. What then becomes of the disk is for the volume's reclaim policy to say: Delete,
// or Retain (the volume is Released then, and its disk stays). So she sets it to Retain first.
var alice = `
parts: pvcontroller, pvcprotection, pvprotection, provisioner
user alice
  create claim data 1Gi
  wait claim data Bound
  set claim data reclaim=Retain
  delete claim data
`

func search(careful bool) explore.Report {
	s, err := scenario.Parse("alice", alice)
	if err != nil {
		log.Fatal(err)
	}
	s.Extra = []cluster.Part{labeler(careful)}
	report, err := explore.Search(context.Background(), s, explore.Config{Strategy: explore.Holds, Depth: 1})
	if err != nil {
		log.Fatal(err)
	}
	return report
}

// ## The search
//
// Somebody is held back for a while: each of the parts, at each of its steps. One of these orders of events is the bad one: it does
// not end as the ordinary course does, with one volume Released. An update writes the whole object as it was read; so with the label
// goes back the old policy, Delete.
func found() {
	failure := search(false).Failure
	fmt.Printf("found in schedule %d\n", failure.Schedules)
	fmt.Print(scenario.Story(failure.Scenario, failure.Result))
}

// ## Drawn
func drawn() {
	failure := search(false).Failure
	notebook.Show(picture.SpaceTime(failure.Result.Trace.Records(), scenario.Picture(failure.Scenario, failure.Result)))
}

// ## A question
//
// What has to change, and how sure can you be then? (In your own tests the search is `simtest.Explore`, or `volsim explore` for hours
// and on many machines.)
func answer() {
	report := search(true)
	fmt.Println("Without the marked line the late write meets a conflict, and the labeler reads again.")
	fmt.Printf("%d schedules, %s; failure: %v\n", report.Schedules, report.Complete, report.Failure)
}

func main() {
	found()
	drawn()
	answer()
}
