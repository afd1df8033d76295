package scheduler_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// writes returns what the scheduler has written, as "patch pods/db/status".
func (w *world) writes() []string {
	var writes []string
	for _, r := range w.Host.Log().Records() {
		if r.Kind == trace.KindAPI && trace.Process(r.Task) == "scheduler" && !strings.HasPrefix(r.Object, "events/") {
			text := r.Verb + " " + r.Object
			if apierrors.IsNotFound(r.Err) {
				text += ": not found"
			}
			writes = append(writes, text)
		}
	}
	return writes
}

// TestPodThatWaitsForVolumesIsNominated: while its claims are bound, the status of a pod names its node.
func TestPodThatWaitsForVolumesIsNominated(t *testing.T) {
	w := newWorld(t, nil)
	w.maker.idle = true
	w.create(newNode("node-a"), newPod("plain"), newClaim("data", "late"), newPod("db", "data"))
	w.Run()
	testcheck.Equal(t, "nominated", "node-a", w.pod("db").Status.NominatedNodeName)
	testcheck.Equal(t, "node", "", w.pod("db").Spec.NodeName)
	w.maker.idle = false
	testcheck.Must(w.User.CoreV1().PersistentVolumeClaims("default").Patch(context.Background(), "data", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})) // the maker looks again
	w.Run()
	testcheck.Equal(t, "nominated", "", w.pod("db").Status.NominatedNodeName)
	testcheck.Equal(t, "node", "node-a", w.pod("db").Spec.NodeName)
	testcheck.Equal(t, "writes", []string{
		"patch/status pods/default/db", "update persistentvolumeclaims/default/data",
		"create/binding pods/default/plain", // which waits for nothing
		"create/binding pods/default/db",
	}, w.writes())
}

// TestNominationEndsWithThePlacement: a pod whose node is given back has none in its status.
func TestNominationEndsWithThePlacement(t *testing.T) {
	w := newWorld(t, nil)
	w.maker.full["node-a"] = true
	w.create(newNode("node-a"), newClaim("data", "late"), newPod("db", "data"))
	testcheck.NoError(t, w.Host.Wait(context.Background(), "the pod to be rejected", func() bool {
		return len(w.pod("db").Status.Conditions) > 0
	}))
	testcheck.Equal(t, "nominated", "", w.pod("db").Status.NominatedNodeName)
	testcheck.Equal(t, "condition", "SchedulerError", w.pod("db").Status.Conditions[0].Reason)
}

// TestPodIsDeletedAroundItsNomination: a pod that is deleted before, while or after its node is written to its
// status leaves its claim to the next pod.
func TestPodIsDeletedAroundItsNomination(t *testing.T) {
	outcomes := map[bool]int{} // the write found the pod
	for seed := range uint64(200) {
		w := newWorld(t, sim.NewSeeded(seed))
		w.create(newNode("node-a"), newClaim("data", "late"), newPod("db", "data"))
		left := seed % 40
		testcheck.NoError(t, w.Host.Wait(context.Background(), "some steps", func() bool {
			left--
			return left == 0 || w.pod("db").Spec.NodeName != ""
		}))
		now := int64(0)
		testcheck.NoError(t, w.User.CoreV1().Pods("default").Delete(context.Background(), "db", metav1.DeleteOptions{GracePeriodSeconds: &now}))
		w.Run()
		writes := w.writes()
		if slices.Contains(writes, "patch/status pods/default/db") {
			outcomes[true]++
		} else if slices.Contains(writes, "patch/status pods/default/db: not found") {
			outcomes[false]++
		}
		w.create(newPod("next", "data"))
		w.Run()
		testcheck.Equal(t, "node", "node-a", w.pod("next").Spec.NodeName)
	}
	if len(outcomes) != 2 {
		t.Errorf("outcomes %v", outcomes)
	}
}
