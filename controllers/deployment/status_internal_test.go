package deployment

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/workload"
)

func setStatus(version int, replicas, has, available int32) *appsv1.ReplicaSet {
	s := set(version, replicas, available)
	s.Status.Replicas = has
	return s
}

func progressing(status corev1.ConditionStatus, reason string) []appsv1.DeploymentCondition {
	return []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentProgressing, Status: status, Reason: reason,
		LastUpdateTime: metav1.NewTime(start), LastTransitionTime: metav1.NewTime(start),
	}}
}

// TestRolloutStatus: the condition Progressing, an hour after it was last written.
func TestRolloutStatus(t *testing.T) {
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	type sets = []*appsv1.ReplicaSet
	for _, test := range []struct {
		name             string
		deadline         *int32
		replicas, before int32 // before: all counts of the earlier status
		conditions       []appsv1.DeploymentCondition
		old              sets
		newest           *appsv1.ReplicaSet
		want             string // status, reason, whether the times changed
	}{
		{
			"General: remove Progressing condition and do not estimate progress if deployment has no Progress Deadline",
			nil, 3, 2, progressing(yes, "ReplicaSetUpdated"),
			sets{setStatus(1, 0, 1, 1)},
			setStatus(2, 3, 2, 2), "",
		},
		{
			"General: do not estimate progress of deployment with only one active ReplicaSet",
			ptr.To[int32](60), 3, 3, progressing(yes, completed), nil, setStatus(2, 3, 3, 3), "True NewReplicaSetAvailable",
		},
		{
			"DeploymentProgressing: dont update lastTransitionTime if deployment already has Progressing=True",
			ptr.To[int32](60), 3, 1, progressing(yes, "ReplicaSetUpdated"),
			sets{setStatus(1, 0, 1, 1)},
			setStatus(2, 3, 2, 2),
			"True ReplicaSetUpdated updated",
		},
		{
			"DeploymentProgressing: update everything if deployment has Progressing=False",
			ptr.To[int32](60), 3, 1, progressing(no, timedOut),
			sets{setStatus(1, 0, 1, 1)},
			setStatus(2, 3, 2, 2),
			"True ReplicaSetUpdated updated transition",
		},
		{
			"DeploymentProgressing: create Progressing condition if it does not exist",
			ptr.To[int32](60), 3, 1, nil,
			sets{setStatus(1, 0, 1, 1)},
			setStatus(2, 3, 2, 2),
			"True ReplicaSetUpdated updated transition",
		},
		{
			"DeploymentComplete: dont update lastTransitionTime if deployment already has Progressing=True",
			ptr.To[int32](60), 3, 3, progressing(yes, "ReplicaSetUpdated"), nil, setStatus(2, 3, 3, 3),
			"True NewReplicaSetAvailable updated",
		},
		{
			"DeploymentComplete: update everything if deployment has Progressing=False",
			ptr.To[int32](60), 3, 3, progressing(no, timedOut), nil, setStatus(2, 3, 3, 3),
			"True NewReplicaSetAvailable updated transition",
		},
		{
			"DeploymentComplete: create Progressing condition if it does not exist",
			ptr.To[int32](60), 3, 3, nil, nil, setStatus(2, 3, 3, 3), "True NewReplicaSetAvailable updated transition",
		},
		{
			"DeploymentComplete: defend against NPE when newRS=nil",
			ptr.To[int32](60), 0, 3, progressing(yes, "ReplicaSetUpdated"),
			sets{setStatus(1, 0, 0, 0)},
			nil,
			"True NewReplicaSetAvailable updated",
		},
		{
			"DeploymentTimedOut: update status if rollout exceeds Progress Deadline",
			ptr.To[int32](60), 3, 2, progressing(yes, "ReplicaSetUpdated"), nil, setStatus(2, 3, 2, 2),
			"False ProgressDeadlineExceeded updated transition",
		},
		{
			"DeploymentTimedOut: do not update status if deployment has existing timedOut condition",
			ptr.To[int32](60), 3, 2, progressing(no, timedOut), nil, setStatus(2, 3, 2, 2), "False ProgressDeadlineExceeded",
		},
		{
			"within the deadline",
			ptr.To[int32](4000), 3, 2, progressing(yes, "ReplicaSetUpdated"), nil, setStatus(2, 3, 2, 2), "True ReplicaSetUpdated",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &rollout{
				d:      &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &test.replicas, ProgressDeadlineSeconds: test.deadline}},
				newest: test.newest, old: test.old, now: metav1.NewTime(start.Add(time.Hour)),
			}
			r.d.Status = appsv1.DeploymentStatus{
				Replicas: test.before, UpdatedReplicas: test.before, AvailableReplicas: test.before, Conditions: test.conditions,
			}
			got := ""
			if c := conditionOf(r.rolloutStatus(), appsv1.DeploymentProgressing); c != nil {
				got = fmt.Sprint(c.Status, " ", c.Reason)
				if c.LastUpdateTime.Equal(&r.now) {
					got += " updated"
				}
				if c.LastTransitionTime.Equal(&r.now) {
					got += " transition"
				}
			}
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestReplicaFailure: the failure of the new set is reported, or that of an old one.
func TestReplicaFailure(t *testing.T) {
	failing := func(version int, message string) *appsv1.ReplicaSet {
		s := set(version, 1, 0)
		s.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Message: message}}
		return s
	}
	r := &rollout{d: rolling(1, "", ""), old: []*appsv1.ReplicaSet{failing(1, "old")}, newest: failing(2, "new")}
	for _, want := range []string{"new", "old", ""} {
		c := conditionOf(r.rolloutStatus(), appsv1.DeploymentReplicaFailure)
		if (c == nil) != (want == "") || c != nil && c.Message != want {
			t.Errorf("%+v, want %q", c, want)
		}
		if want == "new" {
			r.newest = set(2, 1, 0)
		} else {
			r.old = nil
		}
	}
}

