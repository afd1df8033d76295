package pluginmanager_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/kubelet/pluginmanager"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

const dir = "/var/lib/kubelet/plugins_registry"

// announcer is a plugin at a socket.
type announcer struct {
	registration.UnimplementedRegistrationServer
	info     *registration.PluginInfo
	notified []string // "registered", or the reason why not
}

func (a *announcer) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return a.info, nil
}

func (a *announcer) NotifyRegistrationStatus(
	_ context.Context, s *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	word := s.GetError()
	if s.GetPluginRegistered() {
		word = "registered"
	}
	a.notified = append(a.notified, word)
	return &registration.RegistrationStatusResponse{}, nil
}

// handler registers one plugin per name; a newer version replaces an older one.
type handler struct {
	c     *sim.Process
	known map[string]plugins.Registration // by name
	done  []string                        // what it did
	hold  map[string]bool                 // plugins that do not answer
	fails map[string]int                  // by what it does, how often it fails
}

var errScripted = errors.New("scripted")

func (h *handler) fail(what string) error {
	if h.fails[what] == 0 {
		return nil
	}
	h.fails[what]--
	return h.c.Call(trace.Action{Kind: trace.KindDriver, Verb: what},
		func() trace.Outcome { return trace.Outcome{Err: errScripted} }).Err
}

func (h *handler) ValidatePlugin(r plugins.Registration) error {
	if known, there := h.known[r.Name]; there && known.Versions[0] >= r.Versions[0] {
		return fmt.Errorf("there is %s", known.Versions[0])
	}
	return nil
}

func (h *handler) RegisterPlugin(_ context.Context, r plugins.Registration) error {
	h.known[r.Name] = r
	h.c.Wait("answer of "+r.Name, 0, func() bool { return !h.hold[r.Name] })
	if err := h.fail("register"); err != nil {
		delete(h.known, r.Name)
		return err
	}
	h.done = append(h.done, "register "+r.Name+" "+r.Versions[0])
	return nil
}

func (h *handler) DeregisterPlugin(_ context.Context, r plugins.Registration) error {
	if h.known[r.Name].Socket == r.Socket {
		delete(h.known, r.Name)
	}
	if err := h.fail("deregister"); err != nil {
		return err
	}
	h.done = append(h.done, "deregister "+r.Name)
	return nil
}

// world is a process that registers plugins at sockets in memory.
type world struct {
	*testworld.Runner[*sim.Stepped]
	sockets pluginmanager.Memory
	handler *handler
	manager *pluginmanager.Manager
	course  *course
}

// course lets a chooser pick the next task, and injects faults.
type course struct {
	sim.Chooser
	fails map[string]int // by verb and object, how often
}

func (c *course) Decide(d *sim.Decision) sim.Move {
	move := sim.Move{Option: c.Choose(d.Len())}
	call, pending := d.Task(move.Option).Pending()
	if what := call.Verb + " " + call.Object; pending && c.fails[what] > 0 {
		c.fails[what]--
		move.Fault = sim.Fault{Kind: sim.FaultDriver, Code: codes.Unavailable}
	}
	return move
}

func newWorld(t *testing.T) *world {
	w := &world{course: &course{Chooser: sim.FIFO{}, fails: map[string]int{}}}
	w.Runner = testworld.NewRunner(t, sim.NewStepped(sim.SteppedConfig{StepsMax: 10_000, Strategy: w.course}))
	c := w.Host.Process("kubelet")
	w.handler = &handler{c: c, known: map[string]plugins.Registration{}, hold: map[string]bool{}, fails: map[string]int{}}
	w.manager = pluginmanager.New(pluginmanager.Config{
		Process: c, Sockets: &w.sockets, Dir: dir, Handlers: map[string]plugins.Registrar{"CSIPlugin": w.handler},
	})
	return w
}

// put creates the socket of a plugin.
func (w *world) put(socket, name, version string) *announcer {
	a := &announcer{
		info: &registration.PluginInfo{
			Type: "CSIPlugin", Name: name, Endpoint: "/csi.sock",
			SupportedVersions: []string{version},
		},
	}
	w.sockets.Put(dir+"/"+socket, csi.Direct(func(r grpc.ServiceRegistrar) {
		registration.RegisterRegistrationServer(r,
			a)
	}))
	return a
}

func (w *world) remove(socket string) { w.sockets.Remove(dir + "/" + socket) }

// notify notifies of sockets and runs the world until it is at rest.
func (w *world) notify(sockets ...string) {
	w.Helper()
	for _, socket := range sockets {
		if socket != "" {
			socket = dir + "/" + socket
		}
		w.manager.Notify(socket)
	}
	w.Run()
}

