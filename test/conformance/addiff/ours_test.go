package addiff

import (
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sim"
)

// ours is a world with our controller, on a stepped host.
type ours struct {
	host      *sim.Stepped
	server    *fake.Server
	seen      *observer
	faults    *faults
	component *sim.Process
	spoil     spoil
	alarm     *sim.Timer
	rung      bool
}

// spoil makes our controller another one. The zero value leaves it as it is.
type spoil struct {
	configure func(*attachdetach.Config)                      // what it is told
	client    func(kubernetes.Interface) kubernetes.Interface // what stands between it and the server
	plugin    func(*csi.Plugin) plugins.Plugin                // what stands between it and its plugin
}

func (s spoil) isNone() bool { return s.configure == nil && s.client == nil && s.plugin == nil }

// newOurs makes such a world. chooser is nil for the ordinary course of things.
func newOurs(chooser sim.Chooser, spoil spoil) *ours {
	o := &ours{host: sim.NewStepped(sim.SteppedConfig{Chooser: chooser, StepsMax: stepsMax}), faults: newFaults(), spoil: spoil}
	o.server = fake.NewServer(fake.Config{Now: o.host.Now, SkipBootstrap: true})
	o.seen = observe(o.server)
	o.alarm = o.host.Process("clock").NewTimer("alarm", func() { o.rung = true })
	return o
}

func (o *ours) start(u *user) {
	c := o.host.Process("attachdetach")
	o.component, o.faults.Caller = c, c
	var client kubernetes.Interface = o.server.Client(o.faults)
	if o.spoil.client != nil {
		client = o.spoil.client(client)
	}
	informers := o.server.Informers(c)
	driver := csi.New(csi.Config{
		Process: c, Client: client,
		CSIDrivers:  informers.Storage().V1().CSIDrivers(),
		Attachments: informers.Storage().V1().VolumeAttachments(),
	})
	var plugin plugins.Plugin = driver
	if o.spoil.plugin != nil {
		plugin = o.spoil.plugin(driver)
	}
	var manager plugins.Manager
	if err := manager.Register(plugin); err != nil {
		panic(err)
	}
	cfg := attachdetach.Config{
		Process: c, Client: client, Informers: informers, Plugins: &manager,
		DisableForceDetach: !u.forces,
		Recorder:           events.New(events.Config{Process: c, Client: o.server.Client(c), Source: attachdetach.EventSource}),
	}
	if o.spoil.configure != nil {
		o.spoil.configure(&cfg)
	}
	attachdetach.New(cfg)
}

// user is who acts in this world. What he does takes effect at once.
func (o *ours) user() *user {
	u := newUser(o.server, o.server.Client(o.host.ExternalCaller()), o.seen, o.faults, o.host.Now)
	u.down = func(meanwhile func() error) error {
		o.host.Crash(o.component)
		err := meanwhile()
		o.start(u)
		return err
	}
	return u
}

// pass lets time pass.
func (o *ours) pass(d time.Duration) error {
	if o.rung = d == 0; !o.rung {
		o.alarm.Reset(d)
	}
	for !o.rung || o.host.Busy() {
		if !o.host.Step() {
			return fmt.Errorf("nothing is left to happen, not even the alarm")
		}
		if o.host.Steps() >= stepsMax {
			return sim.ErrSteps
		}
	}
	return nil
}

const stepsMax = 500_000

// live lives through a history and returns the state after each step.
func (o *ours) live(h history) life {
	defer o.host.Close()
	u := o.user()
	return u.live(h, o.start, o.pass, nil)
}
