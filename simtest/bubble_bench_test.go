package simtest_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/simtest"
)

// inTest runs f as a test, which a bubble needs.
func inTest(b *testing.B, f func(t *testing.T)) {
	b.Helper()
	all := func(string, string) (bool, error) { return true, nil }
	if !testing.RunTests(all, []testing.InternalTest{{Name: b.Name(), F: f}}) {
		b.Fatal("it failed")
	}
}

// BenchmarkEmptyBubble makes a bubble and an API server, and ends them.
func BenchmarkEmptyBubble(b *testing.B) {
	b.ReportAllocs()
	inTest(b, func(t *testing.T) {
		for b.Loop() {
			simtest.Bubble(t, sim.FIFO{}, func(*testing.T, *simtest.BubbleWorld) {})
		}
	})
}

// BenchmarkBubbleRequest has one goroutine make one request after the other, each let go by itself.
func BenchmarkBubbleRequest(b *testing.B) {
	b.ReportAllocs()
	inTest(b, func(t *testing.T) {
		for i := 0; i < b.N; i += 10_000 {
			simtest.Bubble(t, sim.FIFO{}, func(t *testing.T, w *simtest.BubbleWorld) {
				maps := w.Client("user").CoreV1().ConfigMaps("default")
				for range min(10_000, b.N-i) {
					if _, err := maps.Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{}); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	})
}

// BenchmarkBubble is a whole run of a controller with two informers and two workers, by the ways in.
func BenchmarkBubble(b *testing.B) {
	for _, way := range clients {
		for _, size := range []struct {
			name   string
			others int
		}{{"small", 0}, {"10 others", 10}} {
			b.Run(way.name+"/"+size.name, func(b *testing.B) {
				b.ReportAllocs()
				steps := 0
				inTest(b, func(t *testing.T) {
					for seed := uint64(0); b.Loop(); seed++ {
						simtest.Bubble(t, sim.NewSeeded(seed), func(t *testing.T, w *simtest.BubbleWorld) {
							protect(t, w, size.others, true, way.make)
							steps += w.Trace().Steps()
						})
					}
				})
				b.ReportMetric(float64(steps)/float64(b.N), "steps/op")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(steps), "ns/step")
			})
		}
	}
}