// want checks what the handler did since the last call, and what is registered.
func (w *world) want(what string, done []string, known ...string) {
	w.Helper()
	if diff := cmp.Diff(done, w.handler.done, cmpopts.EquateEmpty()); diff != "" {
		w.Errorf("%s: done (-want +got):\n%s\n%s", what, diff, w.Host.Log().Text())
	}
	w.handler.done = nil
	if diff := cmp.Diff(known, slices.Sorted(maps.Keys(w.handler.known)), cmpopts.EquateEmpty()); diff != "" {
		w.Errorf("%s: registered (-want +got):\n%s", what, diff)
	}
}

func (w *world) notified(what string, a *announcer, want ...string) {
	w.Helper()
	if diff := cmp.Diff(want, a.notified, cmpopts.EquateEmpty()); diff != "" {
		w.Errorf("%s: notifications (-want +got):\n%s", what, diff)
	}
	a.notified = nil
}

func TestRegisterAndDeregister(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.notify("")
	w.want("without a socket", nil)
	a := w.put("a.sock", "a", "1.0")
	w.put(".hidden.sock", "hidden", "1.0")
	w.put(".hidden/x.sock", "hidden", "1.0")
	w.notify("")
	w.want("one that is there", []string{"register a 1.0"}, "a")
	w.notified("one that is there", a, "registered")
	w.put("below/b.sock", "b", "1.0")
	w.notify("below/b.sock", ".hidden.sock", "below/.x/y.sock", "../elsewhere.sock")
	w.want("one more", []string{"register b 1.0"}, "a", "b")
	w.notify("a.sock", "")
	w.want("nothing has changed", nil, "a", "b")
	w.remove("a.sock")
	w.notify("a.sock")
	w.want("one is removed", []string{"deregister a"}, "b")
	w.remove("below/b.sock")
	w.notify("")
	w.want("all are removed", []string{"deregister b"})
	w.notify("a.sock", "below/b.sock")
	w.want("and stay so", nil)
	if now := w.Host.Now(); !now.Equal(sim.Epoch) {
		t.Errorf("it took until %v", now)
	}
	var calls []string
	for _, r := range w.Host.Log().Records() {
		if r.Kind == trace.KindDriver {
			calls = append(calls, r.Verb+" "+r.Object)
		}
	}
	if diff := cmp.Diff([]string{
		"GetInfo a.sock", "NotifyRegistrationStatus a.sock", "GetInfo below/b.sock", "NotifyRegistrationStatus below/b.sock",
	}, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestRegistrationFields compares the handler's argument with what the plugin reports.
func TestRegistrationFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("a.sock", "a", "1.0")
	w.put("b.sock", "b", "1.0").info.Endpoint = ""
	w.notify("")
	want := map[string]plugins.Registration{
		"a": {Socket: dir + "/a.sock", Type: "CSIPlugin", Name: "a", Endpoint: "/csi.sock", Versions: []string{"1.0"}},
		"b": {Socket: dir + "/b.sock", Type: "CSIPlugin", Name: "b", Endpoint: dir + "/b.sock", Versions: []string{"1.0"}},
	}
	if diff := cmp.Diff(want, w.handler.known); diff != "" {
		t.Errorf("registered (-want +got):\n%s", diff)
	}
}

// TestRecreatedSocket restarts a plugin. Whatever the notifications, the old one is deregistered
// and the new one registered.
func TestRecreatedSocket(t *testing.T) {
	t.Parallel()
	for _, seen := range []bool{false, true} { // that it was gone
		for _, tellings := range [][]string{{"a.sock"}, {"a.sock", "a.sock"}, {""}} {
			w := newWorld(t)
			w.put("a.sock", "a", "1.0")
			w.notify("a.sock")
			w.want("before", []string{"register a 1.0"}, "a")
			w.remove("a.sock")
			if seen {
				w.notify("a.sock")
				w.want("while it was gone", []string{"deregister a"})
				w.handler.done = []string{"deregister a"}
			}
			a := w.put("a.sock", "a", "1.0")
			w.notify(tellings...)
			w.want("after", []string{"deregister a", "register a 1.0"}, "a")
			w.notified("after", a, "registered")
		}
	}
}

// TestSocketChangesDuringRegistration removes or restarts a plugin whose registration hangs. Other
// plugins are not delayed.
func TestSocketChangesDuringRegistration(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		w := newWorld(t)
		w.handler.hold["a"] = true
		w.put("a.sock", "a", "1.0")
		w.notify("a.sock")
		w.put("b.sock", "b", "1.0")
		w.remove("a.sock")
		if again {
			w.put("a.sock", "a", "1.0")
		}
		w.notify("b.sock", "a.sock", "a.sock")
		w.want("during the registration that hangs", []string{"register b 1.0"}, "a", "b")
		w.handler.hold["a"] = false
		w.handler.c.Wake()
		w.Run()
		want, known := []string{"register a 1.0", "deregister a"}, []string{"b"}
		if again {
			want, known = append(want, "register a 1.0"), []string{"a", "b"}
		}
		w.want("it has answered", want, known...)
	}
}

