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
func (c *Cluster) misfortunes() []sim.Happening {
	var all []sim.Happening
	can := func(do func() error, format string, args ...any) {
		all = append(all, sim.Happening{Name: fmt.Sprintf(format, args...), Happen: func() { c.must(do()) }})
	}
	for _, p := range c.parts {
		if c.lost(p) {
			continue
		}
		if p.replica {
			can(func() error { c.retire(p); return nil }, "retire %s", p.name)
			continue
		}
		if p.component == nil {
			can(func() error { return c.launch(p) }, "start %s", p.name)
			continue
		}
		can(func() error { return c.restart(p.name) }, "crash %s", p.name)
		for _, resource := range c.server.Views(p.component) {
			for n := 1; n <= LagMax; n++ {
				can(func() error { return c.restart(p.name, lag{resource, n}) }, "crash %s with %s %d behind", p.name, resource, n)
			}
			if c.server.Behind(p.component, resource) > 1 {
				can(func() error { c.server.Break(p.component, resource); return nil }, "relist %s %s", p.name, resource)
			}
		}
		can(func() error { return c.Stop(p.name) }, "stop %s", p.name)
		if _, err := c.part(p.name + "#2"); err != nil && !strings.Contains(p.name, "(") {
			can(func() error { return c.Replicate(p.name) }, "replicate %s", p.name)
		}
	}
	for _, resource := range c.read() {
		can(func() error { c.server.Compact(resource); return nil }, "expire %s", resource)
	}
	return append(all, c.nodeMisfortunes()...)
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

func (c *Cluster) nodeMisfortunes() []sim.Happening {
	var all []sim.Happening
	for _, n := range c.nodes {
		if n.lost {
			all = append(all, sim.Happening{Name: "recover " + n.name, Happen: func() { c.must(c.Recover(n.name)) }})
			continue
		}
		if _, can := n.fs.(rebooter); can {
			all = append(all, sim.Happening{Name: "reboot " + n.name, Happen: func() { c.must(c.Reboot(n.name)) }})
		}
		all = append(all,
			sim.Happening{Name: "lose " + n.name, Happen: func() { c.must(c.Lose(n.name)) }})
		if n.stopped {
			all = append(all, sim.Happening{Name: "start " + driverOf(n.name), Happen: func() { c.must(c.StartDriver(n.name)) }})
		} else {
			all = append(all, sim.Happening{Name: "stop " + driverOf(n.name), Happen: func() { c.must(c.StopDriver(n.name)) }})
		}
	}
	return all
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

// rebooter is a node's disk whose mounts can be taken away at once.
type rebooter interface{ Reset() }

// Reboot kills a node's kubelet, takes all its mounts away and starts the kubelet again. The node's own files stay, and what
// is attached stays attached. The world must be stepped. The error matches ErrNoPart.
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
	n.fs.(rebooter).Reset()
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
