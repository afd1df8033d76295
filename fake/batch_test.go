package fake_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/testcheck"
)

func newJob(name string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}},
		}}},
	}
}

// TestJobTemplateIsImmutable: the template of a job changes only while the job is suspended and has no
// active pod, and then only in what matters to the scheduler.
func TestJobTemplateIsImmutable(t *testing.T) {
	_, c := newServer(t, "default")
	jobs, ctx := c.BatchV1().Jobs("default"), t.Context()
	for name, change := range map[string]struct {
		edit    func(*batchv1.Job)
		suspend bool
		active  int32
		refused string
	}{
		"image":                      {func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Image = "other" }, false, 0, "spec.template: Invalid value: "},
		"node selector":              {func(j *batchv1.Job) { j.Spec.Template.Spec.NodeSelector = map[string]string{"a": "b"} }, false, 0, "spec.template: Invalid value: "},
		"suspended, image":           {func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Image = "other" }, true, 0, "spec.template.spec: Invalid value: "},
		"suspended, node selector":   {func(j *batchv1.Job) { j.Spec.Template.Spec.NodeSelector = map[string]string{"a": "b"} }, true, 0, ""},
		"still active, also changed": {func(j *batchv1.Job) { j.Spec.Template.Spec.NodeSelector = map[string]string{"a": "b"} }, true, 1, "spec.template: Invalid value: "},
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob("j-" + strings.NewReplacer(" ", "", ",", "").Replace(name))
			job.Spec.Suspend = &change.suspend
			job = testcheck.Must(jobs.Create(ctx, job, metav1.CreateOptions{}))
			job.Status.Active = change.active
			job = testcheck.Must(jobs.UpdateStatus(ctx, job, metav1.UpdateOptions{}))
			change.edit(job)
			_, err := jobs.Update(ctx, job, metav1.UpdateOptions{})
			if change.refused == "" {
				testcheck.NoError(t, err)
				return
			}
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), change.refused) || !strings.HasSuffix(err.Error(), ": field is immutable") {
				t.Errorf("got %v, want %s…: field is immutable", err, change.refused)
			}
		})
	}
}

// TestJobTimesOverHTTP: a client over HTTP returns the start time of a running job without its
// fraction of a second and in its own time zone. That is no change; another second is one.
func TestJobTimesOverHTTP(t *testing.T) {
	_, c := newServer(t, "default")
	jobs, ctx := c.BatchV1().Jobs("default"), t.Context()
	start := time.Date(2026, 1, 1, 12, 0, 0, 123456789, time.UTC)
	job := testcheck.Must(jobs.Create(ctx, newJob("j"), metav1.CreateOptions{}))
	job.Status.StartTime = ptr.To(metav1.NewTime(start))
	job = testcheck.Must(jobs.UpdateStatus(ctx, job, metav1.UpdateOptions{}))

	job.Status.StartTime = ptr.To(metav1.NewTime(start.Truncate(time.Second).In(time.FixedZone("other", 3600))))
	job = testcheck.Must(jobs.UpdateStatus(ctx, job, metav1.UpdateOptions{}))
	job.Status.StartTime = ptr.To(metav1.NewTime(start.Add(time.Second)))
	want := "status.startTime: Invalid value: "
	if _, err := jobs.UpdateStatus(ctx, job, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("another second: got %v, want %s…", err, want)
	}
}

// TestDeletedJobWarns: a deletion orphans the pods by default, and says so, also that of a collection.
func TestDeletedJobWarns(t *testing.T) {
	_, c := newServer(t, "default")
	resource, ok := c.Resource(batchv1.SchemeGroupVersion.WithResource("jobs"), "default")
	if !ok {
		t.Fatal("jobs are not served")
	}
	for name, test := range map[string]struct {
		policy *metav1.DeletionPropagation
		warns  bool
		left   []string
	}{
		"default":    {nil, true, []string{metav1.FinalizerOrphanDependents}},
		"background": {ptr.To(metav1.DeletePropagationBackground), false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			testcheck.Must(c.BatchV1().Jobs("default").Create(t.Context(), newJob("j"), metav1.CreateOptions{}))
			done := testcheck.Must(resource.Delete(t.Context(), "j", metav1.DeleteOptions{PropagationPolicy: test.policy}))
			if got := len(done.Warnings) == 1 && strings.HasPrefix(done.Warnings[0], "child pods are preserved by default"); got != test.warns {
				t.Errorf("warnings %q", done.Warnings)
			}
			if got := done.Object.GetFinalizers(); !slices.Equal(got, test.left) {
				t.Errorf("finalizers %q, want %q", got, test.left)
			}
			if done.Deleted {
				return
			}
			patch := []byte(`{"metadata":{"finalizers":null}}`)
			testcheck.Must(c.BatchV1().Jobs("default").Patch(t.Context(), "j", "application/merge-patch+json", patch, metav1.PatchOptions{}))
		})
		t.Run(name+", collection", func(t *testing.T) {
			all := testcheck.Must(resource.DeleteCollection(t.Context(), metav1.DeleteOptions{PropagationPolicy: test.policy}, metav1.ListOptions{}))
			if got := len(all.Warnings) == 1; got != test.warns {
				t.Errorf("warnings %q", all.Warnings)
			}
		})
	}
}
