package cluster

import "github.com/volsim/volsim/fake"

// StaleObjects returns the objects that a component's caches do not have as they are stored. It
// leaves no trace. For a component that is down it returns nothing. The error matches
// ErrUnknownComponent.
func (c *Cluster) StaleObjects(component string) ([]fake.StaleObject, error) {
	p, err := c.component(component)
	if err != nil || p.process.Load() == nil {
		return nil, err
	}
	var all []fake.StaleObject
	for _, resource := range c.server.CachedResources(p.process.Load()) {
		all = append(all, c.server.StaleObjects(p.process.Load(), resource)...)
	}
	return all, nil
}
