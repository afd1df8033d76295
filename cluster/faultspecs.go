package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/volsim/volsim/sim"
)

// ValidateFaults tells which risk can never come true, since it names what there is not, and what there is. A world without some of the
// control plane's parts may keep the risks of these.
func (c *Cluster) ValidateFaults(risks sim.FaultSpecs) error {
	nodes := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		nodes[i] = n.name
	}
	drivers := make([]string, len(c.nodes))
	for i, n := range nodes {
		drivers[i] = nodeDriverName(n)
	}
	parts := c.Components()
	for _, r := range risks {
		if r.Target == "" {
			continue
		}
		there, matches := parts, matchesTarget
		switch _, err := sim.ParseFault(r.Name); {
		case err == nil && 'A' <= r.Target[0] && r.Target[0] <= 'Z': // of what a driver is called for, or a kubelet does on its disk
			continue
		case err == nil:
			there, matches = slices.Concat(parts, requestVerbs), isPrefixOf
		case slices.Contains([]string{"reboot", "lose", "recover"}, r.Name):
			there = nodes
		case r.Name == "expire":
			there = c.cachedResources()
		case r.Name == "stop", r.Name == "start":
			there = slices.Concat(parts, drivers)
		case r.Name == "retire":
			there = nil
			for _, p := range parts {
				there = append(there, p+"#2")
			}
		}
		if slices.Contains(c.knownComponents, r.Target) {
			continue
		}
		if !slices.ContainsFunc(there, func(name string) bool { return matches(r.Target, name) }) {
			return fmt.Errorf("fault %s: there is no %s; there are %s", r, r.Target, strings.Join(there, ", "))
		}
	}
	return nil
}

// matchesTarget tells whether something is about a name: "kubelet(node-1) with pods 1 behind" is about "kubelet(node-1)".
func matchesTarget(of, name string) bool { return of == name || strings.HasPrefix(of, name+" ") }

// isPrefixOf tells whether something is the beginning of a name, or of one of its strands: "kubelet", "pvcontroller/claims".
func isPrefixOf(of, name string) bool {
	return strings.HasPrefix(name, of) || strings.HasPrefix(of, name+"/")
}

// cachedResources are those that a part has a view of, sorted.
func (c *Cluster) cachedResources() []string {
	all := map[string]bool{}
	for _, p := range c.components {
		if p.process != nil {
			for _, r := range c.server.CachedResources(p.process) {
				all[r] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// requestVerbs are those of requests.
var requestVerbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
