package known

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/invariant"
)

// grown is a cluster whose size grows. Its operator may crash once.
var grown = lines("nodes: 1",
	"components: pvcontroller, pvcprotection, pvprotection, provisioner, resizer, scheduler, attachdetach, attacher, kubelet, "+
		"statefulset, garbagecollector",
	"faults: crash(operator, 1)",
	"user alice",
	"  apply {apiVersion: v1, kind: ConfigMap, metadata: {name: db}, data: {size: 1Gi}}",
	"  wait pod db-0 Running",
	"  patch configmap db data.size=2Gi",
)

// rabbitMQ are bugs of its operator, which replaces a StatefulSet to expand its claims.
var rabbitMQ = []Bug{
	{
		Name: "rabbitmq-782", Project: "RabbitMQ Cluster Operator", Repository: "rabbitmq/cluster-operator",
		Issues: []string{"issue 782", "pull 838"}, Year: 2021, FoundBy: sieveFound,
		Title: "Crash during an expansion: it never happens",
		What: "To expand claims, the operator deletes the StatefulSet, expands the claims, and creates the StatefulSet with the new " +
			"size. If it crashes after the deletion, it creates the StatefulSet with the new size, and never expands the claims.",
		Rule: claimSize.ID, Text: grown, Components: replacing(true),
		OwnRules: []invariant.Rule{claimSize}, Config: explore.Config{Strategy: explore.Restarts}, Within: 10,
	},
	{
		Name: "rabbitmq-653", Project: "RabbitMQ Cluster Operator", Repository: "rabbitmq/cluster-operator",
		Issues: []string{"issue 653"}, Year: 2021, FoundBy: sieveFound,
		Title: "Stale size deletes a StatefulSet",
		What: "The operator replaces the StatefulSet if its size differs from that of the cluster. It restarts after an expansion, " +
			"reads the earlier, smaller size from a stale list, and deletes the StatefulSet.",
		Rule: neededSet.ID, Text: grown, Components: replacing(false),
		OwnRules: []invariant.Rule{neededSet}, Config: explore.Config{Strategy: explore.Restarts}, Within: 40,
	},
}

// replacing returns an operator that replaces a StatefulSet to expand its claims. The broken one either
// does both only if the StatefulSet exists with another size, or also if its size would decrease.
func replacing(together bool) func(broken bool) []cluster.Component {
	return func(broken bool) []cluster.Component {
		return operator(func(ctx context.Context, c clients, db *corev1.ConfigMap) error {
			size := resource.MustParse(db.Data["size"])
			set, err := c.AppsV1().StatefulSets(db.Namespace).Get(ctx, db.Name, metav1.GetOptions{})
			if err := ignoreNotFound(err); err != nil {
				return err
			}
			exists, differs := err == nil, false
			if exists {
				grows := size.Cmp(sizeOf(set))
				differs = grows > 0 || grows < 0 && broken && !together
			}
			if differs && set.DeletionTimestamp == nil {
				if err := c.AppsV1().StatefulSets(db.Namespace).Delete(ctx, db.Name, metav1.DeleteOptions{
					PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan),
				}); err != nil {
					return ignoreNotFound(err)
				}
			}
			if differs || !broken || !together {
				if err := expandData(ctx, c, db); err != nil {
					return err
				}
			}
			if exists {
				return nil
			}
			return createSet(ctx, c, db)
		}, "persistentvolumeclaims", "statefulsets")
	}
}

// sizeOf returns the size of the claims of a StatefulSet.
func sizeOf(set *appsv1.StatefulSet) resource.Quantity {
	return set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]
}

// expandData expands the claim of a cluster, if it exists.
func expandData(ctx context.Context, c clients, db *corev1.ConfigMap) error {
	claim, err := c.CoreV1().PersistentVolumeClaims(db.Namespace).Get(ctx, "data-"+db.Name+"-0", metav1.GetOptions{})
	if err != nil {
		return ignoreNotFound(err)
	}
	return expandClaim(ctx, c, db, claim)
}

// createSet creates the StatefulSet of a cluster.
func createSet(ctx context.Context, c clients, db *corev1.ConfigMap) error {
	claim, pod := cluster.NewClaim("data", db.Data["size"]), cluster.NewPod("")
	claim.Labels = of(db, "", nil).Labels
	pod.Labels = map[string]string{clusterLabel: db.Name}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	_, err := c.AppsV1().StatefulSets(db.Namespace).Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: of(db, db.Name, nil),
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](1), ServiceName: db.Name, Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template:             corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*claim},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
