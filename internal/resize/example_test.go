package resize_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/resize"
)

// A resizer starts the expansion of a claim's volume; finally a kubelet reports the new capacity.
func Example() {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}}
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	ctx, client := context.Background(), fake.NewClientset(claim)
	claims := client.CoreV1().PersistentVolumeClaims("default")
	old, err := claims.Get(ctx, "data", metav1.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	show := func(claim *corev1.PersistentVolumeClaim) {
		capacity, allocated := resize.Capacity(claim), resize.Allocated(claim)
		fmt.Printf("has %s, will have %s: %q\n", &capacity, &allocated, resize.Status(claim))
	}
	resizing := resize.WithStatus(old, corev1.PersistentVolumeClaimControllerResizeInProgress)
	resizing = resize.WithAllocated(resizing, resource.MustParse("2Gi"))
	if resizing, err = resize.Patch(ctx, client, old, resizing, false); err != nil {
		log.Fatal(err)
	}
	show(resizing)
	finished, err := resize.Patch(ctx, client, resizing, resize.Finished(resizing, resource.MustParse("2Gi")), false)
	if err != nil {
		log.Fatal(err)
	}
	show(finished)
	// Output:
	// has 1Gi, will have 2Gi: "ControllerResizeInProgress"
	// has 2Gi, will have 2Gi: ""
}
