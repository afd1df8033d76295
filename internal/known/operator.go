package known

import (
	"context"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
)

// clusterLabel names the cluster that an object belongs to. uidLabel has the cluster's UID.
const (
	clusterLabel = "cluster"
	uidLabel     = "cluster-uid"
)

// Worlds of one node that run pods with claims.
var (
	storageWorld = lines("nodes: 1",
		"components: pvcontroller, provisioner, resizer, scheduler, attachdetach, attacher, kubelet")
	deletionWorld = lines("nodes: 1",
		"components: pvcontroller, pvcprotection, pvprotection, provisioner, scheduler, attachdetach, attacher, kubelet")
	jobWorld = lines("nodes: 1",
		"components: pvcontroller, provisioner, scheduler, attachdetach, attacher, kubelet, job")
)

// lines joins the lines of a scenario.
func lines(all ...string) string { return strings.Join(all, "\n") + "\n" }

// clients are the two clients of an operator.
type clients struct {
	clientset.Interface                     // reads from the caches of the operator's process
	live                clientset.Interface // reads from the API server
}

// operator returns a component that reconciles clusters: ConfigMaps. Objects of the watched resources
// that have the label of a cluster enqueue it.
func operator(reconcile func(ctx context.Context, c clients, cm *corev1.ConfigMap) error, watched ...string,
) []cluster.Component {
	cfg := cluster.ReconcilerConfig{Name: "operator", For: "configmaps", Build: func(p cluster.ComponentContext) (cluster.Reconcile, error) {
		c := clients{p.Client, p.WithReads(fake.ReadLive).Client}
		return func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
			cm, err := c.CoreV1().ConfigMaps(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
			if err != nil {
				return 0, ignoreNotFound(err)
			}
			return 0, reconcile(ctx, c, cm)
		}, nil
	}}
	for _, r := range watched {
		cfg.Watches = append(cfg.Watches, cluster.Watch{Resource: r, Keys: clusterOf})
	}
	return []cluster.Component{cluster.Reconciler(cfg)}
}

// clusterOf returns the key of an object's cluster.
func clusterOf(obj fake.Object) []types.NamespacedName {
	if name := obj.GetLabels()[clusterLabel]; name != "" {
		return []types.NamespacedName{{Namespace: obj.GetNamespace(), Name: name}}
	}
	return nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// of returns the metadata of an object of a cluster.
func of(cm *corev1.ConfigMap, name string, more map[string]string) metav1.ObjectMeta {
	labels := map[string]string{clusterLabel: cm.Name, uidLabel: string(cm.UID)}
	maps.Copy(labels, more)
	return metav1.ObjectMeta{Namespace: cm.Namespace, Name: name, Labels: labels}
}

// createClaim creates a claim of a cluster, of the size that the cluster has.
func createClaim(ctx context.Context, c clients, cm *corev1.ConfigMap, name string, labels map[string]string) error {
	claim := cluster.NewClaim(name, cm.Data["size"])
	claim.ObjectMeta = of(cm, name, labels)
	_, err := c.CoreV1().PersistentVolumeClaims(cm.Namespace).Create(ctx, claim, metav1.CreateOptions{})
	return err
}

// createPod creates a pod of a cluster that uses claims. A label has the cluster's image.
func createPod(ctx context.Context, c clients, cm *corev1.ConfigMap, name string, claims ...string) error {
	pod := cluster.NewPod(name, claims...)
	pod.ObjectMeta = of(cm, name, map[string]string{"image": cm.Data["image"]})
	_, err := c.CoreV1().Pods(cm.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// expandClaim requests the size of the cluster for a claim that requests less.
func expandClaim(ctx context.Context, c clients, cm *corev1.ConfigMap, claim *corev1.PersistentVolumeClaim) error {
	size := resource.MustParse(cm.Data["size"])
	if requested := claim.Spec.Resources.Requests[corev1.ResourceStorage]; requested.Cmp(size) >= 0 {
		return nil
	}
	claim = claim.DeepCopy()
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = size
	_, err := c.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
	return err
}