// TestFailedStepIsRetried injects faults into each step of a registration.
func TestFailedStepIsRetried(t *testing.T) {
	t.Parallel()
	const failed = "RegisterPlugin error -- plugin registration failed with err: scripted"
	const notify = "NotifyRegistrationStatus a.sock"
	for _, tt := range []struct {
		name     string
		meddle   func(w *world)
		done     []string
		notified []string
		after    time.Duration
	}{
		{
			"GetInfo", func(w *world) { w.course.fails["GetInfo a.sock"] = 3 },
			[]string{"register a 1.0"},
			[]string{"registered"},
			3500 * time.Millisecond,
		},
		{
			"registration", func(w *world) { w.handler.fails["register"] = 2 },
			[]string{"register a 1.0"},
			[]string{failed, failed, "registered"},
			1500 * time.Millisecond,
		},
		{
			"notification of success", func(w *world) { w.course.fails[notify] = 1 },
			[]string{"register a 1.0", "deregister a", "register a 1.0"},
			[]string{"registered"},
			500 * time.Millisecond,
		},
		{
			"notification of success, and its undoing",
			func(w *world) { w.course.fails[notify], w.handler.fails["deregister"] = 1, 1 },
			[]string{"register a 1.0", "deregister a", "register a 1.0"},
			[]string{"registered"},
			500 * time.Millisecond,
		},
		{
			"notification of failure", func(w *world) { w.course.fails[notify], w.handler.fails["register"] = 1, 1 },
			[]string{"register a 1.0"},
			[]string{"registered"},
			500 * time.Millisecond,
		},
	} {
		w := newWorld(t)
		a := w.put("a.sock", "a", "1.0")
		tt.meddle(w)
		w.notify("a.sock")
		w.want(tt.name, tt.done, "a")
		w.notified(tt.name, a, tt.notified...)
		if took := w.Host.Now().Sub(sim.Epoch); took != tt.after {
			t.Errorf("%s: it took %v, want %v", tt.name, took, tt.after)
		}
	}
}

// TestFailedDeregistrationIsRetried removes a plugin, and restarts it before it is deregistered.
func TestFailedDeregistrationIsRetried(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		w := newWorld(t)
		w.put("a.sock", "a", "1.0")
		w.notify("a.sock")
		w.handler.fails["deregister"] = 1
		w.remove("a.sock")
		w.manager.Notify(dir + "/a.sock")
		w.until("plugin a.sock", func(r trace.Record) bool { return r.Failed() })
		want, known := []string{"register a 1.0", "deregister a"}, []string{}
		if again {
			w.put("a.sock", "a", "1.0")
			want, known = append(want, "register a 1.0"), []string{"a"}
		}
		w.notify("a.sock")
		w.want("in the end", want, known...)
	}
}

// until runs the world until a new record satisfies the condition.
func (w *world) until(what string, is func(trace.Record) bool) {
	w.Helper()
	before := len(w.Host.Log().Records())
	w.Until(what, func() bool { return slices.ContainsFunc(w.Host.Log().Records()[before:], is) })
}

// TestUnknownPluginType notifies the plugin of the rejection.
func TestUnknownPluginType(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.put("a.sock", "a", "1.0")
	a.info.Type = "DevicePlugin"
	w.notify("a.sock")
	w.want("of an unknown type", nil)
	if len(a.notified) == 0 || a.notified[0] != "RegisterPlugin error -- no handler registered for plugin type: DevicePlugin at socket "+dir+"/a.sock" {
		t.Errorf("got notification %q", a.notified)
	}
	w.remove("a.sock")
	w.notify("a.sock")
	w.want("gone", nil)
}

