package scenario

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// requestSize sets the size that a claim requests.
func (a Act) requestSize(ctx context.Context, client kubernetes.Interface, size string) error {
	patch := fmt.Sprintf(`{"spec":{"resources":{"requests":{"storage":%q}}}}`, size)
	_, err := client.CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault).
		Patch(ctx, a.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// hasCapacity reports whether an object is a claim with at least this capacity.
func hasCapacity(obj any, size string) bool {
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	want, err := resource.ParseQuantity(size)
	if !ok || err != nil {
		return false
	}
	capacity := claim.Status.Capacity[corev1.ResourceStorage]
	return capacity.Cmp(want) >= 0
}
