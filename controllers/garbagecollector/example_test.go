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

// A secret that a config map owns is deleted with it; another secret stays.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	process := host.Process("garbagecollector")
	client := server.Client(process)
	garbagecollector.New(garbagecollector.Config{
		Process: process, Client: client.Metadata(), Watcher: server.MetadataWatcher(process),
		Recorder: events.New(events.Config{Process: process, Client: client, Source: garbagecollector.EventSource}),
	})

	owner := metav1.ObjectMeta{Namespace: "default", Name: "app", UID: "1"}
	owned := metav1.ObjectMeta{
		Namespace: "default", Name: "app-key",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "app", UID: "1"}},
	}
	free := metav1.ObjectMeta{Namespace: "default", Name: "key"}
	created := server.Add(&corev1.ConfigMap{ObjectMeta: owner}, &corev1.Secret{ObjectMeta: owned},
		&corev1.Secret{ObjectMeta: free})
	maps := server.Client(host.ExternalCaller()).CoreV1().ConfigMaps("default")
	deleted := maps.Delete(context.Background(), "app", metav1.DeleteOptions{})
	if err := errors.Join(created, deleted, host.Run()); err != nil {
		log.Fatal(err)
	}
	for _, left := range server.List("secrets") {
		fmt.Println(left.GetName())
	}
	// Output: key
}
