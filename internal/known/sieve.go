package known

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/invariant"
)

// sieveFound names the tool that found the bugs in this file.
const sieveFound = "Sieve (OSDI'22)"

const claimComponents = "components: pvcontroller, pvcprotection, pvprotection, provisioner"

// recreated is a cluster that is deleted and created again. Its finalizer makes the operator delete the
// claims first.
var recreated = lines(
	claimComponents,
	"faults: crash(operator, 1)",
	"user alice",
	"  apply {apiVersion: v1, kind: ConfigMap, metadata: {name: db, finalizers: [example.com/claims]}, data: {size: 1Gi}}",
	"  wait claim data-db-0 exists",
	"  delete configmap db",
	"  wait configmap db gone",
	"  apply {apiVersion: v1, kind: ConfigMap, metadata: {name: db, finalizers: [example.com/claims]}, data: {size: 1Gi}}",
)

// rescaled is a cluster that shrinks and grows again.
var rescaled = lines(
	"user alice",
	"  apply {apiVersion: v1, kind: ConfigMap, metadata: {name: db}, data: {size: 1Gi, replicas: '2'}}",
	"  wait claim data-db-1 exists",
	"  patch configmap db data.replicas=\"1\"",
	"  wait claim data-db-1 gone",
	"  patch configmap db data.replicas=\"2\"",
)

// sieve are bugs that Sieve found in operators that delete claims.
var sieve = slices.Concat([]Bug{
	{
		Name: "zookeeper-314", Project: "ZooKeeper Operator", Repository: "pravega/zookeeper-operator",
		Issues: []string{"issue 314"}, Year: 2021, FoundBy: sieveFound,
		Title: "Stale replica count deletes a claim in use",
		What: "A cluster shrinks and grows again. The operator restarts and reads the smaller count from a stale list. It deletes " +
			"the claims of the replicas that it takes for surplus.",
		Rule: liveClaim.ID,
		Text: lines(claimComponents, "faults: crash(operator, 1)") + rescaled, Components: deletesSurplus,
		OwnRules: []invariant.Rule{liveClaim}, Config: explore.Config{Strategy: explore.Restarts}, Within: 40,
	},
	{
		Name: "cassandra-398", Project: "Cassandra Operator", Repository: "instaclustr/cassandra-operator",
		Issues: []string{"issue 398"}, Year: 2021, FoundBy: sieveFound,
		Title: "Claim leaks if the end of a pod is missed",
		What: "The operator deletes the claim of each pod that it sees terminating. If the pod is gone before the operator looks, " +
			"its claim stays.",
		Rule: surplusClaim.ID,
		Text: deletionWorld + lines(
			"user alice",
			"  apply {apiVersion: v1, kind: ConfigMap, metadata: {name: db}, data: {size: 1Gi, replicas: '1'}}",
			"  wait pod db-0 Running",
			"  patch configmap db data.replicas=\"0\"",
		),
		Components: deletesWithPods,
		OwnRules:   []invariant.Rule{surplusClaim}, Config: explore.Config{Strategy: explore.Holds}, Within: 160,
	},
	{
		Name: "cassandra-407", Project: "Cassandra Operator", Repository: "instaclustr/cassandra-operator",
		Issues: []string{"issue 407"}, Year: 2021, FoundBy: sieveFound,
		Title: "Stale terminating pod: successor's data gone",
		What: "A cluster shrinks and grows again. The operator restarts and sees the earlier pod of that name, terminating, in a " +
			"stale list. It deletes the claim, which the new pod uses.",
		Rule: liveClaim.ID,
		Text: deletionWorld + lines("faults: crash(operator, 1)",
			"user alice",
			"  apply {apiVersion: v1, kind: ConfigMap, metadata: {name: db}, data: {size: 1Gi, replicas: '1'}}",
			"  wait pod db-0 Running",
			"  patch configmap db data.replicas=\"0\"",
			"  wait claim data-db-0 gone",
			"  patch configmap db data.replicas=\"1\"",
		),
		Components: deletesWithPods,
		OwnRules:   []invariant.Rule{liveClaim}, Config: explore.Config{Strategy: explore.Restarts}, Within: 60,
	},
}, deletedByName(
	Bug{Name: "cassandra-402", Project: "Cassandra Operator", Repository: "instaclustr/cassandra-operator", Issues: []string{"issue 402", "pull 403"}},
	Bug{Name: "cass-operator-412", Project: "Cass Operator", Repository: "datastax/cass-operator", Issues: []string{"issue 412"}},
	Bug{Name: "casskop-316", Project: "CassKop", Repository: "Orange-OpenSource/casskop", Issues: []string{"issue 316"}},
	Bug{Name: "zookeeper-312", Project: "ZooKeeper Operator", Repository: "pravega/zookeeper-operator", Issues: []string{"issue 312"}},
))

