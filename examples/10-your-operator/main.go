// # Lesson 10: test your own operator
//
// The parts of the world that you have met are ordinary controllers, and yours can stand among them. Here is a small one: it puts
// the name of the claim on each volume, as a label, so that `kubectl get pv -l claim=data` finds it. It looks right, and in
// the ordinary order of events it is. Yet it can make Alice lose her data.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/examples/notebook"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/sim/trace/picture"
)

// ## The operator
//
// label does the work. Its author was tired of conflicts, hence the line marked with an arrow.
func label(ctx context.Context, volumes typedv1.PersistentVolumeInterface, name string, careful bool) error {
	volume, err := volumes.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	if volume.Spec.ClaimRef == nil || volume.Labels["claim"] != "" {
		return nil // it is reserved for nobody, or labelled already
	}
	metav1.SetMetaDataLabel(&volume.ObjectMeta, "claim", volume.Spec.ClaimRef.Name)
	if !careful {
		volume.ResourceVersion = "" // <- no more conflicts!
	}
	_, err = volumes.Update(ctx, volume, metav1.UpdateOptions{})
	return err
}

// labeler makes it a part of a world, in the shape of controller-runtime's reconcilers and with a client from a `rest.Config`, as
// yours has. It is called for each volume that comes, changes or goes, and again after an error.
func labeler(careful bool) cluster.Component {
	return cluster.Reconciler(cluster.ReconcilerConfig{
		Name: "labeler", For: "persistentvolumes",
		Build: func(p cluster.ComponentContext) (cluster.Reconcile, error) {
			client, err := typedv1.NewForConfig(p.RESTConfig())
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
// She wants to keep her data when the claim goes. The volume is Released then, and its reclaim policy decides: Delete removes the
// disk, Retain keeps it. So she first sets her claim's volume to Retain.
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
	s.Extra = []cluster.Component{labeler(careful)}
	report, err := explore.Search(context.Background(), s, explore.Config{Strategy: explore.Holds, Depth: 1})
	if err != nil {
		log.Fatal(err)
	}
	return report
}

// ## The search
//
// Each schedule holds one actor back, at one step. One of them is the bad one: no rule such as I2 is broken, but it does not end as
// the schedule without holds does, with one volume Released. An update writes all but the status as it was read. So the volume stays
// Released, and the label's late write puts its old policy back: Delete.
func found() {
	failure := search(false).Failure
	fmt.Printf("found in schedule %d\n", failure.Schedules)
	notebook.Show(picture.SpaceTime(failure.Result.Trace.Records(), scenario.Picture(failure.Scenario, failure.Result)))
}

// ## A question
//
// What has to change, and how sure can you be then?
func answer() {
	report := search(true)
	fmt.Printf("%d schedules, %s; failure: %v\n", report.Schedules, report.Complete, report.Failure)
	fmt.Println("Without the marked line the late write meets a conflict, and the labeler is called again.")
	fmt.Println("That is sure for one hold in Alice's small world. Depth: 2 tries two; simtest.Explore makes up what Alice does, too.")
}

func main() {
	found()
	answer()
}
