package populator

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	_ "github.com/volsim/volsim/fake/crd" // serves the definition of Hello
	"github.com/volsim/volsim/invariant"
)

// World returns a world with the populator, in which alice creates a claim from a Hello, deletes it, and
// creates it again from another one.
func World(d Design) *scenario.Scenario {
	return &scenario.Scenario{
		Name: "populator-" + string(d), Nodes: 1, Definitions: []string{"hello.yaml"},
		Extra: []cluster.Component{Component(d)},
		// A populator takes a volume from one claim and gives it to another, which I2 and I3 forbid.
		Rules: []string{}, OwnRules: Rules, OutcomesDiffer: true,
		Users: []scenario.User{
			{Name: "container", Script: Container("second")},
			{Name: "alice", Script: recreate},
		},
	}
}

// recreate creates a claim from one source and, once its volume is filled, again from another source.
func recreate(ctx context.Context, w *cluster.Cluster) error {
	for _, text := range []string{"first", "second"} {
		err := w.Apply(ctx, "{apiVersion: hello.example.com/v1, kind: Hello, metadata: {name: "+text+"}, spec: {text: "+text+"}}")
		if err != nil {
			return err
		}
		if err := w.Apply(ctx, Claim(text)); err != nil {
			return err
		}
		if text == "second" {
			break
		}
		if err := w.Wait(ctx, "a filled volume", func() bool { return len(podsIn(w, corev1.PodSucceeded)) > 0 || isFilled(w, text) }); err != nil {
			return err
		}
		if err := w.Client().CoreV1().PersistentVolumeClaims("default").Delete(ctx, "data", metav1.DeleteOptions{}); err != nil {
			return err
		}
		if err := w.WaitForGone(ctx, "persistentvolumeclaims", "default", "data"); err != nil {
			return err
		}
	}
	return nil
}

// Claim returns the manifest of a claim that is filled from a Hello.
func Claim(hello string) string {
	return `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: default}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 64Mi}}
  dataSourceRef: {apiGroup: hello.example.com, kind: Hello, name: ` + hello + "}\n"
}

// podsIn returns the pods of the populator in a phase; of those that run, the ones whose container does
// not exit.
func podsIn(w *cluster.Cluster, phase corev1.PodPhase) []*corev1.Pod {
	var all []*corev1.Pod
	for _, obj := range w.Server().List("pods") {
		if pod := obj.(*corev1.Pod); pod.Namespace == Namespace && pod.Status.Phase == phase && pod.DeletionTimestamp == nil &&
			(phase != corev1.PodRunning || pod.Annotations[exitCodes] == "") {
			all = append(all, pod)
		}
	}
	return all
}

// exitCodes is the annotation that ends a container.
const exitCodes = "volsim.dev/exit-codes"

// isFilled reports whether the claim data of namespace default has its volume, and has a Hello as source.
func isFilled(w *cluster.Cluster, hello string) bool {
	obj, ok := w.Server().Get("persistentvolumeclaims", "default", "data")
	if !ok {
		return false
	}
	claim := obj.(*corev1.PersistentVolumeClaim)
	return claim.Status.Phase == corev1.ClaimBound && claim.Spec.DataSourceRef.Name == hello
}

// Container returns a user that does the work of the containers of the populator's pods: it writes the text
// and exits. It ends when the claim data of namespace default is filled from a Hello.
func Container(last string) func(context.Context, *cluster.Cluster) error {
	return func(ctx context.Context, w *cluster.Cluster) error { return runContainers(ctx, w, last) }
}

func runContainers(ctx context.Context, w *cluster.Cluster, last string) error {
	if err := w.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: "+Namespace+"}}"); err != nil {
		return err
	}
	for {
		done := false
		err := w.Wait(ctx, "a pod of the populator, or a bound claim", func() bool {
			done = isFilled(w, last)
			return done || len(podsIn(w, corev1.PodRunning)) > 0
		})
		if err != nil || done {
			return err
		}
		pod := podsIn(w, corev1.PodRunning)[0]
		if err := w.WriteFile(Namespace, pod.Name, pod.Spec.Volumes[0].Name, file, []byte(pod.Annotations[textKey])); err != nil {
			continue // the volume was unmounted meanwhile
		}
		_, err = w.Client().CoreV1().Pods(Namespace).Patch(ctx, pod.Name, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"`+exitCodes+`":"0"}}}`), metav1.PatchOptions{})
		if err != nil {
			continue // the pod was deleted meanwhile
		}
	}
}

// Rules are what a populator promises.
var Rules = []invariant.Rule{{
	ID: "filled", Forbids: "a claim gets a volume that is not filled, or filled from another source",
	Begin: func(w invariant.World) invariant.Checks {
		return invariant.Checks{Commit: func(e fake.Commit) error {
			if e.Resource != "persistentvolumes" || e.After == nil || e.After.GetAnnotations()[fromKey] == "" ||
				e.Before != nil && e.Before.GetAnnotations()[fromKey] == e.After.GetAnnotations()[fromKey] {
				return nil
			}
			return checkFilled(w, e.After.(*corev1.PersistentVolume))
		}}
	},
}}

// checkFilled returns an error unless the pod that filled a volume has succeeded, with the text of the
// source of the claim that gets the volume.
func checkFilled(w invariant.World, pv *corev1.PersistentVolume) error {
	ref := pv.Spec.ClaimRef
	for _, obj := range w.API.List("pods") {
		pod := obj.(*corev1.Pod)
		if pod.Labels[ownerLabel] != ref.Namespace+"."+ref.Name {
			continue
		}
		claim, ok := w.API.Get("persistentvolumeclaims", ref.Namespace, ref.Name)
		if !ok {
			return nil
		}
		want := claim.(*corev1.PersistentVolumeClaim).Spec.DataSourceRef.Name // in this world, also the text
		if pod.Status.Phase == corev1.PodSucceeded && pod.Annotations[textKey] == want {
			return nil
		}
		return fmt.Errorf("claim %s/%s, whose source is hello/%s, gets volume %s, which pod %s fills with %q and which is %s",
			ref.Namespace, ref.Name, want, pv.Name, pod.Name, pod.Annotations[textKey], pod.Status.Phase)
	}
	return fmt.Errorf("claim %s/%s gets volume %s, which no pod has filled", ref.Namespace, ref.Name, pv.Name)
}
