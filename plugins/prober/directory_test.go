package prober_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/prober"
	"github.com/volsim/volsim/sim"
)

const dir = "/drivers"

// driver is a plugin with its program, and how often that was started.
type driver struct {
	name, program string
	begun         int
}

func (p *driver) Name() string { return p.name }
func (p *driver) CanSupport(spec *plugins.Spec) bool {
	return spec.Volume != nil && spec.Volume.FlexVolume != nil && spec.Volume.FlexVolume.Driver == p.name
}
func (p *driver) VolumeName(spec *plugins.Spec) (string, error) { return spec.Name(), nil }

// world is a process that probes for drivers on a disk in memory.
type world struct {
	*testworld.Runner[*sim.Stepped]
	c       *sim.Process
	disk    *nodefs.Memory
	manager plugins.Manager
	drivers *prober.Directory

	begun map[string]int    // by name: how often a plugin was made, or was to be made
	hold  map[string]bool   // drivers that do not answer
	fail  map[string]error  // drivers that fail
	calls map[string]string // other names that drivers have for themselves
	seen  []string          // what plugins there were after each change
}

func newWorld(t *testing.T, strategy sim.Strategy) *world {
	w := &world{
		Runner: testworld.NewRunner(t, sim.NewStepped(sim.SteppedConfig{Strategy: strategy, StepsMax: 10_000})),
		disk:   nodefs.NewMemory("/"),
		begun:  map[string]int{}, hold: map[string]bool{}, fail: map[string]error{}, calls: map[string]string{},
	}
	w.c = w.Host.Process("controller")
	w.manager.OnChange(func() { w.seen = append(w.seen, w.found()) })
	w.drivers = prober.New(prober.Config{Process: w.c, Manager: &w.manager, FS: w.disk, Dir: dir, New: w.begin})
	return w
}

// begin returns a driver's plugin.
func (w *world) begin(_ context.Context, program, name string) (plugins.Plugin, error) {
	w.begun[name]++
	p := &driver{name: name, program: program, begun: w.begun[name]}
	w.c.Wait("answer of "+name, 0, func() bool { return !w.hold[name] })
	if err := w.fail[name]; err != nil {
		return nil, err
	}
	if other := w.calls[name]; other != "" {
		p.name = other
	}
	return p, nil
}

var names = []string{"v/a", "v/b", "v/c", "plain", "v/a~b"}

// found lists the plugins: names, and which instance of each.
func (w *world) found() string {
	var all []string
	for _, name := range names {
		if p, err := w.manager.FindByName(name); err == nil {
			all = append(all, fmt.Sprintf("%s#%d", name, p.Plugin.(*driver).begun))
		}
	}
	return strings.Join(all, " ")
}

// write puts files on the disk.
func (w *world) write(files ...string) {
	w.Helper()
	for _, file := range files {
		w.NoError(w.disk.MkdirAll(dir + "/" + file[:strings.LastIndex(file, "/")+1]))
		w.NoError(w.disk.WriteFile(dir+"/"+file, nil))
	}
}

// notify notifies of directories and runs the world until it is at rest.
func (w *world) notify(names ...string) {
	w.Helper()
	for _, name := range names {
		w.drivers.Notify(name)
	}
	w.Run()
}

func (w *world) want(what, want string) {
	w.Helper()
	if got := w.found(); got != want {
		w.Errorf("%s: found %q, want %q\n%s", what, got, want, w.Host.Log().Text())
	}
}

func TestDriversAppearAndDisappear(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.notify("")
	w.want("without a directory", "")
	w.write("v~a/a", "plain/plain", ".hidden/.hidden", "v~b/other", "README/x")
	w.notify("")
	w.want("all that is there", "v/a#1 plain#1")
	w.write("v~b/b")
	w.notify("v~b", ".hidden")
	w.want("one more", "v/a#1 v/b#1 plain#1")
	w.notify("v~a")
	w.want("one that has changed", "v/a#2 v/b#1 plain#1")
	w.NoError(w.disk.Remove(dir + "/v~a/a"))
	w.notify("v~a")
	w.want("a removed program", "v/b#1 plain#1")
	w.NoError(w.disk.RemoveAll(dir + "/plain"))
	w.notify("plain", "never~there")
	w.want("a removed directory", "v/b#1")
	w.NoError(w.disk.RemoveAll(dir))
	w.notify("")
	w.want("all are removed", "")
	if text := w.Host.Log().Text(); strings.Count(text, "driver Probe /drivers/never~there") != 1 {
		t.Errorf("what was never there is looked at again\n%s", text)
	}
	if diff := cmp.Diff([]string{
		"plain#1", "v/a#1 plain#1", "v/a#1 v/b#1 plain#1", "v/a#2 v/b#1 plain#1", "v/b#1 plain#1", "v/b#1", "",
	}, w.seen); diff != "" {
		t.Errorf("plugins seen by OnChange (-want +got):\n%s", diff)
	}
	if now := w.Host.Now(); !now.Equal(sim.Epoch) {
		t.Errorf("it took until %v", now)
	}
}

