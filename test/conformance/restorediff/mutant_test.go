package restorediff

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

// TestMutantIsFound checks that a short history shows a mutant.
func TestMutantIsFound(t *testing.T) {
	pair.FindMutants(t, drawHistory, []histories.Mutant[controllers.Mutation]{
		{Name: "keeps volumes", Steps: 4, Mutation: controllers.Instead("create", "persistentvolumes",
			func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
				r.Body.(*corev1.PersistentVolume).Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
				return serve()
			})},
	})
}
