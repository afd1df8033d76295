package ephemeral_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/controllers/ephemeral"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/sim"
)

// A pod with a generic ephemeral volume gets a claim.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	process := host.Process("ephemeral")
	client := server.Client(process)
	ephemeral.New(ephemeral.Config{
		Process: process, Client: client, Informers: server.Informers(process),
		Recorder: events.New(events.Config{Process: process, Client: client, Source: ephemeral.EventSource}),
	})

	user := server.Client(host.ExternalCaller()).CoreV1()
	_, err := user.Pods("default").Create(context.Background(), pod("scratch"), metav1.CreateOptions{})
	if err := errors.Join(err, host.Run()); err != nil {
		log.Fatal(err)
	}
	for _, claim := range server.List("persistentvolumeclaims") {
		fmt.Println(claim.GetName(), "of pod", metav1.GetControllerOf(claim).Name)
	}
	// Output: web-scratch of pod web
}
