package simtest_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/simtest"
)

// How to test a controller in a bubble: a subtest for each seed runs the unmodified controller over a
// client of the bubble, a concurrent user, and checks a rule. A seed that violates the rule shows the
// trace and the choices for a sim.Replay.
func TestAClaimInUseStays(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			simtest.Bubble(t, sim.NewSeeded(seed), func(t *testing.T, b *simtest.BubbleWorld) {
				ctx := b.Context()
				create(t, b.Direct(), newClaim("data"))
				controller := &protector{client: b.Client("protector"), live: true}
				go controller.run(ctx)
				b.Settle(time.Second) // WaitForCacheSync looks from time to time

				// Requests of the test itself block too, and other requests run in between.
				user := b.Client("user")
				create(t, user, newPod("app", "data"))
				if err := user.CoreV1().PersistentVolumeClaims("default").Delete(ctx, "data", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				b.Settle(time.Minute) // back-offs included

				if _, ok := b.Server().Get("persistentvolumeclaims", "default", "data"); !ok {
					t.Error("the claim went while its pod was there")
				}
			})
		})
	}
}

func create(t *testing.T, client kubernetes.Interface, obj any) {
	t.Helper()
	var err error
	switch obj := obj.(type) {
	case *corev1.PersistentVolumeClaim:
		_, err = client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), obj, metav1.CreateOptions{})
	case *corev1.Pod:
		_, err = client.CoreV1().Pods("default").Create(t.Context(), obj, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func newClaim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
}

func newPod(name, claim string) *corev1.Pod {
	source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "app:1"}},
			Volumes:    []corev1.Volume{{Name: "data", VolumeSource: source}},
		},
	}
}
