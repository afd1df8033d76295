package pvcprotection_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/controllers/pvcprotection"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// A deleted claim that a pod uses stays until the pod is gone.
func Example() {
	ctx := context.Background()
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	process := host.Process("pvcprotection")
	pvcprotection.New(pvcprotection.Config{
		Process: process, Client: server.Client(process), Informers: server.Informers(process),
	})

	user := server.Client(host.ExternalCaller()).CoreV1()
	claims, pods := user.PersistentVolumeClaims("default"), user.Pods("default")
	web := cluster.NewPod("web", "data")
	web.Spec.NodeName = "node-1"
	_, claimCreated := claims.Create(ctx, cluster.NewClaim("data", "1Gi"), metav1.CreateOptions{})
	_, podCreated := pods.Create(ctx, web, metav1.CreateOptions{})
	claimDeleted := claims.Delete(ctx, "data", metav1.DeleteOptions{})
	if err := errors.Join(claimCreated, podCreated, claimDeleted, host.Run()); err != nil {
		log.Fatal(err)
	}
	_, exists := server.Get("persistentvolumeclaims", "default", "data")
	fmt.Println("while the pod exists:", exists)

	atOnce := int64(0)
	podDeleted := pods.Delete(ctx, "web", metav1.DeleteOptions{GracePeriodSeconds: &atOnce})
	if err := errors.Join(podDeleted, host.Run()); err != nil {
		log.Fatal(err)
	}
	_, exists = server.Get("persistentvolumeclaims", "default", "data")
	fmt.Println("after:", exists)
	// Output:
	// while the pod exists: true
	// after: false
}
