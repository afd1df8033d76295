package volumebinding

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/scheduler/internal/framework"
	"github.com/volsim/volsim/sim"
)

// BenchmarkFilter decides about a pod on 1,000 nodes.
func BenchmarkFilter(b *testing.B) {
	const nodesMax = 1000
	for name, fill := range map[string]func(w *rig, node string) *corev1.Pod{
		"bound": func(w *rig, _ string) *corev1.Pod {
			w.cached(boundClaimA, volume("v-bound", "", "1G", waits, of(boundClaimA)))
			return pod("p", "bound")
		},
		"provisioned": func(w *rig, _ string) *corev1.Pod {
			w.cached(claim("c", "1G", everywhere))
			return pod("p", "c")
		},
		"local": func(w *rig, node string) *corev1.Pod { // three volumes of each node
			w.cached(small)
			for i := range 3 {
				w.cached(volume(fmt.Sprint(node, "-", i), node, "5G", waits))
			}
			return pod("p", "small")
		},
		"capacity": func(w *rig, node string) *corev1.Pod { // published for each node
			w.cached(claim("c", "1G", everywhere), driver(true), capacity(node, everywhere, node, "5G", ""))
			return pod("p", "c")
		},
	} {
		b.Run(name, func(b *testing.B) {
			w := &rig{World: testworld.NewWith(b, sim.SteppedConfig{}, fake.Config{})}
			process := w.Host.Process("scheduler")
			w.caches = w.Server.Informers(process)
			w.plugin = New(framework.Handle{Process: process, Client: w.User, Informers: w.caches}, Args{})
			w.cached(classes()...)
			class := w.plugin.class(provided).DeepCopy()
			class.Name, class.AllowedTopologies = everywhere, nil
			w.cached(class)
			var asked *corev1.Pod
			nodes := make([]*corev1.Node, nodesMax)
			for i := range nodes {
				nodes[i] = node(fmt.Sprintf("n%04d", i), "zone", "z", "arch", "a", "os", "linux")
				asked = fill(w, nodes[i].Name)
			}
			info, err := framework.NewPodInfo(asked)
			w.NoError(err)
			snapshot := framework.NewSnapshot(nodes, nil)
			b.ReportAllocs()
			for b.Loop() {
				cycle := framework.NewCycle(info, snapshot)
				if _, status := w.plugin.PreFilter(cycle); status != nil {
					b.Fatal(status)
				}
				for _, n := range snapshot.Nodes() {
					if status := w.plugin.Filter(cycle, n); status != nil {
						b.Fatal(status)
					}
				}
			}
		})
	}
}
