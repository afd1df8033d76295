package csitest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/volsim/volsim/cluster"
	_ "github.com/volsim/volsim/fake/crd" // for snapshots
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A trial is one world with its disturbance. Its name says everything about it.
type trial struct {
	story story
	call  numberedCall // that is disturbed; zero: none
	how   disturbance
	seed  uint64 // of a drawn schedule; 0: it is not drawn
}

// name returns the name of the trial: "life/NodeStageVolume#1/lost Unavailable", "life", "drawn/17".
func (t *trial) name() string {
	switch {
	case t.seed > 0:
		return fmt.Sprintf("drawn/%d", t.seed)
	case t.call.n == 0:
		return t.story.name
	default:
		return fmt.Sprintf("%s/%s/%s", t.story.name, t.call, t.how)
	}
}

// parseTrial returns the trial of a name.
func parseTrial(name string) (trial, error) {
	parts := strings.Split(name, "/")
	if parts[0] == "drawn" && len(parts) == 2 {
		seed, err := strconv.ParseUint(parts[1], 10, 64)
		if err != nil || seed == 0 {
			return trial{}, fmt.Errorf("trial %q: want a seed of at least 1", name)
		}
		return trial{seed: seed}, nil
	}
	s, err := findStory(parts[0])
	if err != nil {
		return trial{}, fmt.Errorf("trial %q: %w", name, err)
	}
	t := trial{story: s}
	switch len(parts) {
	case 1:
		return t, nil
	case 3:
		call, err := parseCall(parts[1])
		if err != nil {
			return trial{}, fmt.Errorf("trial %q: %w", name, err)
		}
		for _, how := range disturbancesOf(call.rpc) {
			if how.String() == parts[2] {
				t.call, t.how = call, how
				return t, nil
			}
		}
	}
	return trial{}, fmt.Errorf("trial %q: want STORY, STORY/RPC#N/DISTURBANCE or drawn/SEED", name)
}

// trialsOf returns the trials of a story, given how often it calls each RPC when nothing happens.
func trialsOf(s story, counts map[string]int) []trial {
	var all []trial
	for _, text := range strings.Fields(s.calls) {
		call, err := parseCall(text)
		if err != nil || counts[call.rpc] < call.n {
			continue
		}
		for _, how := range disturbancesOf(call.rpc) {
			if s.endsAlthough(how) {
				all = append(all, trial{story: s, call: call, how: how})
			}
		}
	}
	return all
}

// A result is the result of a trial.
type result struct {
	trial    trial
	findings []finding
	counts   map[string]int
	refused  bool // the driver has refused an optional volume
	noData   bool
	schedule sim.Schedule
	records  []trace.Record
	setupEnd int
	failed   error // the world could not be created
}

// A world is the world of a trial.
type world struct {
	cluster  *cluster.Cluster
	observer *observer
	driver   string             // its name
	probes   bool               // it finds out whether the driver mounts
	noData   bool               // the driver mounts nothing
	checker  *invariant.Checker // nil: the world is live
	before   left               // before the story

	recording *sim.RecordingStrategy // nil: the world is live
}

// stepsMax bounds the steps of a trial: many times those of a story.
const stepsMax = 15_000

// run runs a trial.
func (c *checker) run(t trial) result {
	ctx, cancel := c.ctx, func() {}
	if c.target.Live {
		ctx, cancel = context.WithTimeout(ctx, liveLimit)
	}
	defer cancel()
	w, err := c.world(ctx, t)
	r := result{trial: t, failed: err}
	if err != nil {
		return r
	}
	defer func() { r.failed = errors.Join(r.failed, w.cluster.Close()) }()
	r.setupEnd = w.cluster.Trace().Steps()
	w.addUsers(t)
	r.findings = w.judge(ctx, t, w.runToRest(ctx))
	r.counts, r.noData, r.records = w.observer.counts(), w.noData, w.cluster.Trace().Records()
	if w.recording != nil {
		r.schedule = w.recording.Schedule
	}
	if u := w.observer.unresolved(); t.story.optional && t.call.n == 0 && u != nil && u.rpc == "CreateVolume" {
		r.refused = true
	}
	return r
}

