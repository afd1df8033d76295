package replicaset_test

import (
	"context"
	"fmt"
	"log"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/replicaset"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/sim"
)

// A set has as many pods as replicas.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	process := host.Process("replicaset")
	client := server.Client(process)
	replicaset.New(replicaset.Config{
		Process: process, Client: client, Informers: server.Informers(process),
		Recorder: events.New(events.Config{Process: process, Client: client, Source: replicaset.EventSource}),
	})

	labels := map[string]string{"app": "web"}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To[int32](3), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image"}}},
			},
		},
	}
	user := server.Client(host.ExternalCaller()).AppsV1().ReplicaSets("default")
	if _, err := user.Create(context.Background(), set, metav1.CreateOptions{}); err != nil {
		log.Fatal(err)
	}
	if err := host.Run(); err != nil {
		log.Fatal(err)
	}
	set, err := user.Get(context.Background(), "web", metav1.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(server.List("pods")), "pods, status", set.Status.Replicas)
	// Output: 3 pods, status 3
}
