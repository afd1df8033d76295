package cluster

import "github.com/volsim/volsim/fake"

// StaleObjects returns what a part of the world does not know: the objects that are not, in its caches, as they are stored. It
// leaves no trace. A part that is down knows nothing, and of it nothing is returned. The error matches ErrNoPart.
func (c *Cluster) StaleObjects(part string) ([]fake.StaleObject, error) {
	p, err := c.component(part)
	if err != nil || p.process == nil {
		return nil, err
	}
	var all []fake.StaleObject
	for _, resource := range c.server.CachedResources(p.process) {
		all = append(all, c.server.StaleObjects(p.process, resource)...)
	}
	return all, nil
}