// TestTwoSocketsOfOnePlugin has two plugins of one name: one is rejected, or replaces the other.
// When the registered one is removed, the other one is registered at once.
func TestTwoSocketsOfOnePlugin(t *testing.T) {
	t.Parallel()
	t.Run("of the same version", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.put("a.sock", "a", "1.0")
		b := w.put("b.sock", "a", "1.0")
		w.notify("a.sock", "b.sock")
		w.want("both", []string{"register a 1.0"}, "a")
		if len(b.notified) == 0 || b.notified[0] != "RegisterPlugin error -- plugin validation failed with err: there is 1.0" {
			t.Errorf("second plugin: got notification %q", b.notified)
		}
		b.notified = nil
		w.remove("a.sock")
		before := w.Host.Now()
		w.notify("a.sock")
		w.want("the first one is removed", []string{"deregister a", "register a 1.0"}, "a")
		w.notified("the first one is removed", b, "registered")
		if !w.Host.Now().Equal(before) {
			t.Errorf("it took until %v, and was %v", w.Host.Now(), before)
		}
	})
	for _, first := range []string{"a.sock", "b.sock"} {
		t.Run("of another version, and first goes "+first, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.put("a.sock", "a", "1.0")
			w.notify("a.sock")
			w.notified("alone", a, "registered")
			w.put("b.sock", "a", "1.1")
			w.notify("b.sock", "")
			w.want("both", []string{"register a 1.0", "register a 1.1"}, "a")
			a.notified = nil // that there is a newer one
			w.remove(first)
			w.notify(first)
			if first == "a.sock" {
				w.want("the older one is removed", nil, "a")
				return
			}
			w.want("the newer one is removed", []string{"deregister a", "register a 1.0"}, "a")
			w.notified("the newer one is removed", a, "registered")
		})
	}
}

// TestNewerPluginFailsToRegister checks that the older plugin is registered again.
func TestNewerPluginFailsToRegister(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("a.sock", "a", "1.0")
	w.notify("a.sock")
	b := w.put("b.sock", "a", "1.1")
	w.handler.fails["register"] = 1
	w.manager.Notify(dir + "/b.sock")
	w.until("the newer one to fail", func(r trace.Record) bool { return r.Verb == "NotifyRegistrationStatus" && r.Object == "b.sock" })
	w.notified("the newer one", b, "RegisterPlugin error -- plugin registration failed with err: scripted")
	w.until("the older one to be registered", func(r trace.Record) bool { return r.Verb == "NotifyRegistrationStatus" && r.Object == "a.sock" })
	w.want("the older one is back", []string{"register a 1.0", "register a 1.0"}, "a")
	w.Run()
	w.want("tried again", []string{"register a 1.1"}, "a")
}

// TestNotifyBoundsPendingSockets notifies of more sockets than are kept: everything is scanned.
func TestNotifyBoundsPendingSockets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("last.sock", "a", "1.0")
	for i := range 1001 {
		w.manager.Notify(fmt.Sprintf("%s/%d.sock", dir, i))
	}
	w.Run()
	w.want("after many", []string{"register a 1.0"}, "a")
	if n := strings.Count(w.Host.Log().Text(), "GetInfo"); n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
}

// TestPluginsWithRandomSchedules has three plugins of two names appear, disappear and restart in
// any order, with faults. In the end the existing plugins are registered.
func TestPluginsWithRandomSchedules(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		w := newWorld(t)
		chooser := sim.NewSeeded(seed)
		w.course.Chooser = chooser
		announcers := map[string]*announcer{}
		for range 12 {
			socket := []string{"a.sock", "b.sock", "c.sock"}[chooser.Choose(3)]
			switch chooser.Choose(4) {
			case 0:
				w.remove(socket)
			case 1:
				w.handler.fails[[]string{"register", "deregister"}[chooser.Choose(2)]]++
			default:
				name := map[string]string{"a.sock": "x", "b.sock": "x", "c.sock": "y"}[socket]
				announcers[socket] = w.put(socket, name, fmt.Sprint("1.", chooser.Choose(2)))
				w.course.fails["NotifyRegistrationStatus "+socket] = chooser.Choose(2)
			}
			w.manager.Notify(dir + "/" + socket)
			for range chooser.Choose(6) {
				w.Host.Step()
			}
		}
		w.Run()
		paths, err := w.sockets.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{}
		for _, path := range paths {
			want[announcers[strings.TrimPrefix(path, dir+"/")].info.Name] = true
		}
		got := map[string]bool{}
		for name, r := range w.handler.known {
			got[name] = true
			a := announcers[strings.TrimPrefix(r.Socket, dir+"/")]
			if is, _ := w.sockets.Identify(r.Socket); is == "" || len(a.notified) == 0 || a.notified[len(a.notified)-1] != "registered" {
				t.Errorf("seed %d: %s is registered for %s, socket %q, notifications %q", seed, name, r.Socket, is, a.notified)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d: registered (-want +got):\n%s", seed, diff)
		}
		if t.Failed() {
			t.Fatal(w.Host.Log().Text())
		}
	}
}