// deletedByName completes bugs of the same race, which four projects had.
func deletedByName(bugs ...Bug) []Bug {
	for i := range bugs {
		b := &bugs[i]
		b.Year, b.FoundBy, b.Rule, b.Text, b.Components = 2021, sieveFound, liveClaim.ID, recreated, deletesByName
		b.Title = "Stale deletion: the next cluster's data gone"
		b.What = "A cluster is deleted and created again. The operator restarts and sees the deleted one in a stale list. It finds the " +
			"claims by the name of the cluster instead of its UID, and deletes those of the new one."
		b.OwnRules, b.Config, b.Within = []invariant.Rule{liveClaim}, explore.Config{Strategy: explore.Restarts}, 40
	}
	return bugs
}

// deletesByName returns an operator that deletes the claims of a cluster when that is being deleted. The
// mended one selects them by the UID of the cluster.
func deletesByName(broken bool) []cluster.Component {
	return operator(func(ctx context.Context, c clients, db *corev1.ConfigMap) error {
		if db.DeletionTimestamp == nil {
			return ensureClaim(ctx, c, db, 0)
		}
		selector := clusterLabel + "=" + db.Name
		if !broken {
			selector = uidLabel + "=" + string(db.UID)
		}
		claims, err := c.CoreV1().PersistentVolumeClaims(db.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		for i := range claims.Items {
			if err := deleteClaim(ctx, c, &claims.Items[i]); err != nil {
				return err
			}
		}
		db = db.DeepCopy()
		db.Finalizers = nil
		_, err = c.CoreV1().ConfigMaps(db.Namespace).Update(ctx, db, metav1.UpdateOptions{})
		return ignoreNotFound(err)
	}, "persistentvolumeclaims")
}

// deletesSurplus returns an operator that has a claim for each replica and deletes the others. The
// mended one reads the cluster from the server before it deletes.
func deletesSurplus(broken bool) []cluster.Component {
	return operator(func(ctx context.Context, c clients, db *corev1.ConfigMap) error {
		for i := range replicas(db) {
			if err := ensureClaim(ctx, c, db, i); err != nil {
				return err
			}
		}
		surplus, err := surplusClaims(ctx, c, db)
		if err != nil || len(surplus) == 0 {
			return err
		}
		if !broken {
			if stale, err := isStale(ctx, c, db); stale || err != nil {
				return err
			}
		}
		for _, claim := range surplus {
			if err := deleteClaim(ctx, c, claim); err != nil {
				return err
			}
		}
		return nil
	}, "persistentvolumeclaims")
}

// isStale reports whether the server has another version of a cluster. The event of that follows.
func isStale(ctx context.Context, c clients, db *corev1.ConfigMap) (bool, error) {
	live, err := c.live.CoreV1().ConfigMaps(db.Namespace).Get(ctx, db.Name, metav1.GetOptions{})
	if err != nil {
		return true, ignoreNotFound(err)
	}
	return live.ResourceVersion != db.ResourceVersion, nil
}

// deletesWithPods returns an operator that has a claim and a pod for each replica. It deletes surplus
// pods, and the claims of pods that it sees terminating. The mended one reads the cluster and the pod
// from the server before it deletes something, and deletes the claims of all surplus replicas.
func deletesWithPods(broken bool) []cluster.Component {
	return operator(func(ctx context.Context, c clients, db *corev1.ConfigMap) error {
		for i := range replicas(db) {
			if err := ensureMember(ctx, c, db, i); err != nil {
				return err
			}
		}
		if !broken {
			if stale, err := isStale(ctx, c, db); stale || err != nil {
				return err
			}
		}
		pods, err := c.CoreV1().Pods(db.Namespace).List(ctx, metav1.ListOptions{LabelSelector: clusterLabel + "=" + db.Name})
		if err != nil {
			return err
		}
		for i := range pods.Items {
			if err := retire(ctx, c, db, &pods.Items[i], !broken); err != nil {
				return err
			}
		}
		if broken {
			return nil
		}
		surplus, err := surplusClaims(ctx, c, db)
		for _, claim := range surplus {
			if err := deleteClaim(ctx, c, claim); err != nil {
				return err
			}
		}
		return err
	}, "persistentvolumeclaims", "pods")
}

// retire deletes a surplus pod, or the claim of a pod that is terminating.
func retire(ctx context.Context, c clients, db *corev1.ConfigMap, pod *corev1.Pod, confirm bool) error {
	if pod.DeletionTimestamp == nil {
		if i, _ := strconv.Atoi(pod.Labels[ordinalLabel]); i < replicas(db) {
			return nil
		}
		return ignoreNotFound(c.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}))
	}
	if confirm {
		live, err := c.live.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil || live.UID != pod.UID {
			return ignoreNotFound(err)
		}
	}
	claim, err := c.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, "data-"+pod.Name, metav1.GetOptions{})
	if err != nil {
		return ignoreNotFound(err)
	}
	return deleteClaim(ctx, c, claim)
}

