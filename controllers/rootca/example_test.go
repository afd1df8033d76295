package rootca_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/controllers/rootca"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// A new namespace receives the cluster's root certificate.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	process := host.Process("rootca")
	rootca.New(rootca.Config{
		Process: process, Client: server.Client(process), Informers: server.Informers(process),
		RootCA: "the certificate, as PEM",
	})

	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	_, err := server.Client(host.ExternalCaller()).CoreV1().Namespaces().Create(context.Background(), shop,
		metav1.CreateOptions{})
	if err := errors.Join(err, host.Run()); err != nil {
		log.Fatal(err)
	}
	published, ok := server.Get("configmaps", "shop", rootca.ConfigMapName)
	if !ok {
		log.Fatal("no config map")
	}
	fmt.Println(published.GetName(), published.(*corev1.ConfigMap).Data)
	// Output: kube-root-ca.crt map[ca.crt:the certificate, as PEM]
}
