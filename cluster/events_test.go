package cluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// TestLifecycleUnderEvents checks that the life cycle of a volume completes whatever controller
// crashes at whatever step, with stale lists, conflicts, lost answers and failing drivers.
func TestLifecycleUnderEvents(t *testing.T) {
	seeds := 300
	if testing.Short() {
		seeds = 30
	}
	befell := map[string]int{}
	for seed := range uint64(seeds) {
		c := unlucky(t, seed,
			"conflict(0.05), refused(0.02), lost(0.03), driver Unavailable(0.05), driver-lost DeadlineExceeded(0.05), "+
				"crash(pvcontroller, 1), crash(attachdetach, 1), crash(provisioner, 1), crash(attacher, 1), "+
				"crash(pvcprotection, 1), crash(pvprotection, 1), relist(0.02), expire(0.01)")
		for _, r := range c.Trace().Records() {
			if r.Kind == trace.KindEvent {
				befell[r.Verb]++
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	for _, verb := range []string{"crash", "relist", "expire"} {
		if befell[verb] == 0 {
			t.Errorf("no %s in any of the schedules", verb)
		}
	}
	t.Log(befell)
}

func unlucky(t *testing.T, seed uint64, faults string) *cluster.Cluster {
	t.Helper()
	risks, err := sim.ParseFaultSpecs(faults)
	if err != nil {
		t.Fatal(err)
	}
	chaos, err := sim.NewFaultInjector(sim.NewRandom(seed), seed, risks, 500, cluster.EventKinds...)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, cluster.Config{Stepped: &sim.SteppedConfig{Strategy: chaos, StepsMax: 20_000}})
}

func TestComponentsOfAWorld(t *testing.T) {
	c, err := cluster.New(cluster.Config{
		Components: []string{"pvcontroller", "kubelet"}, Nodes: 1,
		Stepped: &sim.SteppedConfig{},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(c.Components(), " "); got != "pvcontroller kubelet(node-1)" {
		t.Errorf("components: %s", got)
	}
	_, err = cluster.New(cluster.Config{Components: []string{"pvcontroler"}, Stepped: &sim.SteppedConfig{}})
	if !errors.Is(err, cluster.ErrUnknownComponent) || !strings.Contains(err.Error(), "pvcontroller") {
		t.Errorf("error %v does not name the components", err)
	}
}

// TestExtraComponentsRestart checks that a user's own component restarts after a crash, with new
// and empty caches.
func TestExtraComponentsRestart(t *testing.T) {
	started := 0
	c, err := cluster.New(cluster.Config{
		Components: []string{}, Stepped: &sim.SteppedConfig{},
		Extra: []cluster.Component{{Name: "operator", Start: func(p cluster.ComponentContext) error {
			started++
			p.Informers.Core().V1().Pods().Informer()
			p.Process.Spawn("once", func(ctx context.Context) { p.Process.Sleep(1) })
			return nil
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := errors.Join(c.Run(t.Context()), c.Crash("operator"), c.Replicate("operator"), c.Stop("operator"),
		c.Run(t.Context())); err != nil {
		t.Fatal(err)
	}
	if started != 3 || !c.Degraded() || !c.Repair() || started != 4 || c.Degraded() || c.Repair() ||
		len(c.Components()) != 1 {
		t.Errorf("started %d times; there are %v", started, c.Components())
	}
	if err := c.Crash("unknown"); !errors.Is(err, cluster.ErrUnknownComponent) {
		t.Errorf("error %v", err)
	}
}
