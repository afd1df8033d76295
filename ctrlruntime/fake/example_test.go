package fake_test

import (
	"context"
	"fmt"
	"log"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/volsim/volsim/ctrlruntime/fake"
)

func Example() {
	box := newBox("a", "red")
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(box).WithStatusSubresource(box).Build()
	ctx := context.Background()
	if err := c.Get(ctx, client.ObjectKeyFromObject(box), box); err != nil {
		log.Fatal(err)
	}
	stale := box.DeepCopyObject().(*Box)
	box.Spec.Color = "blue"
	fmt.Println(c.Update(ctx, box), box.Generation)
	fmt.Println(c.Update(ctx, stale))
	// Output:
	// <nil> 1
	// Operation cannot be fulfilled on boxes.example.com "a": the object has been modified; please apply your changes to the latest version and try again
}