// ordinalLabel has the number of the replica that an object belongs to.
const ordinalLabel = "ordinal"

// replicas returns the number of replicas of a cluster: 1, if it has none.
func replicas(db *corev1.ConfigMap) int {
	n, err := strconv.Atoi(db.Data["replicas"])
	if err != nil {
		return 1
	}
	return n
}

// ensureClaim creates the claim of a replica, if the cache has none.
func ensureClaim(ctx context.Context, c clients, db *corev1.ConfigMap, i int) error {
	name := fmt.Sprintf("data-%s-%d", db.Name, i)
	_, err := c.CoreV1().PersistentVolumeClaims(db.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return createClaim(ctx, c, db, name, map[string]string{ordinalLabel: strconv.Itoa(i)})
	}
	return err
}

// ensureMember creates the claim and the pod of a replica, if the caches have none.
func ensureMember(ctx context.Context, c clients, db *corev1.ConfigMap, i int) error {
	if err := ensureClaim(ctx, c, db, i); err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%d", db.Name, i)
	_, err := c.CoreV1().Pods(db.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		pod := cluster.NewPod(name, "data-"+name)
		pod.ObjectMeta = of(db, name, map[string]string{ordinalLabel: strconv.Itoa(i)})
		_, err = c.CoreV1().Pods(db.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	}
	return err
}

// surplusClaims returns the claims of a cluster that belong to none of its replicas.
func surplusClaims(ctx context.Context, c clients, db *corev1.ConfigMap) ([]*corev1.PersistentVolumeClaim, error) {
	claims, err := c.CoreV1().PersistentVolumeClaims(db.Namespace).List(ctx, metav1.ListOptions{LabelSelector: clusterLabel + "=" + db.Name})
	if err != nil {
		return nil, err
	}
	var surplus []*corev1.PersistentVolumeClaim
	for i := range claims.Items {
		if n, _ := strconv.Atoi(claims.Items[i].Labels[ordinalLabel]); n >= replicas(db) {
			surplus = append(surplus, &claims.Items[i])
		}
	}
	return surplus, nil
}

// deleteClaim deletes a claim, unless that has begun.
func deleteClaim(ctx context.Context, c clients, claim *corev1.PersistentVolumeClaim) error {
	if claim.DeletionTimestamp != nil {
		return nil
	}
	return ignoreNotFound(c.CoreV1().PersistentVolumeClaims(claim.Namespace).Delete(ctx, claim.Name, metav1.DeleteOptions{}))
}
