package disruption_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/controllers/disruption"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// Of two pods, one must stay.
func Example() {
	ctx := context.Background()
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	process := host.Process("disruption")
	own := server.Client(process)
	disruption.New(disruption.Config{
		Process: process, Client: own, Informers: server.Informers(process), Recorder: record.NewFakeRecorder(10),
		Dynamic: own.Dynamic(), Discover: own.ServerPreferredNamespacedResources,
	})

	labels, one := map[string]string{"app": "web"}, intstr.FromInt32(1)
	for _, name := range []string{"web-0", "web-1"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels}}
		pod.Spec.NodeName = "node-1"
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		if err := server.Add(pod); err != nil {
			log.Fatal(err)
		}
	}
	client := server.Client(host.ExternalCaller())
	_, err := client.PolicyV1().PodDisruptionBudgets("default").Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}, metav1.CreateOptions{})
	if err := errors.Join(err, host.Run()); err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"web-0", "web-1"} {
		fmt.Println(client.CoreV1().Pods("default").EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	// Output:
	// <nil>
	// Cannot evict pod as it would violate the pod's disruption budget.
}
