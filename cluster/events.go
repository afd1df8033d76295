package cluster

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// cacheDelayMax is how many events a restarted component's first list may lag at most.
const cacheDelayMax = 2

// EventKinds lists the kinds of events of a world. In a strategy, and for Inject of the host, each is
// followed by its target; "crash" optionally also by "with RESOURCE N behind". A live world has crash,
// stop, start, partition and restore.
var EventKinds = []string{
	"crash", "stop", "start", "replicate", "retire", "relist", "expire",
	"reboot", "partition", "restore",
}

// possibleEvents returns the events that can happen now. Those after the blank line need a stepped
// world: they look into caches, start a second process, or take the disk away from a driver that may
// still be answering a call.
//
//	crash COMPONENT                        it is killed where it stands, and starts again
//	stop COMPONENT                         it is killed, and stays down until "start"
//	start COMPONENT
//	stop driver(NODE)                      the driver's process on the node ends, until "start": its mounts stay
//	start driver(NODE)
//	stop driver(NAME/NODE)                 the same of a driver of Config.Drivers; driver(NAME) is its controller
//	start driver(NAME/NODE)
//	partition NODE                         its kubelet is killed, its mounts stay, it becomes NotReady; until "restore"
//	restore NODE
//
//	crash COMPONENT with RESOURCE N behind … and its first list of a resource is N events old
//	replicate COMPONENT                    a second process of it starts, COMPONENT#2
//	retire COMPONENT#2                     it ends
//	relist COMPONENT RESOURCE              its watch breaks, and it lists again
//	expire RESOURCE                        the server drops old events: a watch that is behind gets 410, and lists again
//	reboot NODE                            its kubelet is killed, its mounts are gone, its disk is kept
//
// It returns only events of the given kind, or all if verb is "". Strategies ask at each step, and
// the lists are long.
func (c *Cluster) possibleEvents(verb string) []sim.Event {
	m := &eventList{cluster: c, verb: verb}
	for _, p := range c.components {
		m.addForComponent(p)
	}
	if !c.isLive() && m.wants("expire") {
		for _, resource := range c.laggingResources() {
			m.add(func() error { c.server.Compact(resource); return nil }, "expire", resource)
		}
	}
	for _, n := range c.nodes {
		m.addForNode(n)
	}
	for _, d := range c.drivers {
		if !d.builtIn && d.controller != nil {
			m.addForDriver("", d.Name, d.eventName(), d.stopped.Load())
		}
	}
	return m.all
}

// An eventList collects possible events.
type eventList struct {
	cluster *Cluster
	verb    string
	all     []sim.Event
}

// wants reports whether events of a kind are requested.
func (m *eventList) wants(verb string) bool { return m.verb == "" || m.verb == verb }

// add adds an event if its kind is requested.
func (m *eventList) add(do func() error, verb, of string) {
	if m.wants(verb) {
		m.all = append(m.all, sim.Event{Name: verb + " " + of, Apply: func() { m.cluster.must(do()) }})
	}
}

// addForComponent adds the events of a component.
func (m *eventList) addForComponent(p *componentState) {
	c := m.cluster
	switch {
	case c.isPartitioned(p), p.asleep:
		return
	case p.replica:
		m.add(func() error { c.retire(p); return nil }, "retire", p.name)
		return
	case p.process.Load() == nil:
		m.add(func() error { return c.Resume(p.name) }, "start", p.name)
		return
	}
	m.add(func() error { return c.restart(p.name) }, "crash", p.name)
	if !c.isLive() && (m.wants("crash") || m.wants("relist")) {
		for _, resource := range c.server.CachedResources(p.process.Load()) {
			if !slices.Contains(p.advisory, resource) {
				m.addForCache(p, resource)
			}
		}
	}
	m.add(func() error { return c.Stop(p.name) }, "stop", p.name)
	if !c.isLive() && m.wants("replicate") && (p.driver != "" || !strings.Contains(p.name, "(")) {
		if _, err := c.component(p.name + "#2"); err != nil {
			m.add(func() error { return c.Replicate(p.name) }, "replicate", p.name)
		}
	}
}

