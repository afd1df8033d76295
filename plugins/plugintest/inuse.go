package plugintest

import (
	"context"
	"errors"

	"github.com/volsim/volsim/plugins"
)

// inUse are the uses of a volume that is in use already: whatever comes of mounting it anew must leave it so.
var inUse = []struct {
	what string
	use  plugins.MountOptions
}{
	{"that is mounted anew", plugins.MountOptions{Remount: true}},
	{"that was mounted before the process began", plugins.MountOptions{Reconstructed: true}},
}

// checkVolumesInUse mounts a volume anew that is in use, while each call of each kind goes wrong.
func (c *checker) checkVolumesInUse() {
	for _, p := range pairs {
		if !p.takesOptions {
			continue
		}
		for _, u := range inUse {
			stepped := c.checkInUse(p, u.what, u.use, nil)
			for _, fault := range faults {
				for n := 0; stepped; n++ {
					f := &faultStrategy{fault: fault, number: n}
					if c.checkInUse(p, u.what, u.use, f); f.number >= 0 {
						break
					}
				}
			}
		}
	}
}

// checkInUse mounts a volume anew, once, with a call that goes wrong; f nil: with a context that has ended. It returns whether calls of the
// plugin can go wrong here.
func (c *checker) checkInUse(p pair, what string, use plugins.MountOptions, f *faultStrategy) (stepped bool) {
	c.inWorld(func(w *world) {
		if _, ok := w.prepared(p); !ok || !w.done(p, "") {
			return
		}
		stepped = w.stepped != nil
		before := w.resources()
		w.options = use
		when := "a context that has ended"
		if f == nil {
			_, _ = w.call(p.do, func(ctx context.Context) error {
				ctx, cancel := context.WithCancel(ctx)
				cancel()
				return p.doIt(ctx, w)
			})
		} else {
			when = "a fault (" + string(f.fault.Kind) + ")"
			f.task = w.Process.Name() + "/" + taskName
			w.stepped.SetStrategy(f)
			_, _ = w.doPair(p)
			w.stepped.SetStrategy(defaultOrder())
		}
		w.wantResources(p.do+": it changes a volume "+what+" after it met "+when, before)
		if w.done(p, " for a volume "+what) {
			w.wantResources(p.do+": it changes a volume "+what, before)
		}
	})
	return stepped
}

// checkStats asks how full a volume is.
func (c *checker) checkStats() {
	c.inWorld(func(w *world) {
		setUp := pairByName("SetUp")
		if w.caps.StatsProvider == nil {
			return
		}
		if _, ok := w.prepared(setUp); !ok || !w.done(setUp, "") {
			return
		}
		before := w.resources()
		var usage plugins.Usage
		ok, err := w.call("Measure", func(ctx context.Context) (err error) {
			usage, err = w.caps.StatsProvider.VolumeStats(ctx, w.Volumes[0].Name(), w.Pods[0].UID)
			return err
		})
		if !ok {
			return
		}
		w.wantResources("Measure: it changes something", before)
		switch {
		case errors.Is(err, plugins.ErrUnsupported):
		case err != nil:
			w.problem("Measure: it fails for a volume that is set up", "%v", err)
		case min(usage.CapacityBytes, usage.UsedBytes, usage.AvailableBytes, usage.Inodes, usage.InodesUsed, usage.InodesFree) < -1:
			w.problem("Measure: a number is below -1", "%+v", usage)
		}
	})
}
