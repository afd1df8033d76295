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

// cacheDelayMax is how many events old a list is at most that a part gets when it starts again.
const cacheDelayMax = 2

// EventKinds are the first words of the events that can befall a stepped world, as its strategy may say, each followed by
// what it befalls; "crash" also by "with RESOURCE N behind".
var EventKinds = []string{"crash", "stop", "start", "replicate", "retire", "relist", "expire", "reboot", "lose", "recover"}

// possibleEvents are the events that can befall a stepped world now:
//
//	crash PART                             it is killed where it stands, and starts again
//	crash PART with RESOURCE N behind      … and its first list of a resource is N events old
//	stop PART                              it is killed, and stays down until "start"
//	start PART
//	stop driver(NODE)                      the driver's process on the node ends, until "start": its mounts stay
//	start driver(NODE)
//	replicate PART                         a second process of it runs beside the first, PART#2
//	retire PART#2                          it ends
//	relist PART RESOURCE                   its watch breaks, and it lists again
//	expire RESOURCE                        the server forgets old events: whoever is behind gets 410, and lists again
//	reboot NODE                            its kubelet is killed, its mounts are gone, its disk is kept
//	lose NODE                              its kubelet is killed, its mounts stay, it becomes NotReady; until "recover"
//	recover NODE
//
// Only those with a verb are listed, or all if it is "": strategies ask at each step, and the lists are long.
func (c *Cluster) possibleEvents(verb string) []sim.Event {
	m := &eventList{cluster: c, verb: verb}
	for _, p := range c.components {
		m.addForComponent(p)
	}
	if m.wants("expire") {
		for _, resource := range c.laggingResources() {
			m.add(func() error { c.server.Compact(resource); return nil }, "expire", resource)
		}
	}
	for _, n := range c.nodes {
		m.addForNode(n)
	}
	return m.all
}

// eventList is a list of them that is being made.
type eventList struct {
	cluster *Cluster
	verb    string
	all     []sim.Event
}

// wants tells whether those with a verb are asked for.
func (m *eventList) wants(verb string) bool { return m.verb == "" || m.verb == verb }

// add adds one, if it is asked for.
func (m *eventList) add(do func() error, verb, of string) {
	if m.wants(verb) {
		m.all = append(m.all, sim.Event{Name: verb + " " + of, Apply: func() { m.cluster.must(do()) }})
	}
}

// addForComponent adds what can befall a part.
func (m *eventList) addForComponent(p *componentState) {
	c := m.cluster
	switch {
	case c.isPartitioned(p):
		return
	case p.replica:
		m.add(func() error { c.retire(p); return nil }, "retire", p.name)
		return
	case p.process == nil:
		m.add(func() error { return c.launch(p) }, "start", p.name)
		return
	}
	m.add(func() error { return c.restart(p.name) }, "crash", p.name)
	if m.wants("crash") || m.wants("relist") {
		for _, resource := range c.server.CachedResources(p.process) {
			m.addForCache(p, resource)
		}
	}
	m.add(func() error { return c.Stop(p.name) }, "stop", p.name)
	if m.wants("replicate") && !strings.Contains(p.name, "(") {
		if _, err := c.component(p.name + "#2"); err != nil {
			m.add(func() error { return c.Replicate(p.name) }, "replicate", p.name)
		}
	}
}

// addForCache adds what can befall a part's cache of a resource.
func (m *eventList) addForCache(p *componentState, resource string) {
	c := m.cluster
	if m.wants("crash") {
		for n := 1; n <= cacheDelayMax; n++ {
			m.add(func() error { return c.restart(p.name, cacheDelay{resource, n}) }, "crash", fmt.Sprintf("%s with %s %d behind", p.name, resource, n))
		}
	}
	if m.wants("relist") && c.server.PendingEvents(p.process, resource) > 1 {
		m.add(func() error { c.server.BreakWatch(p.process, resource); return nil }, "relist", p.name+" "+resource)
	}
}

// addForNode adds what can befall a node.
func (m *eventList) addForNode(n *node) {
	c := m.cluster
	if n.partitioned {
		m.add(func() error { return c.RestoreNode(n.name) }, "recover", n.name)
		return
	}
	m.add(func() error { return c.Reboot(n.name) }, "reboot", n.name)
	m.add(func() error { return c.PartitionNode(n.name) }, "lose", n.name)
	if n.driverStopped {
		m.add(func() error { return c.StartDriver(n.name) }, "start", nodeDriverName(n.name))
	} else {
		m.add(func() error { return c.StopDriver(n.name) }, "stop", nodeDriverName(n.name))
	}
}

