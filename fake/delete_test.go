package fake_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
)

// The expected outcomes were recorded from a real kube-apiserver 1.36.3.

var (
	background = metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	foreground = metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}
	orphaning  = metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)}
)

// withGrace sets the grace period of a deletion in seconds.
func withGrace(opts metav1.DeleteOptions, seconds int64) metav1.DeleteOptions {
	opts.GracePeriodSeconds = &seconds
	return opts
}

// oldWay returns deletion options with orphanDependents.
func oldWay(orphan bool) metav1.DeleteOptions {
	return metav1.DeleteOptions{OrphanDependents: &orphan} //lint:ignore SA1019 clients still send it
}

// deletions are successive deletions of one object, and the expected results.
type deletions struct {
	name       string
	resource   string
	obj        fake.Object
	finalizers []string
	opts       []metav1.DeleteOptions
	want       []string
}

func (d deletions) run(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := fake.NewServer(fake.Config{Now: func() time.Time { return now }})
	namespace := "default"
	if d.resource == "namespaces" {
		namespace = ""
	}
	client, ok := s.Client(direct).Resource(schema.GroupVersionResource{Version: "v1", Resource: d.resource},
		namespace)
	if !ok {
		t.Fatal("no such resource")
	}
	d.obj.SetName("a")
	d.obj.SetFinalizers(d.finalizers)
	if _, err := client.Create(t.Context(), d.obj, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, opts := range d.opts {
		now = now.Add(time.Second)
		done, err := client.Delete(t.Context(), "a", opts)
		switch {
		case err != nil:
			got = append(got, string(apierrors.ReasonForError(err)))
		case done.Deleted:
			got = append(got, "gone")
		default:
			got = append(got, deletionOf(done.Object, now))
		}
	}
	if diff := cmp.Diff(d.want, got); diff != "" {
		t.Errorf("after each deletion (-want +got):\n%s", diff)
	}
}

// deletionOf formats the deletion fields of an object's metadata.
func deletionOf(obj fake.Object, now time.Time) string {
	text := strings.Join(obj.GetFinalizers(), " ")
	if at := obj.GetDeletionTimestamp(); at != nil {
		text += fmt.Sprintf(" in %v", at.Sub(now))
	}
	if grace := obj.GetDeletionGracePeriodSeconds(); grace != nil {
		text += fmt.Sprintf(" grace %d", *grace)
	}
	if g := obj.GetGeneration(); g != 0 {
		text += fmt.Sprintf(" generation %d", g)
	}
	return text
}

func scheduled() *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
}

func replicated() *corev1.ReplicationController {
	labels := map[string]string{"a": "b"}
	return &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{
		Replicas: ptr.To(int32(1)), Selector: labels,
		Template: &corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: scheduled().Spec.Containers},
		},
	}}
}

