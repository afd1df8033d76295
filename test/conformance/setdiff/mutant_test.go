package setdiff

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

var mutants = []histories.Mutant[controllers.Mutation]{
	{Name: "does not change the owners of claims", Steps: 2, Mutation: controllers.Instead("update", "persistentvolumeclaims",
		func(r fake.Request, _ func() (runtime.Object, error)) (runtime.Object, error) { return r.Body, nil })},
	{Name: "keeps all revisions", Steps: 4, Mutation: controllers.Instead("delete", "controllerrevisions",
		func(fake.Request, func() (runtime.Object, error)) (runtime.Object, error) { return nil, nil })},
	{Name: "adopts no pods", Steps: 3, Mutation: controllers.Instead("patch", "pods",
		func(r fake.Request, _ func() (runtime.Object, error)) (runtime.Object, error) {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, r.Name)
		})},
	{Name: "completes an update at once", Steps: 2, Mutation: controllers.Instead("update", "statefulsets",
		func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			set := r.Body.(*appsv1.StatefulSet)
			set.Status.CurrentRevision = set.Status.UpdateRevision
			return serve()
		})},
	{Name: "forgets the host name of pods", Steps: 1, Mutation: controllers.Instead("create", "pods",
		func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			r.Body.(*corev1.Pod).Spec.Hostname = ""
			return serve()
		})},
}

// TestMutantsAreFound checks that a short history shows each mutant.
func TestMutantsAreFound(t *testing.T) { pair.FindMutants(t, drawHistory, mutants) }
