package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/volsim/volsim/sim"
)

// CheckRisks tells which risk can never come true, since it names what there is not, and what there is. A world without some of the
// control plane's parts may keep the risks of these.
func (c *Cluster) CheckRisks(risks sim.Risks) error {
	nodes := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		nodes[i] = n.name
	}
	drivers := make([]string, len(c.nodes))
	for i, n := range nodes {
		drivers[i] = driverOf(n)
	}
	parts := c.Parts()
	for _, r := range risks {
		if r.Of == "" {
			continue
		}
		there, matches := parts, isAbout
		switch _, err := sim.ParseFault(r.Name); {
		case err == nil && 'A' <= r.Of[0] && r.Of[0] <= 'Z': // of what a driver is called for, or a kubelet does on its disk
			continue
		case err == nil:
			there, matches = slices.Concat(parts, verbs), begins
		case slices.Contains([]string{"reboot", "lose", "recover"}, r.Name):
			there = nodes
		case r.Name == "expire":
			there = c.resources()
		case r.Name == "stop", r.Name == "start":
			there = slices.Concat(parts, drivers)
		case r.Name == "retire":
			there = nil
			for _, p := range parts {
				there = append(there, p+"#2")
			}
		}
		if slices.Contains(c.known, r.Of) {
			continue
		}
		if !slices.ContainsFunc(there, func(name string) bool { return matches(r.Of, name) }) {
			return fmt.Errorf("fault %s: there is no %s; there are %s", r, r.Of, strings.Join(there, ", "))
		}
	}
	return nil
}

// isAbout tells whether something is about a name: "kubelet(node-1) with pods 1 behind" is about "kubelet(node-1)".
func isAbout(of, name string) bool { return of == name || strings.HasPrefix(of, name+" ") }

// begins tells whether something is the beginning of a name, or of one of its strands: "kubelet", "pvcontroller/claims".
func begins(of, name string) bool {
	return strings.HasPrefix(name, of) || strings.HasPrefix(of, name+"/")
}

// resources are those that a part has a view of, sorted.
func (c *Cluster) resources() []string {
	all := map[string]bool{}
	for _, p := range c.parts {
		if p.component != nil {
			for _, r := range c.server.Views(p.component) {
				all[r] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// verbs are those of requests.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
