package prober

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// How long it takes until a driver that could not be probed is probed again; doubling each time.
const (
	retryMin = 500 * time.Millisecond
	retryMax = 2*time.Minute + 2*time.Second
)

// pendingMax is how many names that were told wait to be taken in. If there are more, all is looked at.
const pendingMax = 1000

// Config is what New must be told.
type Config struct {
	Process *sim.Process
	Manager *plugins.Manager // changed by the component's strands
	FS      nodefs.FS        // the disk
	Dir     string           // whose directories are drivers; absolute
	// New makes the plugin of a driver's program, whose Name must be name. It is called in a strand of the component, which it
	// leaves for whatever takes time.
	New func(ctx context.Context, program, name string) (plugins.Plugin, error)
}

// Directory is a directory of drivers, of one process. Its plugins are in the process's manager.
//
// Differs: upstream does what it is told: a driver that was removed and made again is gone if the two are told the wrong way
// round. It also asks a driver to begin anew for each file in its directory that changes; here for its program only.
//
// Upstream: pkg/volume/flexvolume flexVolumeProber (v1.36).
type Directory struct {
	cfg Config

	mu      sync.Mutex
	pending []string // guarded by mu: names of what may have changed, each once; "" is all

	// All below belongs to the component.
	probes   map[string]*probe // by the name of the driver's directory
	scanning bool
	rescan   bool // what is being listed may have changed since
	retries  *sim.Queue[string]
	waiting  map[string]bool // names that are to be looked at again: each once, however often it fails meanwhile
}

// probe is what is known of a directory.
type probe struct {
	running  bool
	again    bool // it may have changed since it was looked at
	failures int  // in a row
	put      bool // its plugin is in the manager
}

// New makes the component's part that probes. It begins with the first Tell.
func New(cfg Config) *Directory {
	d := &Directory{cfg: cfg, probes: map[string]*probe{}, waiting: map[string]bool{}}
	cfg.Process.Delivery("driver directories", d.told, d.take)
	d.retries = sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: "driver directories", Background: true})
	d.retries.Work(d.retry)
	return d
}

// Notify says that the directory of that name may have come, gone or changed; "" says so of all. It may be called from anywhere,
// at any time, and does not wait.
func (d *Directory) Notify(name string) {
	if ignored(name) {
		return
	}
	d.mu.Lock()
	switch {
	case slices.Contains(d.pending, name):
	case len(d.pending) == pendingMax:
		d.pending = []string{""}
	default:
		d.pending = append(d.pending, name)
	}
	d.mu.Unlock()
	d.cfg.Process.Wake()
}

// ignored tells whether a directory is none of a driver's.
func ignored(name string) bool { return strings.HasPrefix(name, ".") }

// pluginName is the name of the plugin of a directory.
//
// Upstream: k8s.io/utils/strings UnescapeQualifiedName.
func pluginName(directory string) string { return strings.Replace(directory, "~", "/", 1) }

// programOf is where the program of a directory is, from there.
//
// Upstream: pkg/volume/flexvolume getExecutablePathRel (v1.36).
func programOf(directory string) string { return directory[strings.LastIndex(directory, "~")+1:] }

func (d *Directory) told() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.pending) > 0
}

// take takes in one thing that was told.
func (d *Directory) take() {
	d.mu.Lock()
	name := d.pending[0]
	d.pending = d.pending[1:]
	d.mu.Unlock()
	if name == "" {
		d.scan()
		return
	}
	d.look(name)
}

// scan looks at all directories there are, and at those of which there is a plugin.
func (d *Directory) scan() {
	if d.scanning {
		d.rescan = true
		return
	}
	d.scanning = true
	d.cfg.Process.Spawn("list "+d.cfg.Dir, func(context.Context) {
		names, err := d.list()
		d.scanning = false
		switch {
		case d.rescan:
			d.rescan = false
			d.scan()
		case err != nil:
			d.note("list", d.cfg.Dir, "", err)
			d.retryAfter("", retryMax)
		default:
			for _, name := range names {
				d.look(name)
			}
		}
	})
}

