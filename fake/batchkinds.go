package fake

import (
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake/internal/rules"
)

// batchKinds are the resources of the group batch.
//
// Upstream: pkg/registry/batch, the strategies.
var batchKinds = []*kind{
	newKind(strategy[*batchv1.Job]{
		resource: "jobs", gvk: batchv1.SchemeGroupVersion.WithKind("Job"), namespaced: true,
		rules:                    rules.Job,
		categories:               []string{"all"},
		copyStatus:               func(to, from *batchv1.Job) { to.Status = from.Status },
		statusUpdatesMetadata:    true,
		allowUnconditionalUpdate: true,
		dependents:               dependentsOrphaned,
		fields: map[string]func(*batchv1.Job) string{
			"status.successful": func(job *batchv1.Job) string { return strconv.Itoa(int(job.Status.Succeeded)) },
		},
		fieldError:          func(label string) string { return fmt.Sprintf("field label %q not supported for Job", label) },
		deleteReturnsStatus: true,
		deleteWarning: "child pods are preserved by default when jobs are deleted; " +
			"set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
	}, func(m metav1.ListMeta, items []batchv1.Job) runtime.Object {
		return &batchv1.JobList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*batchv1.CronJob]{
		resource: "cronjobs", gvk: batchv1.SchemeGroupVersion.WithKind("CronJob"), namespaced: true,
		rules:                    rules.CronJob,
		short:                    []string{"cj"},
		categories:               []string{"all"},
		copyStatus:               func(to, from *batchv1.CronJob) { to.Status = from.Status },
		statusUpdatesMetadata:    true,
		allowUnconditionalUpdate: true,
		deleteReturnsStatus:      true,
	}, func(m metav1.ListMeta, items []batchv1.CronJob) runtime.Object {
		return &batchv1.CronJobList{ListMeta: m, Items: items}
	}),
}