// TestNewStatus: the counts, and the condition Available.
func TestNewStatus(t *testing.T) {
	r := &rollout{d: rolling(3, "0", "1"), old: []*appsv1.ReplicaSet{setStatus(1, 1, 2, 1)}, newest: setStatus(2, 2, 1, 1)}
	r.old[0].Status.ReadyReplicas = 1
	r.old[0].Status.TerminatingReplicas = ptr.To[int32](4)
	s := r.newStatus()
	got := fmt.Sprint(s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas, s.UnavailableReplicas, *s.TerminatingReplicas)
	if c := s.Conditions[0]; got != "3 1 1 2 1 4" || c.Status != corev1.ConditionTrue {
		t.Errorf("%s, %+v", got, c)
	}
	r.newest.Status.AvailableReplicas, r.newest.Status.ObservedGeneration = 0, 1
	s = r.newStatus()
	if c := s.Conditions[0]; c.Reason != "MinimumReplicasUnavailable" || s.TerminatingReplicas != nil {
		t.Errorf("%+v", s)
	}
}

// TestIsComplete: which counts make a rollout complete.
func TestIsComplete(t *testing.T) {
	for _, test := range []struct {
		name                                   string
		replicas, existing, updated, available int32
		want                                   bool
	}{
		{"not complete: min but not all pods become available", 5, 5, 5, 4, false},
		{"not complete: min availability is not honored", 5, 5, 5, 3, false},
		{"complete", 5, 5, 5, 5, true},
		{"not complete: all pods are available but not updated", 5, 5, 4, 5, false},
		{"not complete: still running old pods", 1, 2, 1, 1, false},
		{"not complete: one replica deployment never comes up", 1, 1, 1, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := rolling(test.replicas, "", "")
			status := appsv1.DeploymentStatus{
				Replicas: test.existing, UpdatedReplicas: test.updated, AvailableReplicas: test.available,
			}
			if got := isComplete(d, &status); got != test.want {
				t.Errorf("%v", got)
			}
			if d.Generation = 1; isComplete(d, &status) {
				t.Error("a change has not been observed")
			}
		})
	}
}

