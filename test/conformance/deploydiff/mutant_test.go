package deploydiff

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

var mutants = []histories.Mutant[controllers.Mutation]{
	{Name: "keeps all sets", Steps: 3, Mutation: controllers.Instead("delete", "replicasets",
		func(fake.Request, func() (runtime.Object, error)) (runtime.Object, error) { return nil, nil })},
	{Name: "adopts no sets", Steps: 3, Mutation: controllers.Instead("patch", "replicasets",
		func(r fake.Request, _ func() (runtime.Object, error)) (runtime.Object, error) {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "replicasets"}, r.Name)
		})},
	{Name: "does not report the maximum of replicas", Steps: 1, Mutation: controllers.Instead("create", "replicasets",
		func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			delete(r.Body.(*appsv1.ReplicaSet).Annotations, "deployment.kubernetes.io/max-replicas")
			return serve()
		})},
	{Name: "reports no timeout", Steps: 4, Mutation: controllers.Instead("update", "deployments",
		func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			for i, c := range r.Body.(*appsv1.Deployment).Status.Conditions {
				if c.Reason == "ProgressDeadlineExceeded" {
					r.Body.(*appsv1.Deployment).Status.Conditions[i].Reason = "ReplicaSetUpdated"
				}
			}
			return serve()
		})},
}

// TestMutantsAreFound checks that a short history shows each mutant.
func TestMutantsAreFound(t *testing.T) { pair.FindMutants(t, drawHistory, mutants) }
