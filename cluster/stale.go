package cluster

import "github.com/volsim/volsim/fake"

// Stale returns what a part of the world does not know: the objects that are not, in its caches, as they are stored. It
// leaves no trace. A part that is down knows nothing, and of it nothing is returned. The error matches ErrNoPart.
func (c *Cluster) Stale(part string) ([]fake.Stale, error) {
	p, err := c.part(part)
	if err != nil || p.component == nil {
		return nil, err
	}
	var all []fake.Stale
	for _, resource := range c.server.Views(p.component) {
		all = append(all, c.server.Stale(p.component, resource)...)
	}
	return all, nil
}
