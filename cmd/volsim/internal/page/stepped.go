package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/volsim/volsim/explore/session"
	_ "github.com/volsim/volsim/fake/admission" // webhooks and policies
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/internal/auditrecord"
	"github.com/volsim/volsim/sim"
)

// A Stepped world advances by operations of a page. It also serves the API: requests of API clients
// take effect at once. Operations and requests are serialized. It implements http.Handler for the
// API. Close it after use.
type Stepped struct {
	changeNotifier
	headers session.Ops
	audit   auditrecord.Log

	mu    sync.Mutex
	world *world // guarded by mu; nil after Close
}

// A world is one incarnation of a Stepped world. Undo and Reset replace it.
type world struct {
	session *session.Session
	api     http.Handler
	ctx     context.Context //nolint:containedctx // lifetime of the world: ends its watches
	end     context.CancelFunc
}

// A SteppedConfig configures NewStepped.
type SteppedConfig struct {
	Headers []string        // configure the world, as in a list of operations: "nodes: 1"
	Audit   auditrecord.Log // records the requests of API clients; nil: none
}

// NewStepped creates a world.
func NewStepped(cfg SteppedConfig) (*Stepped, error) {
	d := &Stepped{headers: cfg.Headers, audit: cfg.Audit}
	var err error
	d.world, err = d.begin()
	return d, err
}

// begin creates a world without operations.
func (d *Stepped) begin() (*world, error) {
	s, err := d.headers.Play()
	if err != nil {
		return nil, err
	}
	server := s.Cluster().Server()
	crd.Serve(server)
	w := &world{session: s}
	// A kubelet would answer in further steps.
	w.api = apiserver.NewHandler(server, apiserver.HandlerConfig{Caller: callerOf, WithoutKubelets: true, Audit: d.audit})
	w.ctx, w.end = context.WithCancel(context.Background())
	return w, nil
}

func (w *world) close() error {
	w.end()
	return w.session.Close()
}

// errClosed is returned after Close.
var errClosed = errors.New("the world is closed; start volsim serve again")

// Do executes one operation.
func (d *Stepped) Do(op string) (Result, error) {
	op, err := oneLine(op)
	if err != nil {
		return Result{}, err
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

// Undo replays all operations but the last. API watches end.
func (d *Stepped) Undo() (Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.world == nil {
		return Result{}, errClosed
	}
	ops := d.world.session.Ops()
	if len(ops) == len(d.headers) {
		return Result{}, errors.New("nothing to undo: no operation yet")
	}
	last := len(ops) - 1
	return Result{Advanced: true, Message: "undone: " + shortOp(ops.WithoutSecrets()[last])}, d.replay(last)
}

// shortOp returns an operation as a message names it: the body of a request may be long.
func shortOp(op string) string {
	const most = 100
	if all := []rune(op); len(all) > most {
		return string(all[:most]) + "…"
	}
	return op
}

// Reset discards all operations. API watches end.
func (d *Stepped) Reset() (Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.world == nil {
		return Result{}, errClosed
	}
	return Result{Advanced: true, Message: "reset"}, d.replay(len(d.headers))
}

// replay creates a new world and executes the first upTo operations. Errors repeat too. d.mu must
// be held.
func (d *Stepped) replay(upTo int) error {
	old := d.world
	fresh, err := d.begin()
	if err != nil {
		return err
	}
	for _, op := range old.session.Ops()[len(d.headers):upTo] {
		_ = fresh.session.Do(op) // the error was reported the first time
	}
	d.world = fresh
	d.notify()
	return old.close()
}

// Load replaces the world by that of a saved session or scenario. The world remains if the text is
// invalid. API watches end.
func (d *Stepped) Load(text string) (Result, error) {
	lines := session.Ops(strings.Split(strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n"))
	headers, ops := lines.Split()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.world == nil {
		return Result{}, errClosed
	}
	loaded := Stepped{headers: headers, audit: d.audit}
	w, err := loaded.begin()
	if err != nil {
		return Result{}, errors.New(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "session: "), "scenario session, "))
	}
	for i, op := range ops {
		if err := w.session.Do(op); err != nil {
			err = fmt.Errorf("line %d: %s", len(headers)+i+1, strings.TrimPrefix(err.Error(), "session: "))
			return Result{}, errors.Join(err, w.close())
		}
	}
	old := d.world
	d.headers, d.world = headers, w
	d.notify()
	return Result{Advanced: true, Message: "loaded " + strconv.Itoa(len(ops)) + " operations"}, old.close()
}

// Ops returns the operations that lead to the current state, as input for package session, without the values of
// secrets.
func (d *Stepped) Ops() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.world == nil {
		return nil
	}
	return d.world.session.Replayable().WithoutSecrets()
}

// Close ends the world and its API watches.
func (d *Stepped) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.world == nil {
		return nil
	}
	old := d.world
	d.world = nil
	d.notify()
	return old.close()
}

// History returns the actions since the setup of the world.
func (d *Stepped) History() History {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.world == nil {
		return History{}
	}
	s := d.world.session
	h := History{Records: s.Log().Records(), SetupEnd: s.Log().Steps() - len(s.Records())}
	if violation := s.Violation(); violation != nil {
		h.ViolationStep, h.Violation = violation.Step, fmt.Sprint(violation)
	}
	return h
}

// State returns the current state.
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
		Objects: objectsOf(c.Server()), Events: eventsOf(c.Server(), c.Host().Now()),
		Controls: newControls(s, s.Ops()[len(d.headers):].WithoutSecrets()),
	}
	for _, u := range s.StaleComponents() {
		i := slices.IndexFunc(state.Objects, func(o Object) bool { return o.Name == u.Object })
		if i < 0 { // deleted, or of another resource
			i = len(state.Objects)
			state.Objects = append(state.Objects, Object{Name: u.Object, State: u.Actual, Reasons: []string{}})
		}
		state.Objects[i].Stale = append(state.Objects[i].Stale, StaleCopy{u.Component, u.Cached, u.Version})
	}
	return state
}
