package serviceaccount_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/controllers/serviceaccount"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// A new namespace receives its ServiceAccount.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	process := host.Process("serviceaccount")
	serviceaccount.New(serviceaccount.Config{
		Process: process, Client: server.Client(process), Informers: server.Informers(process),
	})

	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	_, err := server.Client(host.ExternalCaller()).CoreV1().Namespaces().Create(context.Background(), shop,
		metav1.CreateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	_, before := server.Get("serviceaccounts", "shop", serviceaccount.AccountName)
	err = host.Run()
	_, after := server.Get("serviceaccounts", "shop", serviceaccount.AccountName)
	fmt.Println(before, after, err)
	// Output: false true <nil>
}
