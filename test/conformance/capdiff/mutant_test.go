package capdiff

import (
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

// updating returns a mutation that changes each object that is updated.
func updating(change func(o *storagev1.CSIStorageCapacity)) controllers.Mutation {
	return controllers.Instead("update", "csistoragecapacities", func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		change(r.Body.(*storagev1.CSIStorageCapacity))
		return serve()
	})
}

// TestMutantsAreFound checks that a short history shows each mutant.
func TestMutantsAreFound(t *testing.T) {
	delayed.FindMutants(t, drawHistory, []histories.Mutant[controllers.Mutation]{
		{Name: "deletes nothing", Steps: 4, Mutation: controllers.Instead("delete", "csistoragecapacities",
			func(fake.Request, func() (runtime.Object, error)) (runtime.Object, error) { return nil, nil })},
		{Name: "creates no object of a class", Steps: 4, Mutation: controllers.Instead("create", "csistoragecapacities",
			func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
				if o := r.Body.(*storagev1.CSIStorageCapacity); o.StorageClassName == "late" {
					return o, nil
				}
				return serve()
			})},
		{Name: "updates no maximum volume size", Steps: 4, Mutation: updating(func(o *storagev1.CSIStorageCapacity) { o.MaximumVolumeSize = nil })},
		{Name: "drops owners", Steps: 4, Mutation: updating(func(o *storagev1.CSIStorageCapacity) { o.OwnerReferences = nil })},
	})
}
