package statefulset

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/workload"
)

func revisionFor(t *testing.T, set *appsv1.StatefulSet, number int64) *appsv1.ControllerRevision {
	t.Helper()
	r, err := newRevision(set, number)
	if err != nil {
		t.Fatal(err)
	}
	nameRevision(r, set.Name, 0)
	return r
}

func withImage(set *appsv1.StatefulSet, image string) *appsv1.StatefulSet {
	set = set.DeepCopy()
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: image}}
	return set
}

// TestChoose has the rows of upstream's TestStatefulSetControl_getSetRevisions and
// TestStatefulSetCompatibility.
func TestChoose(t *testing.T) {
	set, _ := setWith(false, false, 0)
	set0, set1 := withImage(set, "a"), withImage(set, "b")
	set2 := withImage(set1, "b")
	set2.Spec.Template.Labels = map[string]string{"new": "label"}
	rev0, rev1, rev2 := revisionFor(t, set0, 1), revisionFor(t, set1, 2), revisionFor(t, set2, 3)
	old := rev1.DeepCopy()
	old.Data.Raw = []byte(strings.Replace(string(old.Data.Raw), `"metadata":{`, `"metadata":{"creationTimestamp":null`, 1))
	if string(old.Data.Raw) == string(rev1.Data.Raw) {
		t.Fatalf("no older encoding of %s", rev1.Data.Raw)
	}
	for _, test := range []struct {
		name                    string
		past                    history
		set                     *appsv1.StatefulSet
		found, renumber, create *appsv1.ControllerRevision
		next                    int64
	}{
		{name: "creates initial revision", set: set0, create: rev0, next: 1},
		{name: "creates revision on update", past: history{rev0}, set: set1, create: rev1, next: 2},
		{name: "must not recreate a new revision of same set", past: history{rev0, rev1}, set: set1, found: rev1, next: 3},
		{name: "must rollback to a previous revision", past: history{rev0, rev1, rev2}, set: set1, renumber: rev1, next: 4},
		{name: "an older encoding", past: history{rev0, old}, set: set1, found: old, next: 3},
		{name: "an older encoding that is not the latest", past: history{old, rev0}, set: set1, create: rev1, next: 2},
		{name: "both encodings", past: history{old, rev1}, set: set1, found: rev1, next: 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.past.choose(test.set)
			if err != nil || got.found != test.found || got.renumber != test.renumber || (got.create == nil) != (test.create == nil) ||
				got.next != test.next {
				t.Fatalf("%+v, %v", got, err)
			}
			if got.create != nil && (string(got.create.Data.Raw) != string(test.create.Data.Raw) || got.create.Revision != got.next) {
				t.Errorf("creates %s with number %d", got.create.Data.Raw, got.create.Revision)
			}
		})
	}
}

// TestRevised: a revision restores the template and nothing else. It has the cases of upstream's
// TestCreateApplyRevision and TestRollingUpdateApplyRevision.
func TestRevised(t *testing.T) {
	set, _ := setWith(false, false, 0)
	old := withImage(set, "a")
	old.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "key", Value: "value"}}
	r := revisionFor(t, old, 1)
	changed := withImage(set, "b")
	changed.Spec.Replicas = ptr.To[int32](7)
	changed.Spec.Template.Labels = map[string]string{"new": "label"}
	got, err := revised(changed, r)
	if err != nil || *got.Spec.Replicas != 7 || got.Spec.Template.Spec.Containers[0].Image != "a" ||
		len(got.Spec.Template.Spec.Containers[0].Env) != 1 || len(got.Spec.Template.Labels) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if again := revisionFor(t, got, 1); string(again.Data.Raw) != string(r.Data.Raw) || again.Name != r.Name {
		t.Errorf("%s, want %s", again.Data.Raw, r.Data.Raw)
	}
}

// TestNameRevision: a collision changes the name, not the label. The name of a set is cut.
func TestNameRevision(t *testing.T) {
	set, _ := setWith(false, false, 0)
	r := revisionFor(t, set, 1)
	first, label := r.Name, r.Labels[hashLabel]
	nameRevision(r, set.Name, 1)
	if r.Name == first || r.Labels[hashLabel] != label || first != "set-"+label {
		t.Errorf("names %s, %s, label %s", first, r.Name, label)
	}
	nameRevision(r, strings.Repeat("a", 250), 0)
	if got := strings.Repeat("a", 223) + "-" + label; r.Name != got {
		t.Errorf("name %s", r.Name)
	}
}

// TestAvailable has the rows of upstream's TestStatefulSetAvailability, and the time until the next
// pod becomes available.
func TestAvailable(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ready := func(ago time.Duration) *corev1.Pod {
		pod := &corev1.Pod{}
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-ago)),
		}}
		return pod
	}
	unknown := ready(0)
	unknown.Status.Conditions[0].LastTransitionTime = metav1.Time{}
	unready := ready(time.Hour)
	unready.Status.Conditions[0].Status = corev1.ConditionFalse
	for _, test := range []struct {
		name    string
		pod     *corev1.Pod
		seconds int32
		want    bool
		next    time.Duration
	}{
		{"long enough", ready(time.Minute), 60, true, 0},
		{"not long enough", ready(50 * time.Second), 60, false, 10 * time.Second},
		{"no time", ready(0), 0, true, 0},
		{"not ready", unready, 0, false, 0},
		{"unknown time", unknown, 60, false, 0},
		{"unknown time, no minimum", unknown, 0, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := workload.IsAvailable(test.pod, test.seconds, now); got != test.want {
				t.Errorf("available: %v", got)
			}
			if got := workload.NextAvailable([]*corev1.Pod{test.pod, unready}, test.seconds, now); got != test.next {
				t.Errorf("next after %v, want %v", got, test.next)
			}
		})
	}
}
