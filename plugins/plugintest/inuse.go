package plugintest

import (
	"context"
	"errors"

	"github.com/volsim/volsim/plugins"
)

// inUse are the options for a volume that is already in use. Whether mounting succeeds or fails, it
// must stay in use.
var inUse = []struct {
	name    string
	options plugins.MountOptions
}{
	{"in use (remount)", plugins.MountOptions{Remount: true}},
	{"in use (reconstructed)", plugins.MountOptions{Reconstructed: true}},
}

// checkVolumesInUse mounts a volume that is in use again, and injects each fault into each call.
func (c *checker) checkVolumesInUse() {
	for _, p := range pairs {
		if !p.takesOptions {
			continue
		}
		for _, u := range inUse {
			stepped := c.checkInUse(p, u.name, u.options, nil)
			for _, fault := range faults {
				for n := 0; stepped; n++ {
					f := &faultStrategy{fault: fault, number: n}
					if c.checkInUse(p, u.name, u.options, f); f.number >= 0 {
						break
					}
				}
			}
		}
	}
}

// checkInUse mounts a volume again, once, with an injected fault; if f is nil, with a canceled
// context. It reports whether faults can be injected here.
func (c *checker) checkInUse(p pair, name string, options plugins.MountOptions, f *faultStrategy) (stepped bool) {
	c.inWorld(func(w *world) {
		if _, ok := w.prepared(p); !ok || !w.done(p, "") {
			return
		}
		stepped = w.stepped != nil
		before := w.resources()
		w.options = options
		when := "a canceled context"
		if f == nil {
			_, _ = w.call(p.do, func(ctx context.Context) error {
				ctx, cancel := context.WithCancel(ctx)
				cancel()
				return p.doIt(ctx, w)
			})
		} else {
			when = "an injected fault (" + string(f.fault.Kind) + ")"
			f.task = w.Process.Name() + "/" + taskName
			w.stepped.SetStrategy(f)
			_, _ = w.doPair(p)
			w.stepped.SetStrategy(defaultOrder())
		}
		w.wantResources(p.do+": changes a volume "+name+" after "+when, before)
		if w.done(p, " for a volume "+name) {
			w.wantResources(p.do+": changes a volume "+name, before)
		}
	})
	return stepped
}

// checkStats checks VolumeStats.
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
		ok, err := w.call("VolumeStats", func(ctx context.Context) (err error) {
			usage, err = w.caps.StatsProvider.VolumeStats(ctx, w.Volumes[0].Name(), w.Pods[0].UID)
			return err
		})
		if !ok {
			return
		}
		w.wantResources("VolumeStats: has side effects", before)
		switch {
		case errors.Is(err, plugins.ErrUnsupported):
		case err != nil:
			w.problem("VolumeStats: fails for a volume that is set up", "%v", err)
		case min(usage.CapacityBytes, usage.UsedBytes, usage.AvailableBytes, usage.Inodes, usage.InodesUsed,
			usage.InodesFree) < -1:
			w.problem("VolumeStats: a number is below -1", "%+v", usage)
		}
	})
}
