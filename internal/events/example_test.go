package events_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/sim"
)

// A controller records an event twice; the API has one event with a count.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	c := host.Process("pvcontroller")
	recorder := events.New(events.Config{Process: c, Client: server.Client(c), Source: "persistentvolume-controller"})

	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "1"}}
	c.Spawn("claims", func(context.Context) {
		for range 2 {
			recorder.Event(claim, corev1.EventTypeNormal, "FailedBinding",
				"no persistent volumes available for this claim")
		}
	})
	if err := host.Run(); err != nil {
		log.Fatal(err)
	}
	for _, obj := range server.List("events") {
		e := obj.(*corev1.Event)
		fmt.Printf("%s %s %s/%s: %s (%d times)\n", e.Type, e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name,
			e.Message, e.Count)
	}
	// Output:
	// Normal FailedBinding PersistentVolumeClaim/data: no persistent volumes available for this claim (2 times)
}
