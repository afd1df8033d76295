package testworld_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// TestWorldRunsTasks runs a task that waits for an object of the test.
func TestWorldRunsTasks(t *testing.T) {
	w := testworld.New(t, sim.SteppedConfig{})
	ran := false
	w.Host.Process("worker").Spawn("", func(context.Context) { ran = true })
	testcheck.Must(w.User.CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}, metav1.CreateOptions{}))
	w.Until("the task to run", func() bool { return ran })
	w.Run()
	if _, ok := w.Server.Get("configmaps", "default", "settings"); !ok {
		t.Error("the config map does not exist")
	}
}

// TestActImmediatelyDuringARequest: the test acts within a request of a task, without a record.
func TestActImmediatelyDuringARequest(t *testing.T) {
	w := testworld.NewWith(t, sim.SteppedConfig{}, fake.Config{Namespaces: []string{"other"}})
	w.ActImmediately()
	worker := w.Host.Process("worker")
	worker.Spawn("", func(context.Context) {
		worker.Call(trace.Action{Kind: trace.KindAPI, Verb: "work"}, func() trace.Outcome {
			testcheck.Must(w.User.CoreV1().ConfigMaps("other").Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}, metav1.CreateOptions{}))
			return trace.Outcome{}
		})
	})
	w.Run()
	if _, ok := w.Server.Get("configmaps", "other", "settings"); !ok {
		t.Error("the config map does not exist")
	}
	for _, r := range w.Host.Log().Records() {
		if r.Kind == trace.KindAPI && r.Verb != "work" {
			t.Errorf("recorded: %s %s", r.Task, r.Verb)
		}
	}
}

// TestLiveHost: a world may have a live host, and replace it.
func TestLiveHost(t *testing.T) {
	w := testworld.NewOn[sim.Host](t, sim.NewLive(sim.LiveConfig{}), fake.Config{})
	create := func(name string) {
		worker := w.Host.Process("worker")
		client := w.Server.Client(worker).CoreV1().ConfigMaps("default")
		worker.Spawn("", func(ctx context.Context) {
			testcheck.Must(client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}},
				metav1.CreateOptions{}))
		})
		w.Host.Start()
		w.Until("the config map", func() bool {
			_, ok := w.Hostless().Server.Get("configmaps", "default", name)
			return ok
		})
	}
	create("live")
	w.Host.Close()
	w.Host = sim.NewStepped(sim.SteppedConfig{})
	create("stepped")
	w.Run()
}
