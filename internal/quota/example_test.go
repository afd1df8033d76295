package quota_test

import (
	"fmt"
	"log"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/internal/quota"
)

func storage(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceRequestsStorage: resource.MustParse(amount)}
}

func newClaim(size string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	return claim
}

// An expansion is charged by its difference.
func Example() {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}}
	q.Spec.Hard, q.Status.Hard = storage("5Gi"), storage("5Gi")
	claims, now := schema.GroupResource{Resource: "persistentvolumeclaims"}, time.Time{}

	total, err := quota.Total(q, claims, []metav1.Object{newClaim("1Gi"), newClaim("2Gi")}, now)
	if err != nil {
		log.Fatal(err)
	}
	q.Status.Used = total
	for _, size := range []string{"4Gi", "5Gi"} {
		used, err := quota.Charge(q, quota.Request{Resource: claims, Old: newClaim("2Gi"), Object: newClaim(size), Now: now})
		amount := used[corev1.ResourceRequestsStorage]
		fmt.Println(amount.String(), err)
	}
	// Output:
	// 5Gi <nil>
	// 0 exceeded quota: q, requested: requests.storage=3Gi, used: requests.storage=3Gi, limited: requests.storage=5Gi
}
