package cluster

import (
	"errors"
	"fmt"
	"slices"
)

// errSteppedOnly is the error of an event that only a stepped world supports.
var errSteppedOnly = errors.New("cluster: the world is live; only a stepped one supports this")

// kill ends a component's process where it stands. A component that is down stays down.
func (c *Cluster) kill(p *componentState) {
	if p.asleep {
		p.asleep = false
	}
	process := p.process.Swap(nil)
	if process == nil {
		return
	}
	c.directories.remove(p.name)
	c.host.Crash(process)
	c.server.RemoveComponent(process)
}

// Crash kills a component's process where it stands, as kill -9 would, and starts it again. Each of
// its tasks ends at its suspension point, its caches and queues are lost, and the new process lists
// again. In a live world a request in flight may still take effect: its result is lost. No task of the
// component may call Crash. The error matches ErrUnknownComponent.
func (c *Cluster) Crash(name string) error { return c.restart(name) }

// Stop kills a component's process where it stands, as Crash does, and leaves it down until Resume
// or Repair. When Stop returns, the component does nothing more. What it has created stays: a
// kubelet's containers and mounts, a controller's objects. The error matches ErrUnknownComponent.
func (c *Cluster) Stop(name string) error {
	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	return c.stop(name)
}

func (c *Cluster) stop(name string) error {
	p, err := c.component(name)
	if err != nil {
		return err
	}
	c.kill(p)
	return nil
}

// Resume starts a component again that Stop has ended; a kubelet reconstructs from the node's disk
// what may be mounted. A component that runs is left alone, and so is the kubelet of a partitioned node.
// The error matches ErrUnknownComponent.
func (c *Cluster) Resume(name string) error {
	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	p, err := c.component(name)
	if err != nil || !p.down() || c.isPartitioned(p) {
		return err
	}
	return c.launch(p)
}

func (c *Cluster) restart(name string, delays ...cacheDelay) error {
	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	p, err := c.component(name)
	if err != nil {
		return err
	}
	c.kill(p)
	return c.launch(p, delays...)
}

// Replicate starts a second process of a component, as when two hold the leader lease for a while;
// both are active until Repair. The replica is a component of its own, named "NAME#2". The world must
// be stepped. The error matches ErrUnknownComponent.
func (c *Cluster) Replicate(name string) error {
	if c.isLive() {
		return fmt.Errorf("replicate %s: %w", name, errSteppedOnly)
	}
	p, err := c.component(name)
	if err != nil {
		return err
	}
	replica := &componentState{recipe: recipe{
		name: name + "#2", user: p.user, replaces: p.replaces, driver: p.driver, filters: p.filters, start: p.start,
	}, replica: true, extra: p.extra}
	if _, err := c.component(replica.name); err == nil {
		return fmt.Errorf("replicate %s: already replicated", name)
	}
	if p.asleep {
		if err := c.launch(p); err != nil {
			return err
		}
	}
	c.components = append(c.components, replica)
	return c.launch(replica)
}

// retire ends the second process of a component.
func (c *Cluster) retire(p *componentState) {
	c.kill(p)
	c.components = slices.DeleteFunc(c.components, func(q *componentState) bool { return q == p })
}
