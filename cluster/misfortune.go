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

// LagMax is how many events old a list is at most that a part gets when it starts again.
const LagMax = 2

// Misfortunes are the first words of the events that can befall a stepped world, as its strategy may say, each followed by
// what it befalls; "crash" also by "with RESOURCE N behind".
var Misfortunes = []string{"crash", "stop", "start", "replicate", "retire", "relist", "expire", "reboot", "lose", "recover"}

// misfortunes are the events that can befall a stepped world now:
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
func (c *Cluster) misfortunes(verb string) []sim.Happening {
	m := &misfortunes{cluster: c, verb: verb}
	for _, p := range c.parts {
		m.ofPart(p)
	}
	if m.asked("expire") {
		for _, resource := range c.read() {
			m.can(func() error { c.server.Compact(resource); return nil }, "expire", resource)
		}
	}
	for _, n := range c.nodes {
		m.ofNode(n)
	}
	return m.all
}

// misfortunes is a list of them that is being made.
type misfortunes struct {
	cluster *Cluster
	verb    string
	all     []sim.Happening
}

// asked tells whether those with a verb are asked for.
func (m *misfortunes) asked(verb string) bool { return m.verb == "" || m.verb == verb }

// can adds one, if it is asked for.
func (m *misfortunes) can(do func() error, verb, of string) {
	if m.asked(verb) {
		m.all = append(m.all, sim.Happening{Name: verb + " " + of, Happen: func() { m.cluster.must(do()) }})
	}
}

// ofPart adds what can befall a part.
func (m *misfortunes) ofPart(p *part) {
	c := m.cluster
	switch {
	case c.lost(p):
		return
	case p.replica:
		m.can(func() error { c.retire(p); return nil }, "retire", p.name)
		return
	case p.component == nil:
		m.can(func() error { return c.launch(p) }, "start", p.name)
		return
	}
	m.can(func() error { return c.restart(p.name) }, "crash", p.name)
	if m.asked("crash") || m.asked("relist") {
		for _, resource := range c.server.Views(p.component) {
			m.ofView(p, resource)
		}
	}
	m.can(func() error { return c.Stop(p.name) }, "stop", p.name)
	if m.asked("replicate") && !strings.Contains(p.name, "(") {
		if _, err := c.part(p.name + "#2"); err != nil {
			m.can(func() error { return c.Replicate(p.name) }, "replicate", p.name)
		}
	}
}

// ofView adds what can befall a part's cache of a resource.
func (m *misfortunes) ofView(p *part, resource string) {
	c := m.cluster
	if m.asked("crash") {
		for n := 1; n <= LagMax; n++ {
			m.can(func() error { return c.restart(p.name, lag{resource, n}) }, "crash", fmt.Sprintf("%s with %s %d behind", p.name, resource, n))
		}
	}
	if m.asked("relist") && c.server.Behind(p.component, resource) > 1 {
		m.can(func() error { c.server.Break(p.component, resource); return nil }, "relist", p.name+" "+resource)
	}
}

// ofNode adds what can befall a node.
func (m *misfortunes) ofNode(n *node) {
	c := m.cluster
	if n.lost {
		m.can(func() error { return c.Recover(n.name) }, "recover", n.name)
		return
	}
	m.can(func() error { return c.Reboot(n.name) }, "reboot", n.name)
	m.can(func() error { return c.Lose(n.name) }, "lose", n.name)
	if n.stopped {
		m.can(func() error { return c.StartDriver(n.name) }, "start", driverOf(n.name))
	} else {
		m.can(func() error { return c.StopDriver(n.name) }, "stop", driverOf(n.name))
	}
}

// read are the resources that somebody's view is behind in, in the order of the parts.
func (c *Cluster) read() []string {
	var resources []string
	seen := map[string]bool{}
	for _, p := range c.parts {
		if p.component == nil {
			continue
		}
		for _, r := range c.server.Views(p.component) {
			if !seen[r] && c.server.Behind(p.component, r) > 0 {
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

func kubeletOf(node string) string { return "kubelet(" + node + ")" }

func driverOf(node string) string { return "driver(" + node + ")" }

// lost tells whether a part is the kubelet of a node that is lost.
func (c *Cluster) lost(p *part) bool {
	for _, n := range c.nodes {
		if n.lost && p.name == kubeletOf(n.name) {
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
	return nil, fmt.Errorf("node %q: %w", name, ErrNoPart)
}

// Reboot kills a node's kubelet, takes all its mounts and devices away and starts the kubelet again. The node's own files stay,
// and what is attached stays attached. The world must be stepped. The error matches ErrNoPart.
func (c *Cluster) Reboot(name string) error {
	n, err := c.node(name)
	if err != nil {
		return err
	}
	p, err := c.part(kubeletOf(name))
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

// Lose cuts a node off: its kubelet is down, its mounts stay as they are, and its Node becomes NotReady, as the node
// lifecycle controller would say after a while. It stays so until Recover. The world must be stepped. The error matches
// ErrNoPart.
func (c *Cluster) Lose(name string) error {
	n, err := c.node(name)
	if err != nil {
		return err
	}
	if err := c.Stop(kubeletOf(name)); err != nil {
		return err
	}
	n.lost = true
	c.setReady(name, corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status.")
	return nil
}

// Recover brings a lost node back: its kubelet starts again, and its Node becomes Ready. The error matches ErrNoPart.
func (c *Cluster) Recover(name string) error {
	n, err := c.node(name)
	if err != nil {
		return err
	}
	n.lost = false
	c.setReady(name, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status")
	p, err := c.part(kubeletOf(name))
	if err != nil || p.component != nil {
		return err
	}
	return c.launch(p)
}

// setReady does what the node lifecycle controller does, and a kubelet that comes back.
//
// Upstream: pkg/controller/nodelifecycle tryUpdateNodeHealth (v1.36).
func (c *Cluster) setReady(name string, is corev1.ConditionStatus, reason, message string) {
	c.server.Amend("nodes", "", name, func(stored fake.Object) fake.Object {
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

// Ails tells whether a part is down, or there twice, or a node lost, or the driver stopped on one.
func (c *Cluster) Ails() bool {
	for _, p := range c.parts {
		if p.component == nil || p.replica {
			return true
		}
	}
	return slices.ContainsFunc(c.nodes, func(n *node) bool { return n.stopped })
}

// Heal ends all misfortunes of a stepped world: what is lost comes back, what is down starts again, and what is there twice
// retires once, each as a step. It reports whether there was any.
func (c *Cluster) Heal() bool {
	healed := false
	befall := func(format, name string) {
		healed = c.host.(*sim.Stepped).Befall(fmt.Sprintf(format, name)) || healed
	}
	for _, n := range c.nodes {
		if n.lost {
			befall("recover %s", n.name)
		}
	}
	for _, p := range slices.Clone(c.parts) {
		switch {
		case p.replica:
			befall("retire %s", p.name)
		case p.component == nil:
			befall("start %s", p.name)
		}
	}
	for _, n := range c.nodes {
		if n.stopped {
			befall("start %s", driverOf(n.name))
		}
	}
	return healed
}