// addForCache adds the events of a component's cache of a resource.
func (m *eventList) addForCache(p *componentState, resource string) {
	c := m.cluster
	if m.wants("crash") {
		for n := 1; n <= cacheDelayMax; n++ {
			m.add(func() error { return c.restart(p.name, cacheDelay{resource, n}) }, "crash",
				fmt.Sprintf("%s with %s %d behind", p.name, resource, n))
		}
	}
	if m.wants("relist") && c.server.PendingEvents(p.process.Load(), resource) > 1 {
		m.add(func() error { c.server.BreakWatch(p.process.Load(), resource); return nil }, "relist", p.name+" "+resource)
	}
}

// addForNode adds the events of a node.
func (m *eventList) addForNode(n *node) {
	c := m.cluster
	if n.partitioned.Load() {
		m.add(func() error { return c.RestoreNode(n.name) }, "restore", n.name)
		return
	}
	if !c.isLive() {
		m.add(func() error { return c.Reboot(n.name) }, "reboot", n.name)
	}
	m.add(func() error { return c.PartitionNode(n.name) }, "partition", n.name)
	for _, d := range n.drivers {
		m.addForDriver(n.name, d.Name, d.eventName(), d.stopped.Load())
	}
}

// addForDriver adds the events of a driver on a node, or of its controller.
func (m *eventList) addForDriver(node, driver, target string, stopped bool) {
	c := m.cluster
	if stopped {
		m.add(func() error { return c.StartDriver(node, driver) }, "start", target)
	} else {
		m.add(func() error { return c.StopDriver(node, driver) }, "stop", target)
	}
}

// laggingResources returns the resources of which a cache is behind, in the order of the
// components.
func (c *Cluster) laggingResources() []string {
	var resources []string
	seen := map[string]bool{}
	for _, p := range c.components {
		if p.process.Load() == nil {
			continue
		}
		for _, r := range c.server.CachedResources(p.process.Load()) {
			if !seen[r] && c.server.PendingEvents(p.process.Load(), r) > 0 {
				seen[r] = true
				resources = append(resources, r)
			}
		}
	}
	return resources
}

// must panics on an error that cannot occur, since the components have started before.
func (c *Cluster) must(err error) {
	if err != nil {
		panic("cluster: " + err.Error())
	}
}

func kubeletName(node string) string { return "kubelet(" + node + ")" }

// eventName returns the name of a driver's process on a node in events.
func (d *nodeDriver) eventName() string {
	if d.builtIn {
		return "driver(" + d.node.name + ")"
	}
	return "driver(" + d.Name + "/" + d.node.name + ")"
}

// eventName returns the name of the process of a driver's controller in events.
func (d *csiDriver) eventName() string { return "driver(" + d.Name + ")" }

// stoppedDrivers returns the names of the drivers' processes that are stopped.
func (c *Cluster) stoppedDrivers() []string {
	var names []string
	for _, n := range c.nodes {
		for _, d := range n.drivers {
			if d.stopped.Load() {
				names = append(names, d.eventName())
			}
		}
	}
	for _, d := range c.drivers {
		if d.stopped.Load() {
			names = append(names, d.eventName())
		}
	}
	return names
}

// isPartitioned reports whether a component is the kubelet of a partitioned node.
func (c *Cluster) isPartitioned(p *componentState) bool {
	for _, n := range c.nodes {
		if n.partitioned.Load() && p.name == kubeletName(n.name) {
			return true
		}
	}
	return false
}