// list is what may be a driver, or may have been one; sorted.
func (d *Directory) list() ([]string, error) {
	var names []string
	err := d.call("List", d.cfg.Dir, func() (err error) {
		names, err = d.cfg.FS.ReadDir(d.cfg.Dir)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names = slices.AppendSeq(slices.DeleteFunc(names, ignored), maps.Keys(d.probes))
	slices.Sort(names)
	return slices.Compact(names), nil
}

// look probes a directory, in a strand of its own; once more if that is being done.
func (d *Directory) look(name string) {
	p := d.probes[name]
	if p == nil {
		p = &probe{}
		d.probes[name] = p
	}
	if p.running {
		p.again = true
		return
	}
	p.running, p.again = true, false
	d.cfg.Process.Spawn("probe "+name, func(ctx context.Context) {
		err := d.probe(ctx, name, p)
		p.running = false
		d.probed(name, p, err)
	})
}

// probed goes on from what came of a probe.
func (d *Directory) probed(name string, p *probe, err error) {
	if err != nil {
		d.note("probe", name, "", err)
		p.failures++
	} else {
		p.failures = 0
	}
	switch {
	case p.again:
		d.look(name)
	case err != nil:
		d.retryAfter(name, min(retryMin<<min(p.failures-1, 10), retryMax))
	case !p.put:
		delete(d.probes, name)
	}
}

func (d *Directory) retryAfter(name string, delay time.Duration) {
	if !d.waiting[name] {
		d.waiting[name] = true
		d.retries.AddAfter(name, delay)
	}
}

// retry looks again at what could not be probed, unless that was done in the meantime.
func (d *Directory) retry(_ context.Context, name string) error {
	delete(d.waiting, name)
	switch p := d.probes[name]; {
	case name == "":
		d.scan()
	case p != nil && p.failures > 0:
		d.look(name)
	}
	return nil
}

// probe brings the manager in line with what is there. A driver whose program fails stays what it was.
//
// Upstream: pkg/volume/flexvolume newProbeEvent (v1.36).
func (d *Directory) probe(ctx context.Context, name string, p *probe) error {
	program := path.Join(d.cfg.Dir, name, programOf(name))
	var there bool
	err := d.call("Probe", path.Join(d.cfg.Dir, name), func() (err error) {
		there, err = d.cfg.FS.Exists(program)
		return err
	})
	switch {
	case err != nil:
		return err
	case !there && p.put:
		p.put = false
		d.note("driver", name, "gone", nil)
		d.cfg.Manager.Remove(pluginName(name))
		return nil
	case !there:
		return nil
	}
	plugin, err := d.cfg.New(ctx, program, pluginName(name))
	if err != nil {
		return err
	}
	if err := d.put(plugin, name); err != nil {
		d.note("driver", name, "", err) // and stays so until it is another
		return nil
	}
	p.put = true
	d.note("driver", name, "there", nil)
	return nil
}

func (d *Directory) put(plugin plugins.Plugin, name string) error {
	if plugin.Name() != pluginName(name) {
		return fmt.Errorf("its plugin calls itself %q", plugin.Name())
	}
	return d.cfg.Manager.Put(plugin)
}

// call leaves the component to look at the disk.
func (d *Directory) call(verb, object string, look func() error) error {
	return d.cfg.Process.Call(trace.Action{Kind: trace.KindDriver, Verb: verb, Object: object}, func() trace.Outcome {
		return trace.Outcome{Err: look()}
	}).Err
}

func (d *Directory) note(verb, object, detail string, err error) {
	d.cfg.Process.Record(trace.Action{Kind: trace.KindWork, Verb: verb, Object: object}, trace.Outcome{Detail: detail, Err: err})
}