func TestProgramAndName(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ file, name string }{
		{"v~a/a", "v/a"},
		{"plain/plain", "plain"},
	} {
		w := newWorld(t, nil)
		w.write(test.file)
		w.notify("")
		p, err := w.manager.FindByName(test.name)
		if err != nil {
			t.Errorf("%s: %v", test.file, err)
			continue
		}
		if got, want := p.Plugin.(*driver).program, dir+"/"+test.file; got != want {
			t.Errorf("program %q, want %q", got, want)
		}
	}
}

// TestDriverWithInvalidName adds drivers whose names are invalid, or those of others.
func TestDriverWithInvalidName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.NoError(w.manager.Register(&driver{name: "v/c"}))
	w.calls["v/b"] = "v/a"
	w.write("v~a~b/b", "v~b/b", "v~c/c")
	w.notify("")
	w.want("none of them", "v/c#0")
	if w.begun["v/a~b"] != 1 {
		t.Errorf("begun: %v; want v/a~b among them, the first ~ being a /", w.begun)
	}
	w.NoError(w.disk.RemoveAll(dir))
	w.notify("")
	w.want("what is registered stays", "v/c#0")
}

// TestDriverAppearsDuringScan makes the list stale before it is returned.
func TestDriverAppearsDuringScan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.write("v~a/a")
	w.drivers.Notify("")
	w.Until("the list to be asked for", func() bool {
		return len(w.Host.Enabled()) == 1 && w.Host.Enabled()[0] == "controller/list /drivers: driver List /drivers"
	})
	w.drivers.Notify("")
	for !strings.Contains(w.Host.Log().Text(), "List") {
		w.Host.Step()
	}
	w.write("v~b/b")
	w.Run()
	w.want("what came after the first list", "v/a#1 v/b#1")
}

// TestHangingDriverDelaysNoOther has one driver hang while others are added, removed and found.
func TestHangingDriverDelaysNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.hold["v/a"] = true
	w.write("v~a/a", "v~b/b")
	w.notify("")
	w.want("while one hangs", "v/b#1")
	w.write("v~c/c")
	w.NoError(w.disk.RemoveAll(dir + "/v~b"))
	w.notify("v~b", "v~c", "v~a", "v~a")
	w.want("what came and went meanwhile", "v/c#1")
	w.hold["v/a"] = false
	w.notify()
	w.c.Wake()
	w.Run()
	w.want("it has answered, and was probed again after its change", "v/a#2 v/c#1")

	w.hold["v/a"] = true
	w.notify("v~a")
	w.NoError(w.disk.RemoveAll(dir + "/v~a"))
	w.notify("v~a")
	w.want("while it hangs it stays what it was", "v/a#2 v/c#1")
	w.hold["v/a"] = false
	w.c.Wake()
	w.Run()
	w.want("it has answered, and is removed", "v/c#1")
}

var errBroken = errors.New("exec format error")

func TestFailingDriverIsRetried(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fail["v/a"] = errBroken
	w.write("v~a/a", "v~b/b")
	w.drivers.Notify("")
	w.Host.Process("clock").NewTimer("mended", func() { delete(w.fail, "v/a") }).Reset(5 * time.Second)
	w.Run()
	w.want("mended", "v/a#5 v/b#1")
	// Tried at 0, 0.5, 1.5, 3.5 and 7.5 s.
	if got := w.Host.Now().Sub(sim.Epoch); got != 7500*time.Millisecond {
		t.Errorf("found after %v, want 7.5 s", got)
	}
	w.fail["v/a"] = errBroken
	w.drivers.Notify("v~a")
	w.Until("an update that fails", func() bool { return w.begun["v/a"] == 7 })
	w.want("an update that fails leaves what was there", "v/a#5 v/b#1")
}

