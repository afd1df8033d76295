// # Lesson 10: test your own operator
//
// The components that you have met so far are ordinary controllers, and yours can run next to them.
// Here is a small one. It labels each volume with the name of its claim, so that `kubectl get pv -l
// claim=data` finds it. It looks correct, and in the default order of events it is. Yet it can make
// Alice lose her data.
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
		return nil // not reserved, or already labeled
	}
	metav1.SetMetaDataLabel(&volume.ObjectMeta, "claim", volume.Spec.ClaimRef.Name)
	if !careful {
		volume.ResourceVersion = "" // <- no more conflicts!
	}
	_, err = volumes.Update(ctx, volume, metav1.UpdateOptions{})
	return err
}

// labeler turns it into a component of a world. It has the shape of controller-runtime's
// reconcilers, and a client built from a `rest.Config`, like yours. As in controller-runtime, the
// client reads from the caches of its process, which learn of changes late, and writes to the API
// server. The function is called for each volume that is created, changed or deleted, and again
// after an error.
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
// Alice deletes her claim but wants to keep the data. A deleted claim leaves a Released volume, and
// its reclaim policy decides: Delete removes the disk, Retain keeps it. So she first sets the
// policy of her volume to Retain.
var alice = `
components: pvcontroller, pvcprotection, pvprotection, provisioner
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
// Each schedule holds one task at one step. In one of them Alice loses her data. No rule such as I2
// is violated, but the run does not end like the default order, with one Released volume.
//
// The reason: an update replaces everything except the status, with the values that were read
// earlier. So the volume stays Released, and the late write of the labeler restores its old policy:
// Delete.
func found() {
	failure := search(false).Failure
	fmt.Printf("found in schedule %d\n", failure.Schedules)
	notebook.Show(picture.SpaceTime(failure.Result.Trace.Records(), scenario.Picture(failure.Scenario, failure.Result)))
}

// ## A question
//
// What must change in the operator, and how sure can you be then? Think first, then open the result of
// the same search with the changed operator.
func question() {
	report := search(true) // without the marked line
	notebook.Fold("What the search finds",
		fmt.Sprintf("%d schedules, %s; failure: %v", report.Schedules, report.Complete, report.Failure))
}

// <details><summary>How sure can you be?</summary>
//
// Without the marked line the late write gets a conflict, and the labeler is called again. This is
// certain for one hold in Alice's small world. `Depth: 2` tries two holds. `simtest.Explore` also
// varies what Alice does.
//
// </details>
func answer() {}

func main() {
	found()
	question()
	answer()
}
