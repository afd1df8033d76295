package deployment_test

import (
	"context"
	"fmt"
	"log"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/deployment"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/sim"
)

// A Deployment has a ReplicaSet for its template, which creates the pods.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	process := host.Process("deployment")
	client := server.Client(process)
	deployment.New(deployment.Config{
		Process: process, Client: client, Informers: server.Informers(process),
		Recorder: events.New(events.Config{Process: process, Client: client, Source: deployment.EventSource}),
	})

	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](3), Selector: &metav1.LabelSelector{MatchLabels: labels}, ProgressDeadlineSeconds: ptr.To[int32](60),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image"}}},
			},
		},
	}
	user := server.Client(host.ExternalCaller()).AppsV1().Deployments("default")
	if _, err := user.Create(context.Background(), d, metav1.CreateOptions{}); err != nil {
		log.Fatal(err)
	}
	if err := host.Run(); err != nil {
		log.Fatal(err)
	}
	for _, obj := range server.List("replicasets") {
		fmt.Println("a set of", *obj.(*appsv1.ReplicaSet).Spec.Replicas)
	}
	d, err := user.Get(context.Background(), "web", metav1.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range d.Status.Conditions { // nothing creates the pods
		if c.Type == appsv1.DeploymentProgressing {
			fmt.Println(c.Status, c.Reason)
		}
	}
	// Output:
	// a set of 3
	// False ProgressDeadlineExceeded
}
