package pvdiff

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/kubernetes/pkg/volume"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/upstreampv"
)

// period is the resync period of upstream's controller here: longer than any back-off of its operations, so that a period
// in which nothing changed was a whole round of its work; and as long as its recorder takes to get back the right to one
// event about an object.
//
// Upstream: pkg/util/goroutinemap/exponentialbackoff maxDurationBeforeRetry (2m2s); client-go tools/record defaultSpamQPS
// (one in 300 s).
const period = 310 * time.Second

// rounds is how many resync periods upstream's controller is given to come to rest.
const rounds = 20

// upstream is a world with upstream's controller, in a bubble.
type upstream struct {
	server  *fake.Server
	seen    *observer
	faults  *faults
	storage *storage
	events  atomic.Int64
	stop    func()
}

// life is what became of a history.
type life struct {
	states [][]string // after each step
	chatty bool       // so much was told about something that upstream's recorder may have dropped what came then
}

// liveUpstream has upstream's controller live through a history for as long as the states after its steps are as wanted.
func liveUpstream(t *testing.T, h history, want [][]string) (l life) {
	synctest.Test(t, func(t *testing.T) {
		w := &upstream{faults: &faults{Caller: sim.DirectCaller()}, storage: newStorage()}
		w.server = fake.NewServer(fake.Config{Now: time.Now, SkipBootstrap: true, Namespaces: namespaces})
		w.seen = observe(w.server, w.storage)
		w.start(t)
		u := &user{server: w.server, storage: w.storage, client: w.server.Client(sim.DirectCaller()), down: func(meanwhile func() error) error {
			w.stop()
			err := meanwhile()
			w.start(t)
			return err
		}}
		for i, s := range h {
			w.faults.arm(s.fault)
			before := w.server.Revision()
			refused := s.act.do(u)
			_, restarted := s.act.(restart)
			if idle := !restarted && w.server.Revision() == before; !idle && !w.settle() {
				l.states = append(l.states, []string{"does not come to rest"})
				break
			}
			w.faults.arm(fault{})
			l.states, l.chatty = append(l.states, append(w.seen.state(), answer(refused))), w.seen.chatty()
			if l.chatty || !slices.Equal(l.states[i], want[i]) {
				break
			}
		}
		w.stop()
	})
	return l
}

func (w *upstream) start(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	wait, err := upstreampv.Start(ctx, upstreampv.Config{
		Client:       histories.UniqueEvents(w.server.Client(w.faults), &w.events),
		ResyncPeriod: period,
		Plugins:      []volume.VolumePlugin{&upstreamPlugin{storage: w.storage}},
	})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(period / 2) // it has its lists; and whatever is done from now on is half a period away from a resync
	synctest.Wait()
	w.stop = func() {
		cancel()
		wait()
	}
}

// settle lets time pass until a whole period has brought nothing new, and returns whether one did.
func (w *upstream) settle() bool {
	for range rounds {
		synctest.Wait()
		before, wrong := w.seen.revision(), w.faults.met()
		time.Sleep(period)
		w.seen.refill()
		synctest.Wait()
		if w.seen.revision() == before && w.faults.met() == wrong {
			return true
		}
	}
	return false
}
