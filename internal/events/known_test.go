package events

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

func TestKnownEventsAreBounded(t *testing.T) {
	t.Parallel()
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	c := host.Process("controller")
	r := New(Config{Process: c, Client: server.Client(c), Source: "source"})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "1"}}
	record := func(from, to int) {
		t.Helper()
		c.User("records", func(context.Context) {
			for i := from; i < to; i++ {
				r.Event(pod, corev1.EventTypeNormal, "Reason", fmt.Sprint(i))
			}
		})
		if err := host.Run(); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, known, stored int) {
		t.Helper()
		if len(r.known) != known || len(server.List("events")) != stored {
			t.Errorf("%s: %d known and %d stored, want %d and %d", what, len(r.known), len(server.List("events")),
				known, stored)
		}
	}
	record(0, knownMax)
	expect("full", knownMax, knownMax)
	record(0, 1)
	expect("an event that is known", knownMax, knownMax)
	record(knownMax, knownMax+1)
	expect("one more", 1, knownMax+1)
	record(0, 1)
	expect("an event that was forgotten", 2, knownMax+2)
}