func (c *Cluster) node(name string) (*node, error) {
	for _, n := range c.nodes {
		if n.name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("node %q: %w", name, ErrUnknownComponent)
}

// Reboot kills a node's kubelet, drops all mounts and devices of the node and starts the kubelet
// again. The node's own files stay, and attached volumes stay attached. The world must be stepped.
// The error matches ErrUnknownComponent.
func (c *Cluster) Reboot(name string) error {
	if c.isLive() {
		return fmt.Errorf("reboot %s: %w", name, errSteppedOnly)
	}
	n, err := c.node(name)
	if err != nil {
		return err
	}
	p, err := c.component(kubeletName(name))
	if err != nil {
		return err
	}
	c.kill(p)
	if err := c.bootDisks(n); err != nil {
		return fmt.Errorf("reboot %s: %w", n.name, err)
	}
	n.boots++
	if err := c.bootContainers(n); err != nil {
		return fmt.Errorf("reboot %s: %w", n.name, err)
	}
	return c.launch(p)
}

// PartitionNode cuts a node off until RestoreNode. Its kubelet is down, as by Stop, and its mounts
// stay. With Config.NodeLeases the node lifecycle controller notices after
// Config.NodeMonitorGracePeriod. Without, its Node becomes NotReady at once. The error matches
// ErrUnknownComponent.
func (c *Cluster) PartitionNode(name string) error {
	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	n, err := c.node(name)
	if err != nil {
		return err
	}
	if err := c.stop(kubeletName(name)); err != nil {
		return err
	}
	n.partitioned.Store(true)
	if c.isMonitored() {
		return nil
	}
	c.setReady(name, corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status.")
	return nil
}

// RestoreNode ends a node's partition: its kubelet starts again, and its Node becomes Ready. The
// error matches ErrUnknownComponent.
func (c *Cluster) RestoreNode(name string) error {
	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	n, err := c.node(name)
	if err != nil {
		return err
	}
	n.partitioned.Store(false)
	if !c.isMonitored() {
		c.setReady(name, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status")
	}
	p, err := c.component(kubeletName(name))
	if err != nil || p.process.Load() != nil {
		return err
	}
	return c.launch(p)
}

// isMonitored reports whether the world has a component that declares silent nodes dead, and kubelets
// that report.
func (c *Cluster) isMonitored() bool {
	_, err := c.component("nodelifecycle")
	return err == nil && c.nodeLeases
}

// setReady sets a Node's Ready condition, as the node lifecycle controller and a restored kubelet
// do.
//
// Upstream: pkg/controller/nodelifecycle tryUpdateNodeHealth (v1.36).
func (c *Cluster) setReady(name string, status corev1.ConditionStatus, reason, message string) {
	c.server.UpdateStored("nodes", "", name, func(stored fake.Object) fake.Object {
		node := stored.DeepCopyObject().(*corev1.Node)
		for i := range node.Status.Conditions {
			condition := &node.Status.Conditions[i]
			if condition.Type == corev1.NodeReady {
				condition.Status, condition.Reason, condition.Message = status, reason, message
				condition.LastTransitionTime = metav1.NewTime(c.host.Now())
			}
		}
		return node
	})
}

// Degraded reports whether a component is down or replicated, a node is partitioned, or the driver
// is stopped on a node.
func (c *Cluster) Degraded() bool {
	for _, p := range c.components {
		if p.down() || p.replica {
			return true
		}
	}
	return len(c.nfs.Stopped()) > 0 || len(c.stoppedDrivers()) > 0
}

// Repair undoes all events: it restores partitioned nodes, starts stopped components and drivers, and
// retires replicas, in a stepped world each as a step. It starts NFS servers. It reports whether there
// was anything to repair.
func (c *Cluster) Repair() bool {
	repaired := false
	inject := func(format, name string) {
		repaired = c.host.Inject(fmt.Sprintf(format, name)) || repaired
	}
	for _, n := range c.nodes {
		if n.partitioned.Load() {
			inject("restore %s", n.name)
		}
	}
	for _, p := range slices.Clone(c.components) {
		switch {
		case p.replica:
			inject("retire %s", p.name)
		case p.down():
			inject("start %s", p.name)
		}
	}
	for _, driver := range c.stoppedDrivers() {
		inject("start %s", driver)
	}
	for _, server := range c.nfs.Stopped() {
		c.nfs.Start(server)
		repaired = true
	}
	return repaired
}