// world returns the started world of a trial.
func (c *checker) world(ctx context.Context, t trial) (*world, error) {
	w := &world{observer: newObserver(c.timeout, c.blocked), noData: c.noData, probes: t.story.name == probeStory && t.call.n == 0}
	cfg, err := c.config(w.observer)
	if err != nil {
		return nil, err
	}
	w.driver = cfg.Drivers[0].Name
	if c.target.Live {
		w.prepareLive(&cfg, t)
	} else {
		cfg.Stepped = &sim.SteppedConfig{StepsMax: stepsMax, Pool: &c.pool}
	}
	if w.cluster, err = cluster.New(cfg); err != nil {
		return nil, err
	}
	if !c.target.Live {
		w.checker = invariant.Watch(invariant.World{
			API: w.cluster.Server(), Log: w.cluster.Trace(), Now: w.cluster.Host().Now, Devices: w.cluster.DeviceState(),
		}, invariant.Rules()...)
	}
	if err = w.cluster.Start(ctx); err == nil {
		w.before, err = w.left(ctx)
	}
	if host, stepped := w.cluster.Host().(*sim.Stepped); stepped && err == nil {
		w.recording = &sim.RecordingStrategy{}
		w.recording.Strategy, err = w.strategy(t)
		host.SetStrategy(untilFinding{w.recording, w.observer})
	}
	if err != nil {
		return nil, errors.Join(err, w.cluster.Close())
	}
	return w, nil
}

// addUsers adds the users of a trial.
func (w *world) addUsers(t trial) {
	if t.seed == 0 {
		w.addUser("user", t.story.lines(w.driver, ""))
		return
	}
	for i, s := range drawnStories(t.seed) {
		suffix := strconv.Itoa(i + 1)
		w.addUser("user-"+suffix, s.lines(w.driver, "-"+suffix))
	}
}

func (w *world) addUser(name string, lines []string) {
	w.cluster.User(name, func(ctx context.Context) error { return w.perform(ctx, lines) })
}

// strategy returns the strategy of a trial.
func (w *world) strategy(t trial) (sim.Strategy, error) {
	if t.seed > 0 {
		inner, err := sim.NewFaultInjector(sim.NewPOS(t.seed), t.seed, drawnFaults(w.driver), drawnSteps, cluster.EventKinds...)
		return marker{Strategy: inner, observer: w.observer}, err
	}
	if t.call.n == 0 {
		return sim.NewReplayStrategy(nil), nil
	}
	return &disturber{observer: w.observer, driver: w.driver, rpc: t.call.rpc, number: t.call.n, how: t.how}, nil
}

// drawnStories returns the stories of the users of a drawn schedule. They hold for each driver that can mount.
func drawnStories(seed uint64) []story {
	names := []string{"life", "hasty life", "sharing"}
	var all []story
	for i := range uint64(2) {
		s, err := findStory(names[(seed+i*(seed/3))%uint64(len(names))])
		if err != nil {
			panic(err)
		}
		all = append(all, s)
	}
	return all
}

// drawnSteps is the number of steps during which a drawn schedule has faults.
const drawnSteps = 600

// drawnFaults returns what goes wrong in a drawn schedule.
func drawnFaults(driver string) sim.FaultSpecs {
	call := func(fault sim.FaultKind, code codes.Code, rate float64) sim.FaultSpec {
		return sim.FaultSpec{Name: sim.Fault{Kind: fault, Code: code}.String(), Rate: rate}
	}
	return sim.FaultSpecs{
		call(sim.FaultDriverLost, codes.Unavailable, 0.1), call(sim.FaultDriver, codes.Aborted, 0.05),
		call(sim.FaultDriver, codes.Internal, 0.05), call(sim.FaultHang, codes.OK, 0.02),
		{Name: "crash", Target: "provisioner(" + driver + ")", Times: 1},
		{Name: "crash", Target: "attacher(" + driver + ")", Times: 1},
		{Name: "crash", Target: "kubelet(node-1)", Times: 1},
		{Name: "reboot", Target: "node-1", Times: 1},
		{Name: "stop", Target: "driver(" + driver + "/node-1)", Times: 1},
		{Name: "start", Target: "driver(" + driver + "/node-1)", Rate: 0.2},
	}
}

// outageMax is how often what is down is started again at rest.
const outageMax = 10

// runToRest runs the world to its end. What is down is started again.
func (w *world) runToRest(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a component panics: %v", p)
		}
	}()
	host, stepped := w.cluster.Host().(*sim.Stepped)
	if !stepped {
		return w.cluster.Run(ctx)
	}
	for range outageMax {
		err = w.cluster.Run(ctx)
		if panics := host.Panics(); len(panics) > 0 {
			return fmt.Errorf("%s panics: %v", panics[0].Task, panics[0].Value)
		}
		if w.observer.hasFinding() || errors.Is(err, sim.ErrSteps) || !w.cluster.Repair() {
			break
		}
	}
	return err
}
