package addiff

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/test/conformance/histories"
)

// A world is an API server, its users, attacher and kubelets: all but the controller.
type world struct {
	server   *fake.Server
	client   kubernetes.Interface
	observer *observer
	faults   *faults // of the controller
	now      func() time.Time
	pass     func(time.Duration) error          // lets time pass
	down     func(meanwhile func() error) error // stops the controller while meanwhile runs

	disableForceDetach bool // option of the controller's next start

	attacher   attacher
	kubelets   map[string]string    // by node: the state of its kubelet; "": works
	heartbeats map[string]time.Time // by node: the last status that was written without a change
}

func newWorld(server *fake.Server, client kubernetes.Interface, now func() time.Time, pass func(time.Duration) error) *world {
	return &world{
		server: server, client: client, observer: observe(server), faults: newFaults(), now: now, pass: pass,
		kubelets: map[string]string{}, heartbeats: map[string]time.Time{},
		attacher: attacher{outcome: map[string]string{}, since: map[types.UID]map[bool]time.Time{}},
	}
}

// execute executes a history with the controller that start starts. It stops at a state that
// differs from want, unless want is nil.
func (w *world) execute(h history, start func(), want []histories.State) histories.Execution[*world] {
	execution := histories.Execution[*world]{World: w}
	if err := w.createObjects(); err != nil {
		panic(err)
	}
	start()
	if err := w.pass(tickPeriod); err != nil {
		panic(err)
	}
	for i, s := range h {
		execution.States = append(execution.States, w.step(s))
		execution.Undecided = w.observer.events.Undecided()
		if want != nil && (execution.Undecided != "" || !slices.Equal(execution.States[i], want[i])) {
			break
		}
	}
	return execution
}

// step executes a step. It returns the state after it, or nil if that is not compared.
func (w *world) step(s step) histories.State {
	w.faults.Arm(s.fault)
	defer w.faults.Arm(histories.Fault{})
	if err := s.act.do(w); err != nil {
		return histories.State{fmt.Sprintf("act failed: %v", err)}
	}
	for passed := time.Duration(0); passed < time.Duration(s.pause); passed += tickPeriod {
		if passed >= outage {
			w.faults.Arm(histories.Fault{})
		}
		if err := w.pass(tickPeriod); err != nil {
			return histories.State{fmt.Sprintf("world stopped: %v", err)}
		}
		if err := w.tick(); err != nil {
			return histories.State{err.Error()}
		}
	}
	if s.pause == short {
		return nil
	}
	if err := w.pass(0); err != nil {
		return histories.State{fmt.Sprintf("world stopped: %v", err)}
	}
	return w.observer.state()
}

// tickPeriod is the period in which attacher and kubelets act.
const tickPeriod = 5 * time.Second

// tick lets the attacher and the kubelets act.
func (w *world) tick() error {
	if err := w.runAttacher(); err != nil {
		return fmt.Errorf("attacher: %w", err)
	}
	if err := w.runKubelets(); err != nil {
		return fmt.Errorf("kubelets: %w", err)
	}
	return nil
}
