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
	"github.com/volsim/volsim/test/conformance/histories"
)

// A mutation changes our controller by wrapping its client. Nil changes nothing.
type mutation func(kubernetes.Interface) kubernetes.Interface

// ours is a world with our controller, on a stepped host.
type ours struct {
	*world
	host     *sim.Stepped
	offset   time.Duration // time that has passed for users, in addition to the host's
	process  *sim.Process
	mutation mutation
}

// runOurs executes a history with our controller.
func runOurs(h history, chooser sim.Chooser, mutation mutation) histories.Execution[*world] {
	o := &ours{host: sim.NewStepped(sim.SteppedConfig{Chooser: chooser, StepsMax: 20_000}), mutation: mutation}
	defer o.host.Close()
	server := fake.NewServer(fake.Config{Now: o.now, SkipBootstrap: true, Namespaces: namespaces})
	o.world = newWorld(server, server.Client(outside{o.host.ExternalCaller(), o}))
	o.down = func(meanwhile func() error) error {
		o.host.Crash(o.process)
		err := meanwhile()
		o.start()
		return err
	}
	o.start()
	execution := histories.Execution[*world]{World: o.world}
	for _, s := range h {
		o.offset += time.Minute // no two steps at the same time
		o.faults.arm(s.fault)
		actErr := s.act.do(o.world)
		if err := o.settle(); err != nil {
			execution.States = append(execution.States, histories.State{fmt.Sprintf("not at rest: %v", err)})
			break
		}
		o.faults.arm(fault{})
		execution.States = append(execution.States, append(o.observer.state(), answer(actErr)))
	}
	return execution
}

func (o *ours) now() time.Time { return o.host.Now().Add(o.offset) }

func (o *ours) start() {
	o.process = o.host.Process("pvcontroller")
	o.faults.Caller = o.process
	var client kubernetes.Interface = o.server.Client(o.faults)
	if o.mutation != nil {
		client = o.mutation(client)
	}
	var manager plugins.Manager
	if err := manager.Register(&ourPlugin{o.storage}); err != nil {
		panic(err)
	}
	pvcontroller.New(pvcontroller.Config{
		Process:   o.process,
		Plugins:   &manager,
		Client:    client,
		Informers: o.server.Informers(o.process),
		Recorder: events.New(events.Config{
			Process: o.process, Client: o.server.Client(o.process), Source: pvcontroller.EventSource,
		}),
	})
}

// quietRuns is the number of runs without a change after which a world is at rest. A work queue has
// one background timer for all its failed keys, so each run retries one of them.
const quietRuns = 5

// settle runs the host until several runs in succession have changed nothing.
func (o *ours) settle() error {
	for runs := 0; runs < quietRuns; runs++ {
		revision, matched := o.observer.revision(), o.faults.matched()
		if err := o.host.Run(); err != nil {
			return err
		}
		if o.observer.revision() != revision || o.faults.matched() != matched {
			runs = 0
		}
		if err := o.touch(); err != nil {
			return err
		}
	}
	return nil
}

// outside is the caller of the users. Its time passes while the host's stands still.
type outside struct {
	sim.Caller
	o *ours
}

func (c outside) Now() time.Time { return c.o.now() }

// answer describes the server's answer to an act.
func answer(err error) string {
	if err != nil {
		return "act refused: " + string(apierrors.ReasonForError(err))
	}
	return "act accepted"
}