// TestHasProgressed: which counts are progress. They are of all, updated, ready and available pods.
func TestHasProgressed(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, after [4]int32
		want          bool
	}{
		{"progressing: updated pods", [4]int32{10, 4, 4, 4}, [4]int32{10, 6, 4, 4}, true},
		{"not progressing", [4]int32{10, 4, 4, 4}, [4]int32{10, 4, 4, 4}, false},
		{"progressing: old pods removed", [4]int32{10, 4, 6, 6}, [4]int32{8, 4, 6, 6}, true},
		{"not progressing: less new pods", [4]int32{10, 7, 3, 3}, [4]int32{10, 6, 3, 3}, false},
		{"progressing: less overall but more new pods", [4]int32{10, 4, 7, 7}, [4]int32{8, 8, 5, 5}, true},
		{"progressing: more ready pods", [4]int32{10, 10, 9, 8}, [4]int32{10, 10, 10, 8}, true},
		{"progressing: more available pods", [4]int32{10, 10, 10, 9}, [4]int32{10, 10, 10, 10}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			status := func(n [4]int32) *appsv1.DeploymentStatus {
				return &appsv1.DeploymentStatus{Replicas: n[0], UpdatedReplicas: n[1], ReadyReplicas: n[2], AvailableReplicas: n[3]}
			}
			if got := hasProgressed(status(test.before), status(test.after)); got != test.want {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestHasTimedOut: 80 seconds after the start.
func TestHasTimedOut(t *testing.T) {
	now := start.Add(80 * time.Second)
	for _, test := range []struct {
		name     string
		deadline *int32
		reason   string
		since    time.Duration
		want     bool
	}{
		{"nil progressDeadlineSeconds specified - no timeout", nil, "", 69 * time.Second, false},
		{"infinite progressDeadlineSeconds specified - no timeout", ptr.To[int32](math.MaxInt32), "", 69 * time.Second, false},
		{"progressDeadlineSeconds: 10s, now - started => 00:01:20 - 00:01:09 => 11s", ptr.To[int32](10), "", 69 * time.Second, true},
		{"progressDeadlineSeconds: 10s, now - started => 00:01:20 - 00:01:11 => 9s", ptr.To[int32](10), "", 71 * time.Second, false},
		{"previous status was a complete deployment", ptr.To[int32](10), completed, 0, false},
		{"it has timed out before", ptr.To[int32](1000), timedOut, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{ProgressDeadlineSeconds: test.deadline}}
			c := appsv1.DeploymentCondition{Reason: test.reason, LastUpdateTime: metav1.NewTime(start.Add(test.since))}
			if got := hasTimedOut(d, &c, now); got != test.want {
				t.Errorf("%v", got)
			}
			if hasTimedOut(d, nil, now) {
				t.Error("without a condition")
			}
		})
	}
}

// TestAddCondition: a condition with the same status and reason is not replaced.
func TestAddCondition(t *testing.T) {
	status := &appsv1.DeploymentStatus{}
	add := func(value corev1.ConditionStatus, reason string, at time.Duration) string {
		now := metav1.NewTime(start.Add(at))
		addCondition(status, appsv1.DeploymentCondition{
			Type: appsv1.DeploymentProgressing, Status: value, Reason: reason, LastUpdateTime: now, LastTransitionTime: now,
		})
		c := conditionOf(status, appsv1.DeploymentProgressing)
		return fmt.Sprint(c.LastUpdateTime.Sub(start), " ", c.LastTransitionTime.Sub(start), " ", len(status.Conditions))
	}
	for i, want := range []string{"0s 0s 1", "0s 0s 1", "2s 0s 1", "3s 3s 1"} {
		got := add([]corev1.ConditionStatus{"True", "True", "True", "False"}[i], []string{"a", "a", "b", "b"}[i], time.Duration(i)*time.Second)
		if got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
	removeCondition(status, appsv1.DeploymentAvailable)
	if removeCondition(status, appsv1.DeploymentProgressing); len(status.Conditions) != 0 {
		t.Error("not removed")
	}
}

// TestTerminating: the sum is unknown if a set that was synced does not report it.
func TestTerminating(t *testing.T) {
	of := func(n *int32, generation int64) *appsv1.ReplicaSet {
		s := set(1, 1, 0)
		s.Status.TerminatingReplicas, s.Status.ObservedGeneration = n, generation
		return s
	}
	rs1, rs2, rs3, rs4 := of(ptr.To[int32](3), 1), of(ptr.To[int32](1), 0), of(nil, 0), of(nil, 1)
	for _, test := range []struct {
		name string
		sets []*appsv1.ReplicaSet
		want int32
	}{
		{"scaling down rs1", []*appsv1.ReplicaSet{rs1}, 3},
		{"scaling down rs1 and rs2", []*appsv1.ReplicaSet{rs1, rs2}, 4},
		{"scaling up rs3", []*appsv1.ReplicaSet{rs3}, 0},
		{"scaling down rs1 and rs2 and scaling up rs3", []*appsv1.ReplicaSet{rs1, rs2, rs3}, 4},
		{"invalid/unknown terminating status for rs4", []*appsv1.ReplicaSet{rs4}, -1},
		{"invalid/unknown terminating status for rs4 with rs1, rs2 and rs3", []*appsv1.ReplicaSet{rs1, rs2, rs3, rs4}, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := ptr.Deref(terminating(test.sets), -1); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}

// TestSetName: a long name of a Deployment is cut.
func TestSetName(t *testing.T) {
	for _, test := range []struct{ name, deployment, want string }{
		{"short name", "my-deployment", "my-deployment-abcde12345"},
		{"maximum length without truncating", strings.Repeat("a", 242), strings.Repeat("a", 242) + "-abcde12345"},
		{"very long deployment name is truncated", strings.Repeat("b", 250), strings.Repeat("b", 242) + "-abcde12345"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := setName(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: test.deployment}}, "abcde12345"); got != test.want {
				t.Errorf("%s", got)
			}
		})
	}
}

// TestNumberOf: the number in an annotation.
func TestNumberOf(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       int32
	}{
		{"invalid empty", "", -1},
		{"invalid", "invalid", -1},
		{"invalid negative ", "-1", -1},
		{"valid zero", "0", 0},
		{"valid", "1", 1},
		{"valid max", "2147483647", math.MaxInt32},
		{"invalid max out of range", "2147483648", -1},
		{"invalid max out of range 2", "4294967296", -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := set(1, 1, 0)
			s.Annotations = map[string]string{"n": test.text}
			n, ok := numberOf(s, "n")
			if !ok {
				n = -1
			}
			if n != test.want {
				t.Errorf("%d, %v", n, ok)
			}
		})
	}
}

