package invariant

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim/trace"
)

func TestOrderOfCaches(t *testing.T) {
	delivered := func(w *opsWorld, task, verb, object, detail string) {
		w.note(task, trace.KindDeliver, verb, object, detail, nil)
	}
	const pods = "kubelet(node-1)/cache pods"
	tests := []struct {
		name string
		play func(w *opsWorld)
		want []string
	}{
		{"a list and later events", func(w *opsWorld) {
			delivered(w, pods, "LIST", "pods", "2 items rv=7")
			delivered(w, pods, "ADDED", "pods/default/a", "rv=8")
			delivered(w, pods, "MODIFIED", "pods/default/b", "rv=11")
			delivered(w, pods, "LIST", "pods", "2 items rv=11")
		}, nil},
		{"an earlier event", func(w *opsWorld) {
			delivered(w, pods, "ADDED", "pods/default/a", "rv=8")
			delivered(w, pods, "MODIFIED", "pods/default/a", "rv=7")
		}, []string{"I34: an object that returns to an older version, in the store or in a cache: kubelet(node-1): " +
			"its cache of pods went from revision 8 to 7, with MODIFIED of pods/default/a"}},
		{"an event twice", func(w *opsWorld) {
			delivered(w, pods, "LIST", "pods", "1 items rv=8")
			delivered(w, pods, "ADDED", "pods/default/a", "rv=8")
		}, []string{"from revision 8 to 8"}},
		{"an older list", func(w *opsWorld) {
			delivered(w, pods, "ADDED", "pods/default/a", "rv=8")
			delivered(w, pods, "LIST", "pods", "1 items rv=6")
		}, []string{"from revision 8 to 6, with LIST of pods"}},
		{"an older list that lacks a stored object", func(w *opsWorld) {
			delivered(w, pods, "ADDED", "pods/default/a", "rv="+w.addPod("a", "").ResourceVersion)
			delivered(w, pods, "LIST", "pods", "0 items rv=1")
		}, []string{"to 1, with LIST of pods, from before pods/default/a became what it is"}},
		{"another resource, and another component, lags", func(w *opsWorld) {
			delivered(w, pods, "ADDED", "pods/default/a", "rv=8")
			delivered(w, "kubelet(node-1)/cache nodes", "ADDED", "nodes/node-1", "rv=7")
			delivered(w, "scheduler/cache pods", "ADDED", "pods/default/a", "rv=6")
		}, nil},
		{"a component that restarts", func(w *opsWorld) {
			delivered(w, pods, "ADDED", "pods/default/a", "rv=8")
			w.event("crash", "kubelet(node-1)")
			delivered(w, pods, "LIST", "pods", "1 items rv=6")
		}, nil},
		{"metadata watchers: a resource that gets its own task continues", func(w *opsWorld) {
			delivered(w, "gc/metadata", "LIST", "*", "4 items rv=20")
			delivered(w, "gc/metadata", "ADDED", "csinodes/node-1", "rv=11")
			delivered(w, "gc/metadata csinodes", "ADDED", "csinodes/node-2", "rv=10")
		}, []string{"gc: its metadata of csinodes went from revision 11 to 10"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newOpsWorld(t, "I34")
			test.play(w)
			w.broken(test.want...)
		})
	}
}

// No client can violate the order of the store: the rule gets commits as a defective server would
// make them.
func TestOrderOfTheStore(t *testing.T) {
	pod := func(revision string) fake.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", ResourceVersion: revision}}
	}
	tests := []struct {
		name    string
		commits []fake.Commit
		want    []string
	}{
		{"created, changed, deleted and recreated", []fake.Commit{
			{Type: watch.Added, After: pod("5"), Revision: 5},
			{Type: watch.Modified, Before: pod("5"), After: pod("6"), Revision: 6},
			{Type: watch.Deleted, Before: pod("6"), After: pod("8"), Revision: 8},
			{Type: watch.Added, After: pod("9"), Revision: 9},
		}, nil},
		{"an earlier revision", []fake.Commit{
			{Type: watch.Added, After: pod("5"), Revision: 5},
			{Type: watch.Modified, Before: pod("5"), After: pod("4"), Revision: 4},
		}, []string{"pods/default/a was written as revision 4 after revision 5"}},
		{"another version than the commit's", []fake.Commit{
			{Type: watch.Added, After: pod("3"), Revision: 5},
		}, []string{"pods/default/a was stored with resourceVersion 3 at revision 5"}},
		{"a lost update", []fake.Commit{
			{Type: watch.Added, After: pod("5"), Revision: 5},
			{Type: watch.Modified, Before: pod("5"), After: pod("6"), Revision: 6},
			{Type: watch.Modified, Before: pod("5"), After: pod("7"), Revision: 7},
		}, []string{"pods/default/a was replaced at revision 7 by a writer that had not read revision 6, which was stored"}},
		{"made a second time", []fake.Commit{
			{Type: watch.Added, After: pod("5"), Revision: 5},
			{Type: watch.Added, After: pod("6"), Revision: 6},
		}, []string{"had not read revision 5"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newOpsWorld(t, "I34")
			for _, e := range test.commits {
				e.Resource = "pods"
				for _, told := range w.check.commits.of("pods") {
					told.commit(e)
				}
			}
			w.broken(test.want...)
		})
	}
}

func TestOrderOfARealStore(t *testing.T) {
	w := newOpsWorld(t, "I34")
	pod := w.addPod("a", "")
	w.setPhase(pod, corev1.PodRunning)
	w.deletePod(pod)
	w.addPod("a", "node-1")
	w.broken()
}
