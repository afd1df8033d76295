package attachdetach_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/sim"
)

// moving returns a world in which a user moves a pod with a ReadWriteOnce volume between nodes,
// without waiting for it to run, while attaches, detaches and updates of nodes occasionally fail.
// The seed decides that, and the interleaving.
func moving(t *testing.T, seed uint64) *world {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, sim.NewSeeded(seed))
	for i := range 3 {
		w.node(fmt.Sprintf("node-%d", i))
		for _, verb := range []string{"Attach", "Detach"} {
			for range random.IntN(3) {
				call := fmt.Sprintf("%s disk-1 node-%d", verb, i)
				w.backend.faults = append(w.backend.faults,
					fault{call: call, err: errBroken, after: random.IntN(2) == 0})
			}
		}
	}
	for range random.IntN(4) {
		w.patchFaults = append(w.patchFaults, fault{err: errBusy, after: random.IntN(2) == 0})
		w.getFaults = append(w.getFaults, errBusy)
	}
	w.disk("disk-1", rwo)
	w.start()
	user := w.Host.Process("user")
	client := w.Server.Client(user)
	user.User("moves", func(ctx context.Context) {
		for i := range 6 {
			name := fmt.Sprintf("pod-%d", i)
			pod := newPod(name, fmt.Sprintf("node-%d", random.IntN(3)), "disk-1")
			if _, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
				t.Errorf("create %s: %v", name, err)
			}
			if random.IntN(2) == 0 {
				user.Sleep(seconds(random.Float64() * 5))
			}
			if err := deletePod(ctx, client, name); err != nil {
				t.Errorf("delete %s: %v", name, err)
			}
		}
	})
	return w
}

// TestMovingVolumeIsNeverOnTwoNodes runs many interleavings; the backend checks each call (I15,
// I16, I19).
func TestMovingVolumeIsNeverOnTwoNodes(t *testing.T) {
	t.Parallel()
	attaches := 0
	for seed := range uint64(300) {
		w := moving(t, seed)
		w.Run()
		w.quiet()
		attaches += len(w.backend.calls)
		if len(w.backend.where("disk-1")) != 0 {
			t.Errorf("still attached to %v", w.backend.where("disk-1"))
		}
		if t.Failed() {
			t.Fatalf("seed %d\n%s\n%s", seed, w.controller, w.Host.Log().Text())
		}
	}
	if attaches < 300 {
		t.Errorf("only %d calls of the backend in all worlds: too few", attaches)
	}
}

func TestSameSeedGivesTheSameTrace(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		first, second := moving(t, seed), moving(t, seed)
		first.Run()
		second.Run()
		if first.Host.Log().Text() != second.Host.Log().Text() {
			t.Fatalf("seed %d: two runs differ", seed)
		}
	}
}
