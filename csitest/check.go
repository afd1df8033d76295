package csitest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sim"
)

// A Target is a CSI driver to check.
type Target struct {
	// New returns the driver, once for each trial. In-process services (cluster.Driver.Controller, Node) must
	// begin without volumes. They are made again over the same volumes when the driver restarts. A driver with
	// sockets (Socket, NodeSockets) is the same in all trials. Its Classes need not have a StorageClass.
	New func() cluster.Driver
	// Restart restarts a driver with sockets: on a node, or its controller if node is "". nil: it is not
	// restarted.
	Restart func(node string) error
	// Devices are what the disks of the nodes are. "": in memory for in-process services, and Loop, which needs
	// root, for sockets.
	Devices cluster.Devices
	// Nodes is the number of nodes, up to 2; 0: 2, or 1 for a driver with one socket.
	Nodes int
	// Block adds trials with block volumes.
	Block bool
	// Schedules is the number of drawn schedules after the trials; 0: 50, negative: none.
	Schedules int
	// Live runs the trials that need no stepping in live worlds, whose clock is sped up.
	Live bool
	// Timeout is how long the driver may take to answer a call; 0: 10 s.
	Timeout time.Duration
	// Trial is the name of the only trial to run, as a failure says it. "": all.
	Trial string
}

// schedules is the default of Target.Schedules, and answerTimeout that of Target.Timeout.
const (
	schedules     = 50
	answerTimeout = 10 * time.Second
)

// Check runs a driver under the controllers and kubelets of package cluster, and disturbs its calls one after
// the other. Each defect is one error of the test: a sentence about an RPC, in the order of the specification.
func Check(t testing.TB, target Target) {
	t.Helper()
	c := newChecker(t.Context(), target)
	defer c.sockets.close()
	c.check(func(trial) bool { return true })
	c.report(t)
}

// A checker checks one target.
type checker struct {
	ctx     context.Context //nolint:containedctx // of one Check
	target  Target
	timeout time.Duration
	pool    sim.Pool
	sockets sockets
	has     features
	nodes   int
	noData  bool

	mu       sync.Mutex
	hung     chan struct{} // is closed with the first call that goes on although its context has ended
	hungRPC  string        // guarded by mu
	passed   int
	skipped  []string
	findings []reported
	err      error // the check cannot go on
}

// features are what the driver says of itself.
type features struct {
	controller []csispec.ControllerServiceCapability_RPC_Type
	topology   bool
}

// A reported finding is the first one of its kind.
type reported struct {
	finding
	result result
}

func newChecker(ctx context.Context, target Target) *checker {
	return &checker{ctx: ctx, target: target, timeout: cmp.Or(target.Timeout, answerTimeout), hung: make(chan struct{})}
}

// blocked is called when a call does not return although its context has ended.
func (c *checker) blocked(rpc string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hungRPC == "" {
		c.hungRPC = rpc
		close(c.hung)
	}
}

// check runs the selected stories and trials. It leaves the trials behind if a call never
// returns.
func (c *checker) check(selects func(trial) bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.runAll(selects)
	}()
	select {
	case <-done:
		c.pool.Close()
	case <-c.hung: // the goroutine, which owns all the rest, stays in the driver
	}
}

// hang returns the RPC that does not return; "": there is none.
func (c *checker) hang() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hungRPC
}

func (c *checker) runAll(selects func(trial) bool) {
	if c.err = c.probe(); c.err != nil {
		return
	}
	if c.target.Trial != "" {
		t, err := parseTrial(c.target.Trial)
		if c.err = err; err == nil {
			c.add(c.run(t))
		}
		return
	}
	for _, s := range stories {
		if !selects(trial{story: s}) {
			continue
		}
		if why := c.lacks(s); why != "" {
			c.skipped = append(c.skipped, fmt.Sprintf("%s (%s)", s.name, why))
			continue
		}
		if !c.runStory(s, selects) || c.err != nil {
			return
		}
	}
	if c.target.Live {
		return
	}
	n := c.target.Schedules
	if n == 0 {
		n = schedules
	}
	for i := range n {
		t := trial{seed: uint64(i) + 1}
		if selects(t) && c.err == nil {
			c.add(c.run(t))
		}
	}
}

// probeStory is the story that every driver must be able to live through.
const probeStory = "life"

// runStory runs a story without and then with disturbances. It reports whether others make sense.
func (c *checker) runStory(s story, selects func(trial) bool) bool {
	plain := c.run(trial{story: s})
	if plain.refused {
		c.skipped = append(c.skipped, s.name+" (the driver refuses the volume)")
		return true
	}
	c.add(plain)
	if c.err != nil {
		return false
	}
	if len(plain.findings) > 0 {
		return s.name != probeStory
	}
	if s.name == probeStory {
		c.noData = plain.noData
	}
	for _, t := range trialsOf(s, plain.counts) {
		if c.err == nil && selects(t) && (!c.target.Live || t.how.isLive()) {
			c.add(c.run(t))
		}
	}
	return true
}

