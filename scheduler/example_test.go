package scheduler_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/scheduler"
	"github.com/volsim/volsim/sim"
)

// Of two nodes only one is ready: the pod is assigned to it.
func Example() {
	ctx := context.Background()
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	process := host.Process("scheduler")
	client := server.Client(process)
	_, started := scheduler.New(scheduler.Config{
		Process: process, Client: client, Informers: server.Informers(process),
		Recorder: events.New(events.Config{Process: process, Client: client, Source: "default-scheduler"}),
	})

	node := func(name string, ready corev1.ConditionStatus) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
		return n
	}
	nodes := server.Add(node("node-1", corev1.ConditionFalse), node("node-2", corev1.ConditionTrue))
	pods := server.Client(host.ExternalCaller()).CoreV1().Pods("default")
	_, created := pods.Create(ctx, cluster.NewPod("web"), metav1.CreateOptions{})
	ran := host.Run()
	web, err := pods.Get(ctx, "web", metav1.GetOptions{})
	fmt.Println(web.Spec.NodeName, errors.Join(started, nodes, created, ran, err))
	// Output: node-2 <nil>
}
