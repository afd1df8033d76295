package daemondiff

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

var mutants = []histories.Mutant[controllers.Mutation]{
	{Name: "keeps all revisions", Steps: 4, Mutation: controllers.Instead("delete", "controllerrevisions",
		func(fake.Request, func() (runtime.Object, error)) (runtime.Object, error) { return nil, nil })},
	{Name: "labels no pod with the number of its template", Steps: 3, Mutation: controllers.Instead("create", "pods",
		func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			delete(r.Body.(*corev1.Pod).Labels, "pod-template-generation")
			return serve()
		})},
	{Name: "counts no available pods", Steps: 2, Mutation: controllers.Instead("update", "daemonsets",
		func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			r.Body.(*appsv1.DaemonSet).Status.NumberAvailable = 0
			return serve()
		})},
}

// TestMutantsAreFound checks that a short history shows each mutant.
func TestMutantsAreFound(t *testing.T) { pair.FindMutants(t, drawHistory, mutants) }