// TestAnnotateNew: revision, history and annotations of the new set.
func TestAnnotateNew(t *testing.T) {
	d := rolling(1, "", "")
	d.Annotations = map[string]string{"key": "value", revisionAnnotation: "7", corev1.LastAppliedConfigAnnotation: "{}"}
	s := set(1, 1, 0)
	if !annotateNew(d, s, 1) || annotateNew(d, s, 1) || len(s.Annotations) != 2 || s.Annotations["key"] != "value" {
		t.Errorf("%v", s.Annotations)
	}
	for _, next := range []int64{3, 2, 9} {
		annotateNew(d, s, next)
	}
	if s.Annotations[revisionAnnotation] != "9" || s.Annotations[historyAnnotation] != "1,3" {
		t.Errorf("%v", s.Annotations)
	}
	s.Annotations[historyAnnotation] = strings.Repeat("1234,", historyMax/5-1) + "12345"
	annotateNew(d, s, 10)
	if got := s.Annotations[historyAnnotation]; len(got) > historyMax || !strings.HasSuffix(got, "1234,12345,9") {
		t.Errorf("%d characters, %s", len(got), got[len(got)-20:])
	}
	s.Annotations[revisionAnnotation] = "invalid"
	if annotateNew(d, s, 11) {
		t.Error("an invalid revision was replaced")
	}
}

// TestRevisions: the highest, and the one before.
func TestRevisions(t *testing.T) {
	of := func(texts ...string) []*appsv1.ReplicaSet {
		var sets []*appsv1.ReplicaSet
		for i, text := range texts {
			s := set(i, 0, 0)
			if text != "" {
				s.Annotations = map[string]string{revisionAnnotation: text}
			}
			sets = append(sets, s)
		}
		return sets
	}
	for _, test := range []struct {
		sets       []*appsv1.ReplicaSet
		next, last int64
	}{
		{nil, 1, 0}, {of("3"), 4, 0}, {of("3", "5", "4"), 6, 4}, {of("3", "invalid", ""), 4, 0},
	} {
		r := &rollout{old: test.sets}
		if r.nextRevision() != test.next || lastRevision(test.sets) != test.last {
			t.Errorf("%d, %d, want %d, %d", r.nextRevision(), lastRevision(test.sets), test.next, test.last)
		}
	}
	if sets := of("10", "9"); byRevision(sets[0], sets[1]) <= 0 || byRevision(sets[0], of("x")[0]) != olderFirst(sets[0], of("x")[0]) {
		t.Error("order by revision")
	}
}

// TestSameTemplate: only the label with the hash may differ. Its value depends on the template, and on
// the number of collisions.
func TestSameTemplate(t *testing.T) {
	template := func(image, hash string) *corev1.PodTemplateSpec {
		p := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
		if hash != "" {
			p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
		}
		p.Spec.Containers = []corev1.Container{{Image: image}}
		return p
	}
	if !sameTemplate(template("1", "a"), template("1", "b")) || !sameTemplate(template("1", "a"), template("1", "")) ||
		sameTemplate(template("1", "a"), template("2", "a")) {
		t.Error("comparison of templates")
	}
	hash := workload.TemplateHash(template("1", ""), nil)
	if hash != workload.TemplateHash(template("1", ""), nil) || hash == workload.TemplateHash(template("2", ""), nil) || hash == workload.TemplateHash(template("1", ""), new(int32)) {
		t.Error("hashes")
	}
}
