package events_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

// TestPeriodicEventsLetAWorldRest checks a state every minute and records what it finds. The world
// is at rest after one check, and the count follows the checks when time passes.
func TestPeriodicEventsLetAWorldRest(t *testing.T) {
	t.Parallel()
	w := testworld.NewWith(t, sim.SteppedConfig{StepsMax: 1000}, fake.Config{})
	process := w.Host.Process("monitor")
	recorder := events.New(events.Config{Process: process, Client: w.Server.Client(process), Source: "monitor", Periodic: true})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "1"}}
	checks := sim.NewQueue[string](process, sim.QueueConfig{Name: "checks", Background: true})
	checks.Work(func(_ context.Context, key string) error {
		recorder.Event(pod, corev1.EventTypeWarning, "Sick", "a")
		recorder.Event(pod, corev1.EventTypeWarning, "Sick", "b")
		checks.AddAfter(key, time.Minute)
		return nil
	})
	checks.Add("state")
	for n := range int32(3) {
		w.Run()
		var counts []int32
		for _, obj := range w.Server.List("events") {
			counts = append(counts, obj.(*corev1.Event).Count)
		}
		testcheck.Equal(t, "counts", []int32{n + 1, n + 1}, counts)
		w.Host.SetTime(w.Host.Now().Add(time.Minute))
	}
}
