package nodelifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/controllers/nodelifecycle"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// A node that does not report is declared dead after 50 s.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	process := host.Process("nodelifecycle")
	nodelifecycle.New(nodelifecycle.Config{
		Process: process, Client: server.Client(process), Informers: server.Informers(process),
		Recorder: record.NewFakeRecorder(10),
	})

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := errors.Join(server.Add(node), host.Run()); err != nil {
		log.Fatal(err)
	}
	node, err := server.Client(host.ExternalCaller()).CoreV1().Nodes().Get(context.Background(), "node-1", metav1.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(host.Now().Sub(sim.Epoch), node.Status.Conditions[0].Status, node.Spec.Taints[0].Key)
	// Output:
	// 50s Unknown node.kubernetes.io/unreachable
}
