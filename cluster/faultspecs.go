package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/volsim/volsim/sim"
)

// ValidateFaults returns an error for the first fault spec that can never match, since it names
// something that does not exist; the error lists what does. Specs that name a component of the
// control plane are valid also in a world without that component.
func (c *Cluster) ValidateFaults(specs sim.FaultSpecs) error {
	nodes := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		nodes[i] = n.name
	}
	var drivers []string
	for _, n := range c.nodes {
		for _, d := range n.drivers {
			drivers = append(drivers, d.eventName())
		}
	}
	for _, d := range c.drivers {
		if !d.builtIn && d.controller != nil {
			drivers = append(drivers, d.eventName())
		}
	}
	components := c.Components()
	for _, spec := range specs {
		if spec.Target == "" {
			continue
		}
		targets, matches := components, matchesTarget
		switch _, err := sim.ParseFault(spec.Name); {
		case err == nil && isDriverCall(spec.Target):
			if c.hasExtra { // whose calls have any name
				continue
			}
			targets, matches = driverCalls(), isPrefixOf
		case err == nil:
			targets, matches = slices.Concat(components, requestVerbs), isPrefixOf
		case slices.Contains([]string{"reboot", "partition", "restore"}, spec.Name):
			targets = nodes
		case spec.Name == "expire":
			targets = c.cachedResources()
		case spec.Name == "stop", spec.Name == "start":
			targets = slices.Concat(components, drivers)
		case spec.Name == "retire":
			targets = nil
			for _, p := range components {
				targets = append(targets, p+"#2")
			}
		}
		if slices.Contains(c.knownComponents, spec.Target) {
			continue
		}
		if !slices.ContainsFunc(targets, func(name string) bool { return matches(spec.Target, name) }) {
			return fmt.Errorf("fault %s: no such target %q (have %s)", spec, spec.Target, strings.Join(targets, ", "))
		}
	}
	return nil
}

// matchesTarget reports whether an event's target is a name: "kubelet(node-1) with pods 1 behind"
// matches "kubelet(node-1)".
func matchesTarget(target, name string) bool {
	return target == name || strings.HasPrefix(target, name+" ")
}

// isPrefixOf reports whether a spec's target is a prefix of a name, or of one of its tasks:
// "kubelet", "pvcontroller/claims".
func isPrefixOf(target, name string) bool {
	return strings.HasPrefix(name, target) || strings.HasPrefix(target, name+"/")
}

// cachedResources returns the resources that a component caches, sorted.
func (c *Cluster) cachedResources() []string {
	all := map[string]bool{}
	for _, p := range c.components {
		if p.process.Load() != nil {
			for _, spec := range c.server.CachedResources(p.process.Load()) {
				all[spec] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// isDriverCall reports whether a fault's target is a call of a driver, and not a component or a
// request's verb.
func isDriverCall(target string) bool { return 'A' <= target[0] && target[0] <= 'Z' }

// driverCalls returns the calls that leave a process for a driver, a plugin or a disk, sorted.
func driverCalls() []string {
	calls := []string{
		"BindDevice", "LinkDevice", "LockDevice", "UnbindDevice", "UnlinkDevice", "UnlockDevice", // volumemanager
		"BindSubPath", "MakeSubPath", "RemoveSubPaths", "UnbindSubPath", // plugins/subpath
		"ChangeOwnership",                // internal/ownership
		"Delete", "Provision", "Recycle", // plugins/hostpath, kubelet
		"ExtenderBind", "ExtenderFilter", "ExtenderPreempt", "ExtenderPrioritize", // scheduler
	}
	for _, service := range []grpc.ServiceDesc{
		csispec.Identity_ServiceDesc, csispec.Controller_ServiceDesc, csispec.GroupController_ServiceDesc, csispec.Node_ServiceDesc,
	} {
		for _, method := range service.Methods {
			calls = append(calls, method.MethodName)
		}
	}
	slices.Sort(calls)
	return calls
}

// requestVerbs are the verbs of API requests.
var requestVerbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
