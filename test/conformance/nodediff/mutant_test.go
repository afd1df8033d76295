package nodediff

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

type mutants = []histories.Mutant[controllers.Mutation]

// nothing answers a request that has no effect.
func nothing(fake.Request, func() (runtime.Object, error)) (runtime.Object, error) { return nil, nil }

// TestMutantsAreFound checks that a short history shows each mutant.
func TestMutantsAreFound(t *testing.T) {
	t.Run("tainteviction", func(t *testing.T) {
		taintEviction.FindMutants(t, drawTaintEviction, mutants{
			{Name: "marks no pods", Steps: 4, Mutation: controllers.Instead("patch", "pods", nothing)},
			{Name: "deletes no pods", Steps: 4, Mutation: controllers.Instead("delete", "pods", nothing)},
		})
	})
	t.Run("podgc", func(t *testing.T) {
		podGC.FindMutants(t, drawPodGC, mutants{
			{Name: "marks no pods", Steps: 5, Mutation: controllers.Instead("patch", "pods", nothing)},
			{Name: "deletes no pods", Steps: 5, Mutation: controllers.Instead("delete", "pods", nothing)},
			{Name: "finds each node", Steps: 4, Mutation: controllers.Instead("get", "nodes", nothing)},
		})
	})
	t.Run("nodelifecycle", func(t *testing.T) {
		nodeLifecycle.FindMutants(t, drawNodeLifecycle, mutants{
			{Name: "marks no pods", Steps: 4, Mutation: controllers.Instead("update", "pods", nothing)},
			{Name: "keeps the network", Steps: 4, Mutation: controllers.Instead("update", "nodes",
				func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
					node := r.Body.(*corev1.Node)
					node.Status.Conditions = node.Status.Conditions[:1]
					return serve()
				})},
			{Name: "removes no taints", Steps: 5, Mutation: controllers.Instead("patch", "nodes",
				func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
					if bytes.Contains(r.Patch, []byte(`"taints":[]`)) {
						return nil, nil
					}
					return serve()
				})},
		})
	})
}
