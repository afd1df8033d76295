package jobdiff

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

var mutants = []histories.Mutant[controllers.Mutation]{
	{Name: "keeps the finalizers of pods", Steps: 2, Mutation: controllers.Instead("patch", "pods",
		func(r fake.Request, _ func() (runtime.Object, error)) (runtime.Object, error) {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, r.Name)
		})},
	{Name: "deletes no pods", Steps: 2, Mutation: controllers.Instead("delete", "pods",
		func(fake.Request, func() (runtime.Object, error)) (runtime.Object, error) { return nil, nil })},
	{Name: "writes no start time", Steps: 1, Mutation: controllers.Instead("update", "jobs",
		func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			r.Body.(*batchv1.Job).Status.StartTime = nil
			return serve()
		})},
	{Name: "forgets the failures of an index", Steps: 2, Mutation: controllers.Instead("create", "pods",
		func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if a := r.Body.(*corev1.Pod).Annotations; a[batchv1.JobIndexFailureCountAnnotation] != "" {
				a[batchv1.JobIndexFailureCountAnnotation] = "0"
			}
			return serve()
		})},
}

// TestMutantsAreFound checks that a short history shows each mutant.
func TestMutantsAreFound(t *testing.T) { pair.FindMutants(t, drawHistory, mutants) }
