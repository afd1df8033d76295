package controllers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/test/conformance/histories"
)

// A World is an API server with its users: all but the controllers. Worlds of a differential embed
// it.
type World struct {
	Server *fake.Server
	Client kubernetes.Interface // of users, kubelet and garbage collector
	Now    func() time.Time
	Pass   func(time.Duration) error          // lets time pass
	Down   func(meanwhile func() error) error // stops the controllers while meanwhile runs
	Events histories.Events

	faults []*histories.Faults // of each controller
}

func (w *World) base() *World { return w }

// arm injects a fault into the requests of all controllers.
func (w *World) arm(fault histories.Fault) {
	for _, f := range w.faults {
		f.Arm(fault)
	}
}

// Inhabited is a world of a differential. It embeds a World.
type Inhabited interface {
	base() *World
	Tick() error            // lets kubelet and garbage collector act
	State() histories.State // describes the world in words that do not depend on it
}

// An Act is what users, nodes and the controllers' machine do.
type Act[W Inhabited] interface {
	fmt.Stringer
	Do(w W) error
}

// A Step is an act, and perhaps a fault of the controllers' next requests.
type Step[W Inhabited] struct {
	Act   Act[W]
	Fault histories.Fault
}

// String returns the act and the fault.
func (s Step[W]) String() string {
	if s.Fault.Kind == "" {
		return s.Act.String()
	}
	return fmt.Sprintf("%s; %s", s.Act, s.Fault)
}

// A Restart stops the controllers, performs an act, and starts others.
type Restart[W Inhabited] struct{ Meanwhile Act[W] }

// String returns the act in words.
func (r Restart[W]) String() string { return fmt.Sprintf("restart; meanwhile: %s", r.Meanwhile) }

// Do performs the act.
func (r Restart[W]) Do(w W) error {
	return w.base().Down(func() error { return r.Meanwhile.Do(w) })
}

// IgnoreMissing returns nil if an act's object does not exist or may not be changed so.
func IgnoreMissing(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// tickPeriod is the period in which kubelet and garbage collector act.
const tickPeriod = 5 * time.Second

// execute executes a history with the controllers that start starts. It stops at a state that
// differs from want, unless want is nil.
func execute[W Inhabited](world W, h histories.History[Step[W]], ticks int, start func(), want []histories.State,
) histories.Execution[W] {
	w := world.base()
	execution := histories.Execution[W]{World: world}
	start()
	if err := w.Pass(tickPeriod); err != nil {
		panic(err)
	}
	for i, s := range h {
		state := s.execute(world, ticks)
		if want != nil && w.Events.Undecided() != "" { // upstream's recorder may have dropped some
			state = withEventsOf(state, want[i])
		}
		execution.States = append(execution.States, state)
		if want != nil && !slices.Equal(state, want[i]) {
			break
		}
	}
	return execution
}

// withEventsOf returns a state with the events of another.
func withEventsOf(state, other histories.State) histories.State {
	isEvent := func(line string) bool { return strings.HasPrefix(line, "event ") }
	state = slices.DeleteFunc(slices.Clone(state), isEvent)
	for _, line := range other {
		if isEvent(line) {
			state = append(state, line)
		}
	}
	slices.Sort(state)
	return state
}

// execute executes a step, and returns the state after it. The fault lasts until the first tick.
func (s Step[W]) execute(world W, ticks int) histories.State {
	w := world.base()
	w.arm(s.Fault)
	defer w.arm(histories.Fault{})
	if err := s.Act.Do(world); err != nil {
		return histories.State{fmt.Sprintf("act failed: %v", err)}
	}
	for range ticks {
		if err := w.Pass(tickPeriod); err != nil {
			return histories.State{fmt.Sprintf("world stopped: %v", err)}
		}
		w.arm(histories.Fault{})
		if err := world.Tick(); err != nil {
			return histories.State{err.Error()}
		}
	}
	if err := w.Pass(0); err != nil {
		return histories.State{fmt.Sprintf("world stopped: %v", err)}
	}
	return world.State()
}