// TestFailingDriverChanges is probed once per change, and otherwise with back-off.
func TestFailingDriverChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fail["v/a"] = errBroken
	w.write("v~a/a")
	const changes = 20
	for i := range changes {
		w.drivers.Notify("v~a")
		w.Until("a try", func() bool { return w.begun["v/a"] == i+1 })
	}
	hour := sim.Epoch.Add(time.Hour)
	w.Until("an hour", func() bool { return w.Host.Now().After(hour) })
	if got, most := w.begun["v/a"], changes+int(time.Hour/(2*time.Minute)); got > most {
		t.Errorf("tried %d times in an hour, want %d at most", got, most)
	}
}

// TestDiskFails injects faults into the reads of the disk.
func TestDiskFails(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"driver Unavailable", "hang"} {
		fault, err := sim.ParseFault(what)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			w := newWorld(t, &failing{fault: fault, at: n})
			w.write("v~a/a", "v~b/b")
			w.drivers.Notify("")
			err := w.Host.Wait(t.Context(), "both drivers", func() bool { return w.found() == "v/a#1 v/b#1" })
			if err != nil {
				t.Errorf("%s at call %d: %v: found %q\n%s", what, n, err, w.found(), w.Host.Log().Text())
			}
		}
	}
}

// failing injects a fault into one call.
type failing struct {
	fault sim.Fault
	at    int
}

func (f *failing) Decide(d *sim.Decision) sim.Move {
	if action, ok := d.Task(0).Pending(); !ok || !f.fault.Applies(action) {
		return sim.Move{}
	}
	f.at--
	if f.at != -1 {
		return sim.Move{}
	}
	return sim.Move{Fault: f.fault}
}

// TestDriversWithRandomSchedules adds and removes drivers while they are probed. In the end the
// plugins match the disk.
func TestDriversWithRandomSchedules(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		w := newWorld(t, sim.NewRandom(seed))
		user := w.Host.Process("user")
		w.drivers.Notify("")
		user.User("", func(context.Context) {
			caller := w.Host.ExternalCaller()
			for i, change := range []string{"+v~a/a", "+v~b/b", "-v~a", "+v~c/c", "+v~a/a", "-v~c", "-v~b", "+plain/plain"} {
				name, _, _ := strings.Cut(change[1:], "/")
				if change[0] == '+' {
					w.write(change[1:])
				} else {
					w.NoError(w.disk.RemoveAll(dir + "/" + name))
				}
				w.drivers.Notify(name)
				if i == 4 {
					w.drivers.Notify("")
				}
				caller.Call(pause, nothing)
			}
		})
		w.Run()
		got := strings.Fields(w.found())
		for i := range got {
			got[i], _, _ = strings.Cut(got[i], "#")
		}
		if want := []string{"v/a", "plain"}; !slices.Equal(got, want) {
			t.Fatalf("seed %d: found %v, want %v\n%s", seed, got, want, w.Host.Log().Text())
		}
	}
}

func TestNotifyBoundsPendingNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.write("v~a/a", "v~b/b")
	for i := range 5000 {
		w.drivers.Notify(fmt.Sprintf("x~%d", i))
	}
	w.notify("v~a")
	w.want("all is looked at", "v/a#1 v/b#1")
}

// TestAwaits checks which plugins may appear soon: those of drivers on the disk, from the beginning
// until they answer or turn out not to be drivers.
func TestAwaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.write("v~a/a", "v~b/b", "v~c/other")
	w.hold["v/a"] = true
	var gone []string
	w.drivers = prober.New(prober.Config{
		Process: w.c, Manager: &w.manager, FS: w.disk, Dir: dir, New: w.begin,
		Gone: func(name string) { gone = append(gone, name) },
	})
	wantAwaited := func(when string, want ...string) {
		t.Helper()
		var got []string
		for _, name := range names {
			if w.drivers.Awaits(name) {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, want) || w.drivers.Awaits("") != (len(want) > 0) {
			t.Errorf("%s: awaits %q, any: %t, want %q", when, got, w.drivers.Awaits(""), want)
		}
	}
	wantAwaited("at the start", "v/a", "v/b", "v/c")
	w.drivers.Notify("")
	w.NoError(w.Host.Wait(t.Context(), "the others", func() bool { return !w.drivers.Awaits("v/b") && !w.drivers.Awaits("v/c") }))
	wantAwaited("while a driver does not answer", "v/a")
	w.hold["v/a"] = false
	w.Run()
	wantAwaited("after it has answered")
	if !slices.Equal(gone, []string{"v/c"}) {
		t.Errorf("gone: %q, want what is not a driver", gone)
	}
}
