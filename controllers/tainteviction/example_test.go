package tainteviction_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/controllers/tainteviction"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// A pod tolerates an unreachable node for five minutes: admission gives it that toleration.
func Example() {
	ctx := context.Background()
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	process := host.Process("tainteviction")
	tainteviction.New(tainteviction.Config{
		Process: process, Client: server.Client(process), Informers: server.Informers(process),
		Recorder: record.NewFakeRecorder(10),
	})

	client := server.Client(host.ExternalCaller()).CoreV1()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0"}}
	pod.Spec.NodeName = "node-1"
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "pause"}}
	_, created := client.Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	added := server.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})
	_, tainted := client.Nodes().Patch(ctx, "node-1", types.MergePatchType,
		[]byte(`{"spec":{"taints":[{"key":"node.kubernetes.io/unreachable","effect":"NoExecute"}]}}`), metav1.PatchOptions{})
	if err := errors.Join(created, added, tainted, host.Run()); err != nil {
		log.Fatal(err)
	}
	pod, err := client.Pods("default").Get(ctx, "web-0", metav1.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(host.Now().Sub(sim.Epoch), pod.DeletionTimestamp != nil, pod.Status.Conditions[0].Reason)
	// Output:
	// 5m0s true DeletionByTaintManager
}