func TestPropagation(t *testing.T) {
	const other = "x.io/a"
	none := metav1.DeleteOptions{}
	tests := []deletions{
		{"no finalizers", "configmaps", &corev1.ConfigMap{}, nil, []metav1.DeleteOptions{none}, []string{"gone"}},
		{
			"foreground, then background lets go", "configmaps", &corev1.ConfigMap{}, nil,
			[]metav1.DeleteOptions{foreground, none, background},
			[]string{"foregroundDeletion in 0s grace 0", "foregroundDeletion in -1s grace 0", "gone"},
		},
		{
			"the policy may change while others keep it", "configmaps", &corev1.ConfigMap{},
			[]string{other},
			[]metav1.DeleteOptions{foreground, orphaning, none, oldWay(false), oldWay(true)},
			[]string{
				other + " foregroundDeletion in 0s grace 0", other + " orphan in -1s grace 0", other + " orphan in -2s grace 0",
				other + " in -3s grace 0", other + " orphan in -4s grace 0",
			},
		},
		{
			"a finalizer that is there says it", "configmaps", &corev1.ConfigMap{},
			[]string{"foregroundDeletion"},
			[]metav1.DeleteOptions{none, background},
			[]string{"foregroundDeletion in 0s grace 0", "gone"},
		},
		{
			"replication controllers orphan", "replicationcontrollers", replicated(), nil,
			[]metav1.DeleteOptions{none, background},
			[]string{"orphan in 0s grace 0 generation 2", "gone"},
		},
		{"events have no dependents", "events", &corev1.Event{InvolvedObject: corev1.ObjectReference{Namespace: "default"}}, nil, []metav1.DeleteOptions{foreground}, []string{"gone"}},
		{
			"a pod's grace comes first, and may be shortened only", "pods", scheduled(), nil,
			[]metav1.DeleteOptions{
				withGrace(foreground, 5), background, withGrace(background, 2),
				withGrace(orphaning, 1), withGrace(none, 0), withGrace(background, 0),
			},
			[]string{
				"foregroundDeletion in 5s grace 5 generation 2", "foregroundDeletion in 4s grace 5 generation 2",
				" in 0s grace 2 generation 2", "orphan in 0s grace 1 generation 2", "orphan in 0s grace 0 generation 2", "gone",
			},
		},
		{
			"a pod without grace waits for its dependents", "pods", scheduled(), nil,
			[]metav1.DeleteOptions{withGrace(foreground, 0), withGrace(none, 0)},
			[]string{"foregroundDeletion in 0s grace 0 generation 2", "foregroundDeletion in -1s grace 0 generation 2"},
		},
		{
			"a namespace", "namespaces", &corev1.Namespace{}, nil,
			[]metav1.DeleteOptions{foreground, background},
			[]string{"foregroundDeletion in 0s", "foregroundDeletion in -1s"},
		},
		{
			"a namespace, the old way", "namespaces", &corev1.Namespace{}, nil,
			[]metav1.DeleteOptions{oldWay(false)},
			[]string{"foregroundDeletion in 0s"},
		},
		{
			"a policy that is none", "configmaps", &corev1.ConfigMap{}, nil,
			[]metav1.DeleteOptions{{PropagationPolicy: ptr.To(metav1.DeletionPropagation("Bogus"))}},
			[]string{"Invalid"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

func TestDeleteOptionsAreValidated(t *testing.T) {
	_, client := newServer(t)
	both := orphaning
	both.OrphanDependents = ptr.To(true) //lint:ignore SA1019 clients still send it
	tests := []struct {
		name string
		opts metav1.DeleteOptions
		want string
	}{
		{
			"unknown policy",
			metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletionPropagation("Bogus"))},
			`DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Bogus": ` +
				`supported values: "Foreground", "Background", "Orphan", "nil"`,
		},
		{
			"both ways", both, `DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Orphan": ` +
				`orphanDependents and deletionPropagation cannot be both set`,
		},
		{
			"dry run",
			metav1.DeleteOptions{DryRun: []string{"Al"}},
			`DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Al"]: supported values: "All"`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			maps := client.CoreV1().ConfigMaps("default")
			expectError(t, maps.Delete(t.Context(), "none", tt.opts), apierrors.IsInvalid, tt.want)
			expectError(t, maps.DeleteCollection(t.Context(), tt.opts, metav1.ListOptions{}), apierrors.IsInvalid,
				tt.want)
		})
	}
}

// A terminating namespace rejects creations, with a cause that controllers check.
func TestTerminatingNamespaceIsTheCause(t *testing.T) {
	_, client := newServer(t)
	ctx := t.Context()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Namespaces().Delete(ctx, "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := client.CoreV1().ConfigMaps("n").Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}}, metav1.CreateOptions{})
	expectError(t, err, apierrors.IsForbidden,
		`configmaps "x-" is forbidden: unable to create new content in namespace n because it is being terminated`)
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("no cause NamespaceTerminating in %v", err)
	}
}
