package prober

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volsim/volsim/internal/watchdir"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Config configures a Directory.
type Config struct {
	Process *sim.Process
	Manager *plugins.Manager // updated in tasks of the process
	FS      nodefs.FS        // the disk
	Dir     string           // whose directories are drivers; absolute
	// New returns the plugin of a driver's program; its Name must be name. It is called in a task
	// of the process, and leaves the process for everything that takes time.
	New func(ctx context.Context, program, name string) (plugins.Plugin, error)
	// Gone is called in a task of the process when a driver is no longer awaited without having had a
	// plugin; see Directory.Awaits. nil: nothing.
	Gone func(name string)
}

// A Directory is a directory of drivers of one process. It adds their plugins to the process's
// manager.
//
// Differs: upstream applies events as they are reported. A driver that was removed and recreated
// disappears if the two events arrive in the wrong order. It also reinitializes a driver for each
// file in its directory that changes; here only for its program.
//
// Upstream: pkg/volume/flexvolume flexVolumeProber (v1.36).
type Directory struct {
	cfg   Config
	queue *watchdir.Queue[driver]

	// The fields below belong to the process.
	scanning bool
	rescan   bool             // the directory may have changed since it was listed
	awaited  sets.Set[string] // drivers without a plugin, by directory
}

// driver is what is known of a driver's directory.
type driver struct {
	put bool // its plugin is in the manager
}

// New adds the prober's tasks to the process. It lists the directory once, to know which drivers to
// await, and does nothing else before the first Notify.
func New(cfg Config) *Directory {
	names, _ := cfg.FS.ReadDir(cfg.Dir) // the first scan reports an error
	d := &Directory{cfg: cfg, awaited: sets.New(slices.DeleteFunc(names, ignored)...)}
	d.queue = watchdir.NewQueue(watchdir.Config[driver]{
		Process: cfg.Process, Name: "driver directories", RetryName: "driver directories", Background: true, Verb: "probe",
		Scan: d.scan, Sync: d.probe, Keep: func(p *driver) bool { return p.put },
	})
	return d
}

// Notify reports that the directory of that name may have appeared, disappeared or changed; ""
// means all of them. It may be called from any goroutine, at any time, and does not block.
func (d *Directory) Notify(name string) {
	if !ignored(name) {
		d.queue.Notify(name)
	}
}

// Awaits reports whether the plugin of that name may appear soon: its driver exists, and its program
// has not answered yet. "" asks whether there is any such plugin. Call it in a task of the process.
func (d *Directory) Awaits(name string) bool {
	if name == "" {
		return d.awaited.Len() > 0
	}
	return d.awaited.Has(strings.Replace(name, "/", "~", 1))
}

// abandon records that a driver will not get a plugin.
func (d *Directory) abandon(name string) {
	d.awaited.Delete(name)
	if d.cfg.Gone != nil {
		d.cfg.Gone(pluginName(name))
	}
}

// ignored reports whether a directory is not a driver's.
func ignored(name string) bool { return strings.HasPrefix(name, ".") }

// pluginName returns the name of the plugin of a directory.
//
// Upstream: k8s.io/utils/strings UnescapeQualifiedName.
func pluginName(directory string) string { return strings.Replace(directory, "~", "/", 1) }

// programOf returns the path of a directory's program, relative to the directory.
//
// Upstream: pkg/volume/flexvolume getExecutablePathRel (v1.36).
func programOf(directory string) string { return directory[strings.LastIndex(directory, "~")+1:] }

// scan lists the directory and probes every driver in it, and every driver that has a plugin.
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
			d.record("list", d.cfg.Dir, "", err)
			d.queue.RetryScan()
		default:
			d.queue.SyncAll(append(names, sets.List(d.awaited)...))
		}
	})
}

// list returns the names in the directory that may be drivers.
func (d *Directory) list() ([]string, error) {
	var names []string
	err := d.call("List", d.cfg.Dir, func() (err error) {
		names, err = d.cfg.FS.ReadDir(d.cfg.Dir)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return slices.DeleteFunc(names, ignored), nil
}

// probe brings the manager in line with a driver's directory. A driver whose program fails keeps
// its plugin.
//
// Upstream: pkg/volume/flexvolume newProbeEvent (v1.36).
func (d *Directory) probe(ctx context.Context, name string, p *driver) error {
	program := path.Join(d.cfg.Dir, name, programOf(name))
	var exists bool
	err := d.call("Probe", path.Join(d.cfg.Dir, name), func() (err error) {
		exists, err = d.cfg.FS.Exists(program)
		return err
	})
	switch {
	case err != nil:
		return err
	case !exists && p.put:
		p.put = false
		d.record("driver", name, "gone", nil)
		d.cfg.Manager.Remove(pluginName(name))
		return nil
	case !exists:
		d.abandon(name)
		return nil
	case !p.put:
		d.awaited.Insert(name)
	}
	plugin, err := d.cfg.New(ctx, program, pluginName(name))
	if err != nil {
		return err
	}
	if err := d.put(plugin, name); err != nil {
		d.record("driver", name, "", err) // not retried until the program changes
		d.abandon(name)
		return nil
	}
	p.put = true
	d.record("driver", name, "there", nil)
	return nil
}

func (d *Directory) put(plugin plugins.Plugin, name string) error {
	if plugin.Name() != pluginName(name) {
		return fmt.Errorf("plugin has the name %q", plugin.Name())
	}
	d.awaited.Delete(name) // first: callbacks of the manager may ask
	return d.cfg.Manager.Put(plugin)
}

// call leaves the process to read the disk.
func (d *Directory) call(verb, object string, read func() error) error {
	return d.cfg.Process.Call(trace.Action{Kind: trace.KindDriver, Verb: verb, Object: object}, func() trace.Outcome {
		return trace.Outcome{Err: read()}
	}).Err
}

func (d *Directory) record(verb, object, detail string, err error) {
	d.cfg.Process.Record(trace.Action{Kind: trace.KindWork, Verb: verb, Object: object},
		trace.Outcome{Detail: detail, Err: err})
}
