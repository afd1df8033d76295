package growth

import (
	"context"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
)

// A database is a ConfigMap, to keep the example short: {replicas: "2", data: 1Gi, wal: 1Gi}. The
// sizes are those of the volumes of each pod; wal is optional.

// volumes are the names of the volumes that a database may have.
var volumes = []string{"data", "wal"}

// sizes are the sizes of volumes by name.
type sizes map[string]resource.Quantity

// wantedSizes returns the sizes that a database should have.
func wantedSizes(db *corev1.ConfigMap) sizes {
	s := sizes{}
	for _, volume := range volumes {
		if text := db.Data[volume]; text != "" {
			s[volume] = resource.MustParse(text)
		}
	}
	return s
}

func wantedReplicas(db *corev1.ConfigMap) int32 {
	n, _ := strconv.ParseInt(db.Data["replicas"], 10, 32)
	return int32(n)
}

// templateSizes returns the sizes in the claim templates of a set.
func templateSizes(set *appsv1.StatefulSet) sizes {
	s := sizes{}
	for i := range set.Spec.VolumeClaimTemplates {
		claim := &set.Spec.VolumeClaimTemplates[i]
		s[claim.Name] = *claim.Spec.Resources.Requests.Storage()
	}
	return s
}

// lessThan reports whether one of the sizes is less than in other.
func (s sizes) lessThan(other sizes) bool {
	for volume, size := range s {
		if size.Cmp(other[volume]) < 0 {
			return true
		}
	}
	return false
}

// atLeast returns the larger one of each size.
func (s sizes) atLeast(other sizes) sizes {
	larger := sizes{}
	for volume, size := range s {
		if larger[volume] = size; size.Cmp(other[volume]) < 0 {
			larger[volume] = other[volume]
		}
	}
	return larger
}

// newSet returns the set of a database. Its pods start at once, in any order.
func newSet(db *corev1.ConfigMap, replicas int32, s sizes) *appsv1.StatefulSet {
	labels := map[string]string{"database": db.Name}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: db.Name, Namespace: db.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(db, corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: db.Name, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "db", Image: "db"}}},
			},
		},
	}
	container := &set.Spec.Template.Spec.Containers[0]
	for _, volume := range volumes {
		if size, ok := s[volume]; ok {
			set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, *cluster.NewClaim(volume, size.String()))
			container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: "/" + volume})
		}
	}
	return set
}

// claimsOf returns the claims of a database.
func claimsOf(ctx context.Context, client kubernetes.Interface, db *corev1.ConfigMap) ([]corev1.PersistentVolumeClaim, error) {
	list, err := client.CoreV1().PersistentVolumeClaims(db.Namespace).
		List(ctx, metav1.ListOptions{LabelSelector: "database=" + db.Name})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// volumeOf returns the volume of a claim: "data" for "data-shop-0".
func volumeOf(claim *corev1.PersistentVolumeClaim) string {
	volume, _, _ := strings.Cut(claim.Name, "-")
	return volume
}

// largest returns the largest size that claims of each volume request.
func largest(claims []corev1.PersistentVolumeClaim) sizes {
	s := sizes{}
	for i := range claims {
		volume, size := volumeOf(&claims[i]), *claims[i].Spec.Resources.Requests.Storage()
		if size.Cmp(s[volume]) > 0 {
			s[volume] = size
		}
	}
	return s
}

// grow enlarges claims that request less than s says.
func grow(ctx context.Context, client kubernetes.Interface, claims []corev1.PersistentVolumeClaim, s sizes) error {
	for i := range claims {
		claim := &claims[i]
		if size, ok := s[volumeOf(claim)]; ok && claim.Spec.Resources.Requests.Storage().Cmp(size) < 0 {
			claim.Spec.Resources.Requests[corev1.ResourceStorage] = size
			if _, err := client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// deleteSet deletes a set and orphans its pods. uid, if not empty, must be that of the set.
func deleteSet(ctx context.Context, client kubernetes.Interface, set *appsv1.StatefulSet, uid types.UID) error {
	options := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)}
	if uid != "" {
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	return client.AppsV1().StatefulSets(set.Namespace).Delete(ctx, set.Name, options)
}
