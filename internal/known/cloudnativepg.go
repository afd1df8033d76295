package known

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/invariant"
)

// storageComponents run pods with claims that can be expanded.
const storageComponents = "components: pvcontroller, pvcprotection, provisioner, resizer, scheduler, attachdetach, attacher, kubelet"

// cloudNativePG has bugs of the operator of PostgreSQL clusters. An instance is a pod and its claims.
var cloudNativePG = []Bug{
	{
		Name: "cloudnativepg-10427", Project: "CloudNativePG", Repository: "cloudnative-pg/cloudnative-pg",
		Issues: []string{"issue 9786", "pull 10427"}, Year: 2026, FoundBy: "user report",
		Title: "Expansion during a rolling update: no pod",
		What: "The operator expands the claim and deletes the pod, to replace it. It creates no pod while the claim is being " +
			"expanded, but the file system is expanded only when a pod mounts it.",
		Rule: instanceRuns.ID,
		Text: lines(
			"nodes: 1", storageComponents,
			"user alice",
			"  apply {apiVersion: v1, kind: ConfigMap, metadata: {name: db}, data: {instances: '1', size: 1Gi, image: v1}}",
			"  wait pod db-1 Running",
			"  patch configmap db data.size=2Gi data.image=v2",
		),
		Components: resizing(func(*corev1.PersistentVolumeClaim) bool { return false }),
		OwnRules:   []invariant.Rule{instanceRuns},
		Config:     explore.Config{Strategy: explore.Holds}, Within: 400,
	},
}

// resizing returns an operator that expands claims and replaces pods. The broken one does not create a
// pod while its claim has one of the conditions of an expansion; the mended one, while mended returns
// true.
func resizing(mended func(claim *corev1.PersistentVolumeClaim) bool) func(broken bool) []cluster.Component {
	return func(broken bool) []cluster.Component {
		waits := mended
		if broken {
			waits = func(claim *corev1.PersistentVolumeClaim) bool {
				return has(claim, corev1.PersistentVolumeClaimResizing) || has(claim, corev1.PersistentVolumeClaimFileSystemResizePending)
			}
		}
		return operator(func(ctx context.Context, c clients, db *corev1.ConfigMap) error {
			name := db.Name + "-1"
			claim, err := c.CoreV1().PersistentVolumeClaims(db.Namespace).Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return createClaim(ctx, c, db, name)
			} else if err != nil {
				return err
			}
			if err := expandClaim(ctx, c, db, claim); err != nil {
				return err
			}
			pod, err := c.CoreV1().Pods(db.Namespace).Get(ctx, name, metav1.GetOptions{})
			switch {
			case err == nil && pod.Labels["image"] != db.Data["image"] && pod.DeletionTimestamp == nil:
				return c.CoreV1().Pods(db.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
			case apierrors.IsNotFound(err) && !waits(claim):
				return createPod(ctx, c, db, name, map[string]string{"image": db.Data["image"]}, name)
			default:
				return ignoreNotFound(err)
			}
		}, "persistentvolumeclaims", "pods")
	}
}

// has reports whether a claim has a condition.
func has(claim *corev1.PersistentVolumeClaim, condition corev1.PersistentVolumeClaimConditionType) bool {
	for _, c := range claim.Status.Conditions {
		if c.Type == condition && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
