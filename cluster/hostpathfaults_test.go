package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// hostPathComponents are the components that a hostPath volume needs.
var hostPathComponents = []string{"pvcontroller", "pvprotection", "pvcprotection", "scheduler", "kubelet"}

// faultyHostPath runs a user of a hostPath volume under events, and returns the world at rest.
func faultyHostPath(t *testing.T, seed uint64,
	user func(ctx context.Context, c *cluster.Cluster) error,
) *cluster.Cluster {
	t.Helper()
	risks, err := sim.ParseFaultSpecs("conflict(0.05), refused(0.02), lost(0.03), driver Unavailable(0.1), driver-lost Internal(0.1), hang(0.05), " +
		"replicate(pvcontroller, 1), retire(0.02), crash(pvcontroller, 2), crash(kubelet(node-1), 2), crash(scheduler, 1), crash(pvcprotection, 1), " +
		"reboot(0.01), relist(0.05), expire(0.03)")
	if err != nil {
		t.Fatal(err)
	}
	chaos, err := sim.NewFaultInjector(sim.NewRandom(seed), seed, risks, 400, cluster.EventKinds...)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.New(cluster.Config{
		Nodes: 1, Components: hostPathComponents, PreRegistered: true, HostPathProvisioning: true,
		Stepped: &sim.SteppedConfig{Strategy: chaos, StepsMax: 50_000},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c.User("user", func(ctx context.Context) error { return user(ctx, c) })
	err = c.Run(ctx)
	for err == nil && c.Repair() {
		err = c.Run(ctx)
	}
	if pending := pending(c); err == nil && len(pending) > 0 {
		err = fmt.Errorf("pending: %v", pending)
	}
	if err != nil {
		t.Fatalf("seed %d: %v\n%s", seed, err, tail(c.Trace().Text(), 80))
	}
	return c
}

// pending returns what is pending, except a pod of a controller that crashed after it had seen the
// volume as recycled: that pod never runs, and is deleted when the volume is recycled again.
func pending(c *cluster.Cluster) []string {
	return slices.DeleteFunc(c.Pending(), func(pendingObject string) bool {
		o, there := c.Server().Get("pods", "default", "recycler-for-v")
		return there && len(o.(*corev1.Pod).Spec.SchedulingGates) > 0 &&
			pendingObject == "pod default/recycler-for-v is not running"
	})
}

func seeds() uint64 {
	if testing.Short() {
		return 40
	}
	return 200
}

// TestRecycledVolumeUnderEvents checks that under all crashes and faults the second claim gets no
// data of the first, and keeps its own.
func TestRecycledVolumeUnderEvents(t *testing.T) {
	befell := map[string]int{}
	for seed := range seeds() {
		c := faultyHostPath(t, seed, func(ctx context.Context, c *cluster.Cluster) error {
			machine := c.HostPath()
			dir := machine.Root + "/data/v"
			if err := machine.FS.MkdirAll(dir + "/sub"); err != nil {
				return err
			}
			if err := machine.FS.WriteFile(dir+"/sub/file", []byte("of the first claim")); err != nil {
				return err
			}
			volume := recycled(corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data/v"}})
			if err := runRecycled(ctx, c, volume); err != nil {
				return err
			}
			if names, err := machine.FS.ReadDir(dir); err != nil || len(names) > 0 {
				return fmt.Errorf("content of the second claim: %q, %w", names, err)
			}
			return machine.FS.WriteFile(dir+"/file", []byte("of the second claim"))
		})
		machine := c.HostPath()
		if data, err := machine.FS.ReadFile(machine.Root + "/data/v/file"); err != nil ||
			string(data) != "of the second claim" {
			t.Fatalf("seed %d: the second claim has lost its file: %q, %v\n%s", seed, data, err, c.Trace().Text())
		}
		count(befell, c)
	}
	wantBefallen(t, befell)
}

// TestHostPathVolumeUnderEvents checks that under all crashes and faults a claim gets one volume,
// and that none is leaked after its deletion.
func TestHostPathVolumeUnderEvents(t *testing.T) {
	befell := map[string]int{}
	for seed := range seeds() {
		c := faultyHostPath(t, seed, func(ctx context.Context, c *cluster.Cluster) error { return runHostPath(ctx, c) })
		if left, err := c.Leaks(); err != nil || len(left) > 0 {
			t.Fatalf("seed %d: leaks: %v, %v\n%s", seed, left, err, c.Trace().Text())
		}
		count(befell, c)
	}
	wantBefallen(t, befell)
}

// count counts the crashes and the failed calls of the plugin.
func count(befell map[string]int, c *cluster.Cluster) {
	for _, r := range c.Trace().Records() {
		switch {
		case r.Kind == trace.KindEvent:
			befell[r.Verb]++
		case r.Kind == trace.KindDriver && r.Err != nil:
			befell["failure"]++
		}
	}
}

func wantBefallen(t *testing.T, befell map[string]int) {
	t.Helper()
	for _, what := range []string{"crash", "failure", "replicate", "relist"} {
		if befell[what] == 0 {
			t.Errorf("no %s in any of the schedules", what)
		}
	}
	t.Log(befell)
}
