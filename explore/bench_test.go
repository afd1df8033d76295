package explore_test

import (
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
)

func bench(b *testing.B, s *scenario.Scenario) {
	b.ReportAllocs()
	r, err := explore.Search(b.Context(), s, explore.Config{Strategy: explore.Random, Count: b.N + 1, NoFaults: true})
	if err != nil || r.Failure != nil {
		b.Fatal(r.Failure, err)
	}
	b.ReportMetric(float64(r.Steps)/float64(r.Schedules), "steps/op")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(r.Steps), "ns/step")
	b.ReportMetric(float64(r.Schedules)/b.Elapsed().Seconds(), "schedules/s")
}

// BenchmarkBind binds two claims to two volumes, with every invariant checked.
func BenchmarkBind(b *testing.B) { bench(b, twoClaims(b)) }

// podLife is the life cycle of a pod with a volume, in a whole cluster.
const podLife = `
user alice
  create claim data 1Gi
  create pod web data
  wait pod web Running
  delete pod web
  wait pod web gone
  delete claim data
`

// BenchmarkLife runs the life cycle of a pod with a volume in a whole cluster, with every invariant
// checked.
func BenchmarkLife(b *testing.B) {
	s, err := scenario.Parse("life", podLife)
	if err != nil {
		b.Fatal(err)
	}
	bench(b, s)
}

// BenchmarkSet creates a StatefulSet of two pods with claims in a whole cluster, scales it in and
// deletes it, with every invariant checked.
func BenchmarkSet(b *testing.B) {
	s, err := scenario.Parse("set", "nodes: 1\n"+aSet+`
  wait statefulset web status.readyReplicas=2
  patch statefulset web spec.replicas=1
  wait pod web-1 gone
  delete statefulset web
  wait pod web-0 gone
`)
	if err != nil {
		b.Fatal(err)
	}
	bench(b, s)
}
