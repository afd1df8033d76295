package modifydiff

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

// TestMutantsAreFound checks that a short history shows each mutant.
func TestMutantsAreFound(t *testing.T) {
	pair.FindMutants(t, drawHistory, []histories.Mutant[controllers.Mutation]{
		{Name: "writes no class to volumes", Steps: 5, Mutation: controllers.Instead("patch", "persistentvolumes",
			func(fake.Request, func() (runtime.Object, error)) (runtime.Object, error) {
				return &corev1.PersistentVolume{}, nil
			})},
		{Name: "passes no secrets", Steps: 5, Mutation: controllers.Instead("get", "secrets",
			func(fake.Request, func() (runtime.Object, error)) (runtime.Object, error) {
				return &corev1.Secret{}, nil
			})},
	})
}
