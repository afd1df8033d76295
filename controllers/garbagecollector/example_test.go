package garbagecollector_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/controllers/garbagecollector"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/sim"
)

// A secret that a config map owns goes with it; another secret stays.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	component := host.Process("garbagecollector")
	client := server.Client(component)
	garbagecollector.New(garbagecollector.Config{
		Process: component, Client: client.Metadata(), Watcher: server.MetadataWatcher(component),
		Recorder: events.New(events.Config{Process: component, Client: client, Source: garbagecollector.EventSource}),
	})

	owner := metav1.ObjectMeta{Namespace: "default", Name: "app", UID: "1"}
	owned := metav1.ObjectMeta{
		Namespace: "default", Name: "app-key",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "app", UID: "1"}},
	}
	free := metav1.ObjectMeta{Namespace: "default", Name: "key"}
	made := server.Add(&corev1.ConfigMap{ObjectMeta: owner}, &corev1.Secret{ObjectMeta: owned}, &corev1.Secret{ObjectMeta: free})
	maps := server.Client(host.ExternalCaller()).CoreV1().ConfigMaps("default")
	deleted := maps.Delete(context.Background(), "app", metav1.DeleteOptions{})
	if err := errors.Join(made, deleted, host.Run()); err != nil {
		log.Fatal(err)
	}
	for _, left := range server.List("secrets") {
		fmt.Println(left.GetName())
	}
	// Output: key
}
