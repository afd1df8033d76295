package controller

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	appsv1 "github.com/volsim/volsim/test/kubebuilder/api/v1"
)

// These specs need the controllers of a cluster. On controller-runtime's envtest each of them waits
// in vain.
var _ = Describe("Databases in a cluster", Ordered, func() {
	const namespace = "team"

	var database *appsv1.Database

	BeforeAll(func() {
		SetDefaultEventuallyTimeout(30 * time.Second) // for a busy machine
		manager, err := ctrl.NewManager(cfg, ctrl.Options{
			Scheme:  k8sClient.Scheme(),
			Metrics: metricsserver.Options{BindAddress: "0"},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect((&DatabaseReconciler{Client: manager.GetClient(), Scheme: manager.GetScheme()}).SetupWithManager(manager)).To(Succeed())
		managerCtx, stop := context.WithCancel(ctx)
		stopped := make(chan error)
		go func() { stopped <- manager.Start(managerCtx) }()
		DeferCleanup(func() {
			stop()
			Expect(<-stopped).To(Succeed())
		})

		Expect(k8sClient.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
		database = newDatabase("orders", namespace)
		Expect(k8sClient.Create(ctx, database)).To(Succeed())
	})

	phaseOfClaim := func(name string) func() (corev1.PersistentVolumeClaimPhase, error) {
		return func() (corev1.PersistentVolumeClaimPhase, error) {
			var claim corev1.PersistentVolumeClaim
			err := k8sClient.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &claim)
			return claim.Status.Phase, err
		}
	}
	readyReplicas := func() (int32, error) {
		err := k8sClient.Get(ctx, client.ObjectKeyFromObject(database), database)
		return database.Status.ReadyReplicas, err
	}
	children := func() (int, error) {
		var pods corev1.PodList
		var claims corev1.PersistentVolumeClaimList
		if err := k8sClient.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
			return 0, err
		}
		err := k8sClient.List(ctx, &claims, client.InNamespace(namespace))
		return len(pods.Items) + len(claims.Items), err
	}

	It("binds the claims and runs the pods", func() {
		for i := range 2 {
			Eventually(phaseOfClaim(fmt.Sprintf("orders-%d", i))).Should(Equal(corev1.ClaimBound))
		}
		Eventually(readyReplicas).Should(BeEquivalentTo(2))
	})

	It("keeps the data of a replica when its pod is replaced", func() {
		c := testEnv.Cluster()
		Expect(c.WriteFile(namespace, "orders-0", "data", "row", []byte("42"))).To(Succeed())
		first, second := &corev1.Pod{}, &corev1.Pod{}
		Expect(k8sClient.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "orders-0"}, first)).To(Succeed())
		Expect(k8sClient.Delete(ctx, first)).To(Succeed())
		Eventually(func() (bool, error) {
			err := k8sClient.Get(ctx, client.ObjectKeyFromObject(first), second)
			return second.UID != first.UID && second.Status.Phase == corev1.PodRunning, client.IgnoreNotFound(err)
		}).Should(BeTrue())
		Expect(c.ReadFile(namespace, "orders-0", "data", "row")).To(Equal([]byte("42")))
	})

	It("removes claim, pod and volume of a surplus replica", func() {
		Eventually(func() error {
			if err := k8sClient.Get(ctx, client.ObjectKeyFromObject(database), database); err != nil {
				return err
			}
			database.Spec.Replicas = ptr.To(int32(1))
			return k8sClient.Update(ctx, database)
		}).Should(Succeed())
		Eventually(children).Should(Equal(2))
		Eventually(func() (int, error) {
			var volumes corev1.PersistentVolumeList
			err := k8sClient.List(ctx, &volumes)
			return len(volumes.Items), err
		}).Should(BeNumerically("<=", 2)) // of this replica, and of the other spec's database
	})

	It("collects the children of a deleted owner", func() {
		Expect(k8sClient.Delete(ctx, database)).To(Succeed())
		Eventually(children).Should(BeZero())
	})

	It("empties and removes a deleted namespace", func() {
		Expect(k8sClient.Create(ctx, newDatabase("carts", namespace))).To(Succeed())
		Eventually(phaseOfClaim("carts-1")).Should(Equal(corev1.ClaimBound))
		Expect(k8sClient.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
		Eventually(func() bool {
			err := k8sClient.Get(ctx, types.NamespacedName{Name: namespace}, &corev1.Namespace{})
			return errors.IsNotFound(err)
		}).Should(BeTrue())
	})
})

func newDatabase(name, namespace string) *appsv1.Database {
	return &appsv1.Database{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       appsv1.DatabaseSpec{Replicas: ptr.To(int32(2)), Storage: resource.MustParse("64Mi")},
	}
}
