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

// Desk is a world that is moved by hand, by several hands: those of a page, and those of clients of its API server, whose
// requests take effect at once. One thing happens at a time. It is the http.Handler of the API. Close it.
type Desk struct {
	news
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

// NewDesk begins a world. headers say what it is made of, as in a list of operations: "nodes: 1".
func NewDesk(headers ...string) (*Desk, error) {
	d := &Desk{headers: headers}
	var err error
	d.world, err = d.begin()
	return d, err
}

// begin makes a world in which nothing has been done.
func (d *Desk) begin() (*world, error) {
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
func (d *Desk) Do(op string) (Done, error) {
	op = strings.TrimSpace(op)
	switch {
	case op == "":
		return Done{}, errors.New("what is to be done? Say an operation, such as: create claim data 64Mi")
	case strings.ContainsAny(op, "\r\n"):
		return Done{}, errors.New("one operation at a time, please: this is more than one line")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.world == nil {
		return Done{}, errClosed
	}
	defer d.announce()
	s := d.world.session
	before := s.Steps()
	if err := s.Do(op); err != nil {
		return Done{}, errors.New(strings.TrimPrefix(err.Error(), "session: "))
	}
	return Done{Moved: s.Steps() > before, Told: s.Last()}, nil
}

// Back does all again, but for the last operation. Watches of the API end.
func (d *Desk) Back() (Done, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.world == nil {
		return Done{}, errClosed
	}
	ops := d.world.session.Ops()
	if len(ops) == len(d.headers) {
		return Done{}, errors.New("there is nothing to go back to: nothing has been done yet")
	}
	last := len(ops) - 1
	return Done{Moved: true, Told: "without: " + ops[last]}, d.replay(last)
}

// Again begins the world again. Watches of the API end.
func (d *Desk) Again() (Done, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.world == nil {
		return Done{}, errClosed
	}
	return Done{Moved: true, Told: "from the beginning"}, d.replay(len(d.headers))
}

// replay begins a new world, and does the operations up to a number. What went wrong then goes wrong again. d.mu is locked.
func (d *Desk) replay(upTo int) error {
	was := d.world
	now, err := d.begin()
	if err != nil {
		return err
	}
	for i, op := range was.session.Ops()[:upTo] {
		switch made := was.requests[i]; {
		case i < len(d.headers):
		case made != nil:
			made.again(now)
		default:
			_ = now.session.Do(op) // it was told of the first time
		}
	}
	d.world = now
	d.announce()
	return was.close()
}

// Ops are what has been done: a session of package session.
func (d *Desk) Ops() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.world == nil {
		return nil
	}
	return d.world.session.Ops()
}

// Close ends the world, and the watches of its API.
func (d *Desk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.world == nil {
		return nil
	}
	was := d.world
	d.world = nil
	d.announce()
	return was.close()
}

// Past is what has happened since the world was set up.
func (d *Desk) Past() Past {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.world == nil {
		return Past{}
	}
	s := d.world.session
	p := Past{Records: s.Log().Records(), Before: s.Log().Steps() - len(s.Records())}
	if broken := s.Broken(); broken != nil {
		p.Broken, p.Verdict = broken.Step, fmt.Sprint(broken)
	}
	return p
}

// State tells how things are.
func (d *Desk) State() State {
	d.mu.Lock()
	defer d.mu.Unlock()
	version, _ := d.News()
	if d.world == nil {
		return State{Version: version, Objects: []Object{}, Events: []Event{}}
	}
	s := d.world.session
	c := s.Cluster()
	state := State{
		Version: version, Made: madeOf(c), Time: c.Host().Now().Sub(sim.Epoch).String(),
		Objects: objectsOf(c.Server()), Events: eventsOf(c.Server(), c.Host().Now()), Hand: newHand(s, s.Ops()[len(d.headers):]),
	}
	for _, u := range s.Unaware() {
		i := slices.IndexFunc(state.Objects, func(o Object) bool { return o.Name == u.Object })
		if i < 0 { // it is not there any more, or of another kind
			i = len(state.Objects)
			state.Objects = append(state.Objects, Object{Name: u.Object, State: u.True})
		}
		state.Objects[i].Beliefs = append(state.Objects[i].Beliefs, Belief{u.Part, u.Believes, u.Version})
	}
	return state
}