// lacks returns why a story is not possible; "": it is.
func (c *checker) lacks(s story) string {
	can := func(rpc csispec.ControllerServiceCapability_RPC_Type) bool {
		return slices.Contains(c.has.controller, rpc)
	}
	switch {
	case s.stepped && c.target.Live:
		return "the world is live"
	case s.needs == needExpansion && !can(csispec.ControllerServiceCapability_RPC_EXPAND_VOLUME):
		return "no capability EXPAND_VOLUME"
	case s.needs == needSnapshots && !can(csispec.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT):
		return "no capability CREATE_DELETE_SNAPSHOT"
	case s.needs == needFreedom && c.nodes < 2:
		return "one node"
	case s.needs == needFreedom && c.has.topology:
		return "volumes are bound to nodes"
	case s.needs == needBlock && !c.target.Block:
		return "Target.Block is not set"
	default:
		return ""
	}
}

// add adds the result of a trial.
func (c *checker) add(r result) {
	if r.failed != nil {
		c.err = fmt.Errorf("trial %s: %w", r.trial.name(), r.failed)
		return
	}
	if len(r.findings) == 0 {
		c.passed++
	}
	for _, f := range r.findings {
		same := func(other reported) bool {
			return other.rpc == f.rpc && (other.kind == f.kind || f.kind == "deleted" && other.kind == "idempotent")
		}
		if !slices.ContainsFunc(c.findings, same) {
			c.findings = append(c.findings, reported{f, r})
		}
	}
}

// probe asks the driver for its capabilities.
func (c *checker) probe() error {
	switch {
	case c.target.New == nil:
		return errors.New("a target without New")
	case c.target.Nodes < 0 || c.target.Nodes > 2:
		return fmt.Errorf("a target with %d nodes: want 1 or 2", c.target.Nodes)
	}
	d := c.target.New()
	c.nodes = cmp.Or(c.target.Nodes, 2)
	if c.target.Nodes == 0 && d.Socket != "" && len(d.NodeSockets) < 2 {
		c.nodes = 1
	}
	d, err := c.inProcess(d)
	if err != nil {
		return err
	}
	if d.Controller == nil {
		return fmt.Errorf("driver %s has no controller service in this program or at a socket", d.Name)
	}
	register, err := d.Controller(cluster.DriverNode{})
	if err != nil {
		return err
	}
	conn := csi.Direct(register)
	plugin, err := csispec.NewIdentityClient(conn).GetPluginCapabilities(c.ctx, &csispec.GetPluginCapabilitiesRequest{})
	if err != nil && status.Code(err) != codes.Unimplemented {
		return fmt.Errorf("GetPluginCapabilities: %w", err)
	}
	for _, each := range plugin.GetCapabilities() {
		if each.GetService().GetType() == csispec.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS {
			c.has.topology = true
		}
	}
	answer, err := csispec.NewControllerClient(conn).ControllerGetCapabilities(c.ctx, &csispec.ControllerGetCapabilitiesRequest{})
	if err != nil {
		return fmt.Errorf("ControllerGetCapabilities: %w", err)
	}
	for _, each := range answer.GetCapabilities() {
		c.has.controller = append(c.has.controller, each.GetRpc().GetType())
	}
	if !slices.Contains(c.has.controller, csispec.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME) {
		return fmt.Errorf("driver %s lacks the capability CREATE_DELETE_VOLUME: its volumes cannot be made for trials", d.Name)
	}
	return nil
}

// config returns the configuration of a world whose driver is observed.
func (c *checker) config(o *observer) (cluster.Config, error) {
	d := c.target.New()
	outside := d.Socket != "" || len(d.NodeSockets) > 0
	d, err := c.inProcess(d)
	if err != nil {
		return cluster.Config{}, err
	}
	d.Classes = c.classes(d.Classes)
	cfg := cluster.Config{
		Nodes: c.nodes, Devices: c.target.Devices, WithoutDriver: true, PreRegistered: true, Drivers: []cluster.Driver{o.driver(d)},
		Snapshots: slices.Contains(c.has.controller, csispec.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT),
	}
	switch {
	case cfg.Devices != "":
	case outside:
		cfg.Devices = cluster.Loop
	default:
		cfg.Devices = cluster.Array
	}
	return cfg, nil
}

// classes returns the classes of a driver, with a default StorageClass.
func (c *checker) classes(all []runtime.Object) []runtime.Object {
	const isDefault = "storageclass.kubernetes.io/is-default-class"
	var class *storagev1.StorageClass
	var others []runtime.Object
	for _, object := range all {
		if s, ok := object.(*storagev1.StorageClass); ok && class == nil {
			class = s.DeepCopy()
			continue
		}
		others = append(others, object)
	}
	if class == nil {
		class = &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: cluster.ClassName}}
	}
	metav1.SetMetaDataAnnotation(&class.ObjectMeta, isDefault, "true")
	grows := slices.Contains(c.has.controller, csispec.ControllerServiceCapability_RPC_EXPAND_VOLUME)
	class.AllowVolumeExpansion = &grows
	if c.has.topology && class.VolumeBindingMode == nil {
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		class.VolumeBindingMode = &mode
	}
	return append([]runtime.Object{class}, others...)
}
