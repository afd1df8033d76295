package snapdiff

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

// TestMutantsAreFound checks that a short history shows each mutant.
func TestMutantsAreFound(t *testing.T) {
	pair.FindMutants(t, drawHistory, []histories.Mutant[controllers.Mutation]{
		{Name: "creates contents that are kept", Steps: 3, Mutation: controllers.Instead("create", "volumesnapshotcontents",
			func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
				must(unstructured.SetNestedField(r.Body.(*unstructured.Unstructured).Object, string(snapshotapi.Retain), "spec", "deletionPolicy"))
				return serve()
			})},
		{Name: "does not release claims", Steps: 4, Mutation: controllers.Instead("update", "persistentvolumeclaims",
			func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
				if claim := r.Body.(*corev1.PersistentVolumeClaim); !slices.Contains(claim.Finalizers, snapshotapi.ClaimSourceFinalizer) {
					return claim, nil
				}
				return serve()
			})},
		{Name: "deletes no contents", Steps: 4, Mutation: controllers.Instead("delete", "volumesnapshotcontents",
			func(fake.Request, func() (runtime.Object, error)) (runtime.Object, error) { return nil, nil })},
		{Name: "reports no sizes", Steps: 3, Mutation: controllers.Instead("update", "volumesnapshots",
			func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
				unstructured.RemoveNestedField(r.Body.(*unstructured.Unstructured).Object, "status", "restoreSize")
				return serve()
			})},
	})
}
