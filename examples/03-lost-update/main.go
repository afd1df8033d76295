// Command 03-lost-update finds out what is wrong with a reconciler of ten lines. It puts the name of the claim on each
// volume as a label, and writes back what it has read without saying which version that was. Alice wants to keep her data:
// she sets her volume to Retain, and deletes the claim. Nearly always all goes well.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/scenario"
	"github.com/volsim/volsim/trace"
)

const story = `
parts: pvcontroller, pvcprotection, pvprotection, provisioner
user alice
  create claim data 1Gi
  wait claim data Bound
  set claim data reclaim=Retain
  delete claim data
`

// careless labels a volume, and writes it back whatever happened to it meanwhile.
func careless(ctx context.Context, volumes corev1.PersistentVolumeInterface, name string) error {
	volume, err := volumes.Get(ctx, name, metav1.GetOptions{})
	if err != nil || volume.Spec.ClaimRef == nil || volume.Labels["claim"] != "" {
		return err
	}
	metav1.SetMetaDataLabel(&volume.ObjectMeta, "claim", volume.Spec.ClaimRef.Name)
	volume.ResourceVersion = "" // no more conflicts!
	_, err = volumes.Update(ctx, volume, metav1.UpdateOptions{})
	return err
}

// careful does the same, but for one line.
func careful(ctx context.Context, volumes corev1.PersistentVolumeInterface, name string) error {
	volume, err := volumes.Get(ctx, name, metav1.GetOptions{})
	if err != nil || volume.Spec.ClaimRef == nil || volume.Labels["claim"] != "" {
		return err
	}
	metav1.SetMetaDataLabel(&volume.ObjectMeta, "claim", volume.Spec.ClaimRef.Name)
	_, err = volumes.Update(ctx, volume, metav1.UpdateOptions{})
	return err
}

type label func(ctx context.Context, volumes corev1.PersistentVolumeInterface, name string) error

// labeler makes either a part of a world. Its client is made from a rest.Config, as any other: in a stepped world it is
// suspended at each request.
func labeler(label label) cluster.Part {
	return cluster.Reconciler(cluster.ReconcilerConfig{
		Name: "labeler", For: "persistentvolumes",
		Build: func(p cluster.Process) (cluster.Reconcile, error) {
			client, err := corev1.NewForConfig(p.RESTConfig())
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
				err := label(ctx, client.PersistentVolumes(), key.Name)
				if apierrors.IsNotFound(err) {
					return 0, nil
				}
				return 0, err
			}, nil
		},
	})
}

func main() {
	if err := run(context.Background(), os.Stdout, 2); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run looks for an order of events in which alice loses her data, with at most so many strands held back.
func run(ctx context.Context, out io.Writer, holds int) error {
	s, err := scenario.Parse("lost-update", story)
	if err != nil {
		return err
	}
	for _, version := range []struct {
		name  string
		label label
	}{{"careless", careless}, {"careful", careful}} {
		s.Extra = []cluster.Part{labeler(version.label)}
		report, err := explore.Search(ctx, s, explore.Config{Strategy: explore.Holds, Depth: holds})
		if err != nil {
			return err
		}
		if report.Failure == nil {
			fmt.Fprintf(out, "The %s reconciler: %s, in %d schedules.\n", version.name, report.Complete, report.Schedules)
			continue
		}
		fmt.Fprintf(out, "The %s reconciler, in schedule %d: %v.\n", version.name, report.Failure.Schedules, report.Failure)
		fmt.Fprintln(out, "It takes this, and nothing else:", report.Failure.Scenario.Schedule)
		tell(out, report.Failure.Result)
		fmt.Fprintln(out)
	}
	return nil
}

// tell tells what happened from where the reconciler read the volume.
func tell(out io.Writer, r *scenario.Result) {
	begun := false
	for _, record := range r.Trace.Records()[r.Began:] {
		sentence, worth := trace.Tell(record)
		if record.Kind == trace.KindAPI && record.Verb == "get" && strings.HasPrefix(record.Actor, "labeler/") && !record.Failed() {
			sentence, worth, begun = "reads "+record.Object+" at "+record.Result(), true, true
		}
		if worth && begun {
			fmt.Fprintln(out, " ", record.Actor, sentence)
		}
	}
}