// laggingResources are the resources that somebody's view is behind in, in the order of the parts.
func (c *Cluster) laggingResources() []string {
	var resources []string
	seen := map[string]bool{}
	for _, p := range c.components {
		if p.process == nil {
			continue
		}
		for _, r := range c.server.CachedResources(p.process) {
			if !seen[r] && c.server.PendingEvents(p.process, r) > 0 {
				seen[r] = true
				resources = append(resources, r)
			}
		}
	}
	return resources
}

// must is for what cannot fail, as the parts have started before.
func (c *Cluster) must(err error) {
	if err != nil {
		panic("cluster: " + err.Error())
	}
}

func kubeletName(node string) string { return "kubelet(" + node + ")" }

func nodeDriverName(node string) string { return "driver(" + node + ")" }

// isPartitioned tells whether a part is the kubelet of a node that is lost.
func (c *Cluster) isPartitioned(p *componentState) bool {
	for _, n := range c.nodes {
		if n.partitioned && p.name == kubeletName(n.name) {
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

// Reboot kills a node's kubelet, takes all its mounts and devices away and starts the kubelet again. The node's own files stay,
// and what is attached stays attached. The world must be stepped. The error matches ErrNoPart.
func (c *Cluster) Reboot(name string) error {
	n, err := c.node(name)
	if err != nil {
		return err
	}
	p, err := c.component(kubeletName(name))
	if err != nil {
		return err
	}
	c.kill(p)
	if err := c.driver.boot(n.name); err != nil {
		return fmt.Errorf("reboot %s: %w", n.name, err)
	}
	n.boots++
	return c.launch(p)
}

// PartitionNode cuts a node off: its kubelet is down, its mounts stay as they are, and its Node becomes NotReady, as the node
// lifecycle controller would say after a while. It stays so until Recover. The world must be stepped. The error matches
// ErrNoPart.
func (c *Cluster) PartitionNode(name string) error {
	n, err := c.node(name)
	if err != nil {
		return err
	}
	if err := c.Stop(kubeletName(name)); err != nil {
		return err
	}
	n.partitioned = true
	c.setReady(name, corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status.")
	return nil
}

// RestoreNode brings a lost node back: its kubelet starts again, and its Node becomes Ready. The error matches ErrNoPart.
func (c *Cluster) RestoreNode(name string) error {
	n, err := c.node(name)
	if err != nil {
		return err
	}
	n.partitioned = false
	c.setReady(name, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status")
	p, err := c.component(kubeletName(name))
	if err != nil || p.process != nil {
		return err
	}
	return c.launch(p)
}

// setReady does what the node lifecycle controller does, and a kubelet that comes back.
//
// Upstream: pkg/controller/nodelifecycle tryUpdateNodeHealth (v1.36).
func (c *Cluster) setReady(name string, is corev1.ConditionStatus, reason, message string) {
	c.server.UpdateStored("nodes", "", name, func(stored fake.Object) fake.Object {
		node := stored.DeepCopyObject().(*corev1.Node)
		for i := range node.Status.Conditions {
			condition := &node.Status.Conditions[i]
			if condition.Type == corev1.NodeReady {
				condition.Status, condition.Reason, condition.Message = is, reason, message
				condition.LastTransitionTime = metav1.NewTime(c.host.Now())
			}
		}
		return node
	})
}

// Degraded tells whether a part is down, or there twice, or a node lost, or the driver stopped on one.
func (c *Cluster) Degraded() bool {
	for _, p := range c.components {
		if p.process == nil || p.replica {
			return true
		}
	}
	return slices.ContainsFunc(c.nodes, func(n *node) bool { return n.driverStopped })
}

// Repair ends all misfortunes of a stepped world: what is lost comes back, what is down starts again, and what is there twice
// retires once, each as a step. It reports whether there was any.
func (c *Cluster) Repair() bool {
	healed := false
	befall := func(format, name string) {
		healed = c.host.(*sim.Stepped).Inject(fmt.Sprintf(format, name)) || healed
	}
	for _, n := range c.nodes {
		if n.partitioned {
			befall("recover %s", n.name)
		}
	}
	for _, p := range slices.Clone(c.components) {
		switch {
		case p.replica:
			befall("retire %s", p.name)
		case p.process == nil:
			befall("start %s", p.name)
		}
	}
	for _, n := range c.nodes {
		if n.driverStopped {
			befall("start %s", nodeDriverName(n.name))
		}
	}
	return healed
}
