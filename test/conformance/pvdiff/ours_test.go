package pvdiff

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/pvcontroller"
	"github.com/volsim/volsim/sim"
)

// ours is a world with our controller, on a stepped host.
type ours struct {
	host      *sim.Stepped
	later     time.Duration // users let time pass, which the host knows nothing of
	server    *fake.Server
	seen      *observer
	faults    *faults
	storage   *storage
	component *sim.Process
	spoil     spoil
}

// spoil makes our controller another by what stands between it and the server; nil leaves it as it is.
type spoil func(kubernetes.Interface) kubernetes.Interface

// newOurs makes such a world. chooser is nil for the ordinary course of things.
func newOurs(chooser sim.Chooser, spoil spoil) *ours {
	o := &ours{host: sim.NewStepped(sim.SteppedConfig{Chooser: chooser, StepsMax: 20_000}), faults: &faults{}, storage: newStorage(), spoil: spoil}
	o.server = fake.NewServer(fake.Config{Now: o.now, SkipBootstrap: true, Namespaces: namespaces})
	o.seen = observe(o.server, o.storage)
	o.start()
	return o
}

func (o *ours) now() time.Time { return o.host.Now().Add(o.later) }

func (o *ours) start() {
	o.component = o.host.Process("pvcontroller")
	o.faults.Caller = o.component
	var client kubernetes.Interface = o.server.Client(o.faults)
	if o.spoil != nil {
		client = o.spoil(client)
	}
	var manager plugins.Manager
	if err := manager.Register(&ourPlugin{o.storage}); err != nil {
		panic(err)
	}
	pvcontroller.New(pvcontroller.Config{
		Process:   o.component,
		Plugins:   &manager,
		Client:    client,
		Informers: o.server.Informers(o.component),
		Recorder: events.New(events.Config{
			Process: o.component, Client: o.server.Client(o.component), Source: pvcontroller.EventSource,
		}),
	})
}

// user is who acts in this world. What he does takes effect at once.
func (o *ours) user() *user {
	return &user{server: o.server, storage: o.storage, client: o.server.Client(outside{o.host.ExternalCaller(), o}), down: func(meanwhile func() error) error {
		o.host.Crash(o.component)
		err := meanwhile()
		o.start()
		return err
	}}
}

// live lives through a history and returns the state after each step.
func (o *ours) live(h history) [][]string {
	defer o.host.Close()
	u := o.user()
	var states [][]string
	for _, s := range h {
		o.later += time.Minute // no two steps at the same time
		o.faults.arm(s.fault)
		refused := s.act.do(u)
		if err := o.settle(u); err != nil {
			return append(states, []string{fmt.Sprintf("does not come to rest: %v", err)})
		}
		o.faults.arm(fault{})
		states = append(states, append(o.seen.state(), answer(refused)))
	}
	return states
}

// quiet is how many turns of the background timers must have brought nothing new: a queue of what failed has one timer for
// all that is in it, and gets to one of them in a turn.
const quiet = 5

// settle lets the world move until nothing is left to happen and nothing comes of looking again.
func (o *ours) settle(u *user) error {
	for turns := 0; turns < quiet; turns++ {
		before, wrong := o.seen.revision(), o.faults.met()
		if err := o.host.Run(); err != nil {
			return err
		}
		if o.seen.revision() != before || o.faults.met() != wrong {
			turns = 0
		}
		if err := u.stir(); err != nil {
			return err
		}
	}
	return nil
}

// outside is the caller of the users, whose time goes on while the host's stands.
type outside struct {
	sim.Caller
	o *ours
}

func (c outside) Now() time.Time { return c.o.now() }

// answer is what the server said to an act.
func answer(err error) string {
	if err != nil {
		return "the act was refused: " + string(apierrors.ReasonForError(err))
	}
	return "the act was accepted"
}
