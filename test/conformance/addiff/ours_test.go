package addiff

import (
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
)

// A mutation changes our controller. The zero value changes nothing.
type mutation struct {
	configure func(*attachdetach.Config)
	client    func(kubernetes.Interface) kubernetes.Interface // wraps its client
	plugin    func(*csi.Plugin) plugins.Plugin                // wraps its plugin
}

// runOurs executes a history with our controller, on a stepped host.
func runOurs(h history, chooser sim.Chooser, mutation mutation) histories.Execution[*world] {
	host := sim.NewStepped(sim.SteppedConfig{Chooser: chooser, StepsMax: histories.StepsMax})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now, SkipBootstrap: true})
	w := newWorld(server, server.Client(host.ExternalCaller()), host.Now, histories.NewClock(host).Pass)
	var process *sim.Process
	start := func() { process = startOurs(host, w, mutation) }
	w.down = func(meanwhile func() error) error {
		host.Crash(process)
		err := meanwhile()
		start()
		return err
	}
	return w.execute(h, start, nil)
}

func startOurs(host *sim.Stepped, w *world, mutation mutation) *sim.Process {
	process := host.Process("attachdetach")
	w.faults.Caller = process
	var client kubernetes.Interface = w.server.Client(w.faults)
	if mutation.client != nil {
		client = mutation.client(client)
	}
	informers := w.server.Informers(process)
	driver := csi.New(csi.Config{
		Process: process, Client: client,
		CSIDrivers:  informers.Storage().V1().CSIDrivers(),
		Attachments: informers.Storage().V1().VolumeAttachments(),
	})
	var plugin plugins.Plugin = driver
	if mutation.plugin != nil {
		plugin = mutation.plugin(driver)
	}
	var manager plugins.Manager
	if err := manager.Register(plugin); err != nil {
		panic(err)
	}
	cfg := attachdetach.Config{
		Process: process, Client: client, Informers: informers, Plugins: &manager,
		DisableForceDetach: w.disableForceDetach,
		Recorder: events.New(events.Config{
			Process: process, Client: w.server.Client(process), Source: attachdetach.EventSource,
		}),
	}
	if mutation.configure != nil {
		mutation.configure(&cfg)
	}
	attachdetach.New(cfg)
	return process
}
