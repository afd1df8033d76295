package quota

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Total returns what the objects of one kind in a quota's namespace use of its spec.hard. It has each
// of the quota's resources that the kind may use.
//
// Upstream: k8s.io/apiserver/pkg/quota/v1/generic CalculateUsageStats.
func Total[O metav1.Object](q *corev1.ResourceQuota, of schema.GroupResource, objects []O, now time.Time) (corev1.ResourceList, error) {
	limited := Resources(of, q.Spec.Hard)
	total := corev1.ResourceList{}
	for _, name := range limited {
		total[name] = resource.Quantity{Format: resource.DecimalSI}
	}
	for _, obj := range objects {
		in, err := InScopes(q, obj)
		if err != nil {
			return nil, err
		}
		if in {
			total = Add(total, only(Usage(of, obj, now), limited))
		}
	}
	return total, nil
}
