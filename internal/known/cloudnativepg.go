package known

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/invariant"
)

// cnpg is the repository of the operator of PostgreSQL clusters. An instance of a cluster is a pod and its claims.
const cnpg = "cloudnative-pg/cloudnative-pg"

// postgres is a cluster of one instance, which runs.
var postgres = lines(
	"user alice",
	"  apply {apiVersion: v1, kind: ConfigMap, metadata: {name: db}, data: {instances: '1', size: 1Gi, image: v1}}",
	"  wait pod db-1 Running",
)

// cloudNativePG are bugs of that operator that make an instance disappear.
var cloudNativePG = []Bug{
	{
		Name: "cloudnativepg-9981", Project: "CloudNativePG", Repository: cnpg,
		Issues: []string{"issue 9980", "pull 9981"}, Year: 2026, FoundBy: "user report",
		Title: "Pod lost during an expansion is not replaced",
		What: "The operator creates no pod for a claim whose file system has yet to be expanded. The kubelet expands it only when " +
			"a pod mounts it. If the pod is deleted before that, each waits for the other.",
		Rule: instanceRuns.ID,
		Text: storageWorld + postgres + lines(
			"  patch configmap db data.size=2Gi",
			"  delete pod db-1",
		),
		Components: resizing(func(claim *corev1.PersistentVolumeClaim) bool {
			return has(claim, corev1.PersistentVolumeClaimResizing) && !has(claim, corev1.PersistentVolumeClaimFileSystemResizePending)
		}),
		OwnRules: []invariant.Rule{instanceRuns},
		Config:   explore.Config{Strategy: explore.Holds}, Within: 200,
	},
	{
		Name: "cloudnativepg-10427", Project: "CloudNativePG", Repository: cnpg,
		Issues: []string{"issue 9786", "pull 10427"}, Year: 2026, FoundBy: "user report",
		Title: "Expansion during a rolling update: no pod",
		What: "Size and image of a cluster change at once. The operator expands the claim and deletes the pod, to replace it. It " +
			"creates no pod while the claim is being expanded, but the file system is expanded only when a pod mounts it.",
		Rule:       instanceRuns.ID,
		Text:       storageWorld + postgres + lines("  patch configmap db data.size=2Gi data.image=v2"),
		Components: resizing(func(*corev1.PersistentVolumeClaim) bool { return false }),
		OwnRules:   []invariant.Rule{instanceRuns},
		Config:     explore.Config{Strategy: explore.Holds}, Within: 170,
	},
	{
		Name: "cloudnativepg-10846", Project: "CloudNativePG", Repository: cnpg,
		Issues: []string{"issue 10846", "pull 10847"}, Year: 2026, FoundBy: "user report",
		Title: "Pod that is destroyed comes back",
		What: "A command destroys an instance: it deletes the pod, then its claim. The operator sees a claim without a pod in " +
			"between, and creates the pod again. The claim is in use, so it stays, and so does the pod.",
		Rule: destroyed.ID,
		Text: deletionWorld + lines(
			"user alice",
			"  apply {apiVersion: v1, kind: ConfigMap, metadata: {name: db}, data: {instances: '1', size: 1Gi}}",
			"  wait pod db-1 Running",
			"  apply {apiVersion: v1, kind: ConfigMap, metadata: {name: destroy}, data: {destroy: db-1}}",
		),
		Components: destroying,
		OwnRules:   []invariant.Rule{destroyed},
		Config:     explore.Config{Strategy: explore.Holds}, Within: 220,
	},
	{
		Name: "cloudnativepg-11017", Project: "CloudNativePG", Repository: cnpg,
		Issues: []string{"issue 10985", "pull 11017"}, Year: 2026, FoundBy: "maintainer",
		Title: "Pod created with a claim that is terminating",
		What: "The two claims of an instance are deleted, and the first is gone before the second. The operator creates the first " +
			"again, takes AlreadyExists of the second for success, and creates the pod. Then the second disappears. The " +
			"pod is never scheduled, and the operator does nothing while it exists.",
		Rule: instanceRuns.ID,
		Text: deletionWorld + postgres + lines(
			"  delete claim db-1",
			"  delete claim db-1-wal",
			"  delete pod db-1",
		),
		Components: recreating,
		OwnRules:   []invariant.Rule{instanceRuns},
		Config:     explore.Config{Strategy: explore.Holds}, Within: 2,
	},
	{
		Name: "cloudnativepg-11036", Project: "CloudNativePG", Repository: cnpg,
		Issues: []string{"issue 11036", "pull 11039"}, Year: 2026, FoundBy: "maintainer",
		Title: "Conflict between a claim and its job",
		What: "The operator creates the claim of the first instance, then writes the status of the cluster, then creates the job that " +
			"fills the volume. If the write conflicts, the next run finds the claim and waits for a job that was never created.",
		Rule:       instanceRuns.ID,
		Text:       jobWorld + create + lines("  patch configmap db metadata.labels.team=shop"),
		Components: bootstrapping(func(int) bool { return false }),
		OwnRules:   []invariant.Rule{instanceRuns},
		Config:     explore.Config{Strategy: explore.Holds}, Within: 4,
	},
	{
		Name: "cloudnativepg-11142", Project: "CloudNativePG", Repository: cnpg,
		Issues: []string{"issue 7709", "pull 11142"}, Year: 2025, FoundBy: "user report",
		Title: "Replica with a claim and without its job",
		What: "The operator stops between the creation of a replica's claim and that of the job that fills it. Only for the first " +
			"instance does it create a job that is missing; a replica waits indefinitely.",
		Rule:       instanceRuns.ID,
		Text:       jobWorld + lines("faults: crash(operator, 1)") + create + lines("  wait pod db-1 Running", "  patch configmap db data.instances=\"2\""),
		Components: bootstrapping(func(serial int) bool { return serial == 1 }),
		OwnRules:   []invariant.Rule{instanceRuns},
		Config:     explore.Config{Strategy: explore.Restarts}, Within: 20,
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
				return createClaim(ctx, c, db, name, nil)
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
				return createPod(ctx, c, db, name, name)
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

// destroying returns an operator that creates the pod of each claim that is not terminating, and a
// command that destroys an instance. The broken command deletes the pod first, the mended one the claim.
func destroying(broken bool) []cluster.Component {
	instances := operator(func(ctx context.Context, c clients, db *corev1.ConfigMap) error {
		name := db.Name + "-1"
		if db.Data["destroy"] != "" {
			return nil
		}
		if _, err := c.live.CoreV1().Pods(db.Namespace).Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return err
		}
		claim, err := c.live.CoreV1().PersistentVolumeClaims(db.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return createClaim(ctx, c, db, name, nil)
		case err == nil && claim.DeletionTimestamp == nil:
			return createPod(ctx, c, db, name, name)
		default:
			return err
		}
	}, "persistentvolumeclaims", "pods")
	return append(instances, command(broken))
}

// command returns the command that destroys an instance, as a component: a ConfigMap names the instance.
func command(broken bool) cluster.Component {
	return cluster.Reconciler(cluster.ReconcilerConfig{Name: "command", For: "configmaps", Build: func(p cluster.ComponentContext) (cluster.Reconcile, error) {
		return func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
			cm, err := p.Client.CoreV1().ConfigMaps(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
			if err != nil || cm.Data["destroy"] == "" {
				return 0, ignoreNotFound(err)
			}
			core, name := p.Client.CoreV1(), cm.Data["destroy"]
			deletePod := func() error { return core.Pods(key.Namespace).Delete(ctx, name, metav1.DeleteOptions{}) }
			deleteClaim := func() error {
				return core.PersistentVolumeClaims(key.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
			}
			steps := []func() error{deleteClaim, deletePod}
			if broken {
				slices.Reverse(steps)
			}
			for _, step := range steps {
				if err := ignoreNotFound(step()); err != nil {
					return 0, err
				}
			}
			return 0, nil
		}, nil
	}})
}

// recreating returns an operator that creates the missing claims and the pod of an instance. It waits
// while the first claim is terminating; the mended one also waits for the second.
func recreating(broken bool) []cluster.Component {
	return operator(func(ctx context.Context, c clients, db *corev1.ConfigMap) error {
		name := db.Name + "-1"
		if _, err := c.CoreV1().Pods(db.Namespace).Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return err
		}
		claims := []string{name, name + "-wal"}
		checked := claims
		if broken {
			checked = claims[:1]
		}
		for _, claim := range checked {
			stored, err := c.live.CoreV1().PersistentVolumeClaims(db.Namespace).Get(ctx, claim, metav1.GetOptions{})
			if err == nil && stored.DeletionTimestamp != nil {
				return nil
			}
			if err := ignoreNotFound(err); err != nil {
				return err
			}
		}
		for _, claim := range claims {
			if err := createClaim(ctx, c, db, claim, nil); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		return createPod(ctx, c, db, name, claims...)
	}, "persistentvolumeclaims", "pods")
}
