package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/sim"
)

// Stepped is a world that is moved by hand, by several hands: those of a page, and those of clients of its API server, whose
// requests take effect at once. One thing happens at a time. It is the http.Handler of the API. Close it.
type Stepped struct {
	changeNotifier
	headers session.Ops

	mu    sync.Mutex
	world *world // guarded by mu; nil: closed
}

// world is one that was begun, and is another one's when somebody goes back.
type world struct {
	session  *session.Session
	api      http.Handler
	requests map[int]*request // those that wrote, by the operations that tell of them
	ctx      context.Context  //nolint:containedctx // it is the world's life: watches end with it
	end      context.CancelFunc
}

// NewStepped begins a world. headers say what it is made of, as in a list of operations: "nodes: 1".
func NewStepped(headers ...string) (*Stepped, error) {
	d := &Stepped{headers: headers}
	var err error
	d.world, err = d.begin()
	return d, err
}

// begin makes a world in which nothing has been done.
func (d *Stepped) begin() (*world, error) {
	s, err := d.headers.Play()
	if err != nil {
		return nil, err
	}
	server := s.Cluster().Server()
	crd.Serve(server)
	w := &world{session: s, requests: map[int]*request{}}
	w.api = apiserver.NewHandler(server, apiserver.HandlerConfig{Caller: callerOf})
	w.ctx, w.end = context.WithCancel(context.Background())
	return w, nil
}

func (w *world) close() error {
	w.end()
	return w.session.Close()
}

// errClosed is the error of whoever comes too late.
var errClosed = errors.New("the world has ended; start volsim serve again")

// Do does one operation.
func (d *Stepped) Do(op string) (Result, error) {
	op = strings.TrimSpace(op)
	switch {
	case op == "":
		return Result{}, errors.New("what is to be done? Say an operation, such as: create claim data 64Mi")
	case strings.ContainsAny(op, "\r\n"):
		return Result{}, errors.New("one operation at a time, please: this is more than one line")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.world == nil {
		return Result{}, errClosed
	}
	defer d.notify()
	s := d.world.session
	before := s.Steps()
	if err := s.Do(op); err != nil {
		return Result{}, errors.New(strings.TrimPrefix(err.Error(), "session: "))
	}
	return Result{Advanced: s.Steps() > before, Message: s.Last()}, nil
}

// Undo does all again, but for the last operation. Watches of the API end.
func (d *Stepped) Undo() (Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.world == nil {
		return Result{}, errClosed
	}
	ops := d.world.session.Ops()
	if len(ops) == len(d.headers) {
		return Result{}, errors.New("there is nothing to go back to: nothing has been done yet")
	}
	last := len(ops) - 1
	return Result{Advanced: true, Message: "without: " + ops[last]}, d.replay(last)
}

// Reset begins the world again. Watches of the API end.
func (d *Stepped) Reset() (Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.world == nil {
		return Result{}, errClosed
	}
	return Result{Advanced: true, Message: "from the beginning"}, d.replay(len(d.headers))
}

// replay begins a new world, and does the operations up to a number. What went wrong then goes wrong again. d.mu is locked.
func (d *Stepped) replay(upTo int) error {
	was := d.world
	now, err := d.begin()
	if err != nil {
		return err
	}
	for i, op := range was.session.Ops()[:upTo] {
		switch made := was.requests[i]; {
		case i < len(d.headers):
		case made != nil:
			made.replay(now)
		default:
			_ = now.session.Do(op) // it was told of the first time
		}
	}
	d.world = now
	d.notify()
	return was.close()
}

// Ops are what has been done: a session of package session.
func (d *Stepped) Ops() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.world == nil {
		return nil
	}
	return d.world.session.Ops()
}

// Close ends the world, and the watches of its API.
func (d *Stepped) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.world == nil {
		return nil
	}
	was := d.world
	d.world = nil
	d.notify()
	return was.close()
}

// History is what has happened since the world was set up.
func (d *Stepped) History() History {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.world == nil {
		return History{}
	}
	s := d.world.session
	p := History{Records: s.Log().Records(), SetupEnd: s.Log().Steps() - len(s.Records())}
	if broken := s.Violation(); broken != nil {
		p.ViolationStep, p.Violation = broken.Step, fmt.Sprint(broken)
	}
	return p
}

// State tells how things are.
func (d *Stepped) State() State {
	d.mu.Lock()
	defer d.mu.Unlock()
	version, _ := d.Changes()
	if d.world == nil {
		return State{Version: version, Objects: []Object{}, Events: []Event{}}
	}
	s := d.world.session
	c := s.Cluster()
	state := State{
		Version: version, Setup: describeSetup(c), Time: c.Host().Now().Sub(sim.Epoch).String(),
		Objects: objectsOf(c.Server()), Events: eventsOf(c.Server(), c.Host().Now()), Controls: newControls(s, s.Ops()[len(d.headers):]),
	}
	for _, u := range s.StaleComponents() {
		i := slices.IndexFunc(state.Objects, func(o Object) bool { return o.Name == u.Object })
		if i < 0 { // it is not there any more, or of another kind
			i = len(state.Objects)
			state.Objects = append(state.Objects, Object{Name: u.Object, State: u.Actual})
		}
		state.Objects[i].Stale = append(state.Objects[i].Stale, StaleCopy{u.Component, u.Cached, u.Version})
	}
	return state
}
