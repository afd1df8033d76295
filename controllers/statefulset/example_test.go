package statefulset_test

import (
	"context"
	"fmt"
	"log"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/statefulset"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/sim"
)

// An ordered set creates its first pod, and waits until it is ready. A parallel one creates all.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	process := host.Process("statefulset")
	client := server.Client(process)
	statefulset.New(statefulset.Config{
		Process: process, Client: client, Informers: server.Informers(process),
		Recorder: events.New(events.Config{Process: process, Client: client, Source: statefulset.EventSource}),
	})

	newSet := func(name string, policy appsv1.PodManagementPolicyType) *appsv1.StatefulSet {
		labels := map[string]string{"app": name}
		return &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: appsv1.StatefulSetSpec{
				Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: labels}, PodManagementPolicy: policy,
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image"}}},
				},
			},
		}
	}
	user := server.Client(host.ExternalCaller()).AppsV1().StatefulSets("default")
	for _, set := range []*appsv1.StatefulSet{
		newSet("all", appsv1.ParallelPodManagement), newSet("web", appsv1.OrderedReadyPodManagement),
	} {
		if _, err := user.Create(context.Background(), set, metav1.CreateOptions{}); err != nil {
			log.Fatal(err)
		}
	}
	if err := host.Run(); err != nil {
		log.Fatal(err)
	}
	for _, pod := range server.List("pods") {
		fmt.Println(pod.GetName())
	}
	// Output:
	// all-0
	// all-1
	// web-0
}
