package namespace_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/controllers/namespace"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// A deleted namespace: its content is deleted, and then the namespace itself.
func Example() {
	ctx := context.Background()
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now, Namespaces: []string{"shop"}})
	process := host.Process("namespace")
	client := server.Client(process)
	namespace.New(namespace.Config{
		Process: process, Client: client, Metadata: client.Metadata(),
		Informers: server.Informers(process), Watcher: server.MetadataWatcher(process),
		Discover: client.ServerPreferredNamespacedResources,
	})

	user := server.Client(host.ExternalCaller())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "key"}}
	_, created := user.CoreV1().Secrets("shop").Create(ctx, secret, metav1.CreateOptions{})
	deleted := user.CoreV1().Namespaces().Delete(ctx, "shop", metav1.DeleteOptions{})
	show := func(when string) {
		_, exists := server.Get("namespaces", "", "shop")
		fmt.Println(when, "namespace:", exists, "secrets:", len(server.List("secrets")))
	}
	show("before")
	if err := errors.Join(created, deleted, host.Run()); err != nil {
		log.Fatal(err)
	}
	show("after")
	// Output:
	// before namespace: true secrets: 1
	// after namespace: false secrets: 0
}
