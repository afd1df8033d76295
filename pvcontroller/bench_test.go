package pvcontroller_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

// BenchmarkBindTwoByTwo creates a world of only the server and the controller, binds two claims to
// two volumes under a drawn schedule, and discards it, as an explorer does for each schedule.
func BenchmarkBindTwoByTwo(b *testing.B) {
	b.ReportAllocs()
	steps := 0
	for i := 0; b.Loop(); i++ {
		steps += bindTwoByTwo(b, uint64(i))
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "schedules/s")
	b.ReportMetric(float64(steps)/float64(b.N), "steps/op")
}

// bindTwoByTwo runs one such world and returns the number of steps.
func bindTwoByTwo(b *testing.B, seed uint64) int {
	host := sim.NewStepped(sim.SteppedConfig{Chooser: sim.NewSeeded(seed), StepsMax: 20_000})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now, SkipBootstrap: true})
	w := &world{&testworld.World{
		TB: b, Host: host, Server: server, User: server.Client(testworld.ImmediateCaller(host.Now)),
	}}
	w.control()
	for _, name := range []string{"1", "2"} {
		w.volume("v"+name, "1Gi")
		w.claim("c"+name, "1Gi")
	}
	w.Run()
	for _, resource := range []string{"persistentvolumes", "persistentvolumeclaims"} {
		for _, obj := range server.List(resource) {
			if !isBound(obj) {
				b.Fatalf("seed %d: %s/%s is not bound:\n%s", seed, resource, obj.GetName(), w.state())
			}
		}
	}
	return host.Steps()
}

func isBound(obj fake.Object) bool {
	switch o := obj.(type) {
	case *corev1.PersistentVolume:
		return o.Status.Phase == corev1.VolumeBound
	case *corev1.PersistentVolumeClaim:
		return o.Status.Phase == corev1.ClaimBound
	}
	return false
}
