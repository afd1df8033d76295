package remote_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/controllers/serviceaccount"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/internal/remote"
	"github.com/volsim/volsim/sim"
)

// A controller runs against an API server that it reaches by HTTPS. Any other client configuration
// works as well.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	host := sim.NewLive(sim.LiveConfig{})
	server := fake.NewServer(fake.Config{Now: host.Now})
	listener, err := apiserver.Listen(apiserver.ListenConfig{Handler: apiserver.NewHandler(server,
		apiserver.HandlerConfig{
			Caller: func(*http.Request) sim.Caller { return sim.DirectCaller() },
		})})
	if err != nil {
		log.Fatal(err)
	}

	process := host.Process("serviceaccount")
	conn, err := remote.New(listener.Config(), process)
	if err != nil {
		log.Fatal(err)
	}
	serviceaccount.New(serviceaccount.Config{Process: process, Client: conn.Client(), Informers: conn.Informers()})
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn.Run(ctx)
	}()
	host.Start()

	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	_, created := server.Client(sim.DirectCaller()).CoreV1().Namespaces().Create(ctx, shop, metav1.CreateOptions{})
	waited := host.Wait(ctx, "the account", func() bool {
		_, there := server.Get("serviceaccounts", "shop", serviceaccount.AccountName)
		return there
	})
	fmt.Println("account created:", errors.Join(created, waited) == nil)

	host.Close() // requests first, then the informers, then the server
	cancel()
	<-done
	fmt.Println(listener.Close())
	// Output:
	// account created: true
	// <nil>
}
