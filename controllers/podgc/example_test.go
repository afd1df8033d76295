package podgc_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/controllers/podgc"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// A pod outlives its Node by 40 s.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	process := host.Process("podgc")
	podgc.New(podgc.Config{Process: process, Client: server.Client(process), Informers: server.Informers(process)})

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0"}}
	pod.Spec.NodeName = node.Name
	client := server.Client(host.ExternalCaller())
	created := server.Add(node, pod)
	ran := host.Run()
	deleted := client.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{})
	if err := errors.Join(created, ran, deleted, host.Run()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(server.List("pods")), "pods after", host.Now().Sub(sim.Epoch))
	// Output:
	// 0 pods after 40s
}
