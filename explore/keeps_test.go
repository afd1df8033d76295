package explore

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// keeper remembers the ConfigMap m. Another task of it keeps what it remembers during a request.
func keeper(says bool) cluster.Component {
	return cluster.Component{Name: "keeper", Start: func(p cluster.ComponentContext) error {
		informer := p.Informers.Core().V1().ConfigMaps()
		p.Process.GateWorkers(informer.Informer().HasSynced)
		changes := sim.NewQueue[string](p.Process, sim.QueueConfig{Name: "remember"})
		copies := sim.NewQueue[string](p.Process, sim.QueueConfig{Name: "keep"})
		var remembered *corev1.ConfigMap
		p.Process.HandlersEnqueue()
		p.Process.Remembers(func(w sim.StateWriter) {
			if remembered != nil {
				w.Version("configmaps/default/m", remembered.ResourceVersion)
			}
		})
		changes.Work(func(_ context.Context, key string) (err error) {
			if remembered == nil {
				copies.Add(key)
			}
			remembered, err = informer.Lister().ConfigMaps("default").Get(key)
			return err
		})
		copies.Work(func(ctx context.Context, _ string) error {
			kept := remembered
			if says {
				p.Process.TouchVersion(sim.MemoryPart, kept.ResourceVersion)
			}
			configMaps := p.Client.CoreV1().ConfigMaps("default")
			if _, err := configMaps.Get(ctx, "m", metav1.GetOptions{}); err != nil {
				return err
			}
			_, err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "copy"}, Data: kept.Data}, metav1.CreateOptions{})
			return err
		})
		_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { changes.Add("m") },
			UpdateFunc: func(any, any) { changes.Add("m") },
		})
		return err
	}}
}

// TestNumbersKnowWhatTasksKeep leads to two states in which a process remembers the same, and a task of it waits
// for the same request, but keeps another version of an object.
func TestNumbersKnowWhatTasksKeep(t *testing.T) {
	testcheck.Stepped(t)
	change := func(ctx context.Context, c *cluster.Cluster) error {
		maps := c.Client().CoreV1().ConfigMaps("default")
		m, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		m.Data = map[string]string{"a": "b"}
		_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
		return err
	}
	first := []string{"alice", "alice", "keeper/cache configmaps", "keeper/remember"}
	second := []string{"alice", "keeper/cache configmaps", "keeper/remember"}
	for _, says := range []bool{true, false} {
		e, err := newSearch(t.Context(), &scenario.Scenario{
			Name: "keeper", Components: []string{}, Extra: []cluster.Component{keeper(says)}, Rules: []string{},
			Users: []scenario.User{{Name: "alice", Script: change}},
		}, Config{NoFaults: true})
		if err != nil {
			t.Fatal(err)
		}
		old := &orderedWalk{parts: newParts(), order: slices.Concat(first, []string{"keeper/keep"}, second)}
		fresh := &orderedWalk{parts: newParts(), order: slices.Concat(first, second, []string{"keeper/keep"})}
		old.run(t, e)
		fresh.run(t, e)
		if len(old.order)+len(fresh.order) > 0 {
			t.Fatal("order not possible:", old.order, old.enabled, fresh.order, fresh.enabled)
		}
		if (old.number != fresh.number) != says {
			t.Errorf("the keeper says what it keeps: %v: numbers %d and %d", says, old.number, fresh.number)
		}
		e.pool.Close()
	}
}
