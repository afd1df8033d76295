package invariant

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim/trace"
)

// otherDrivers is what the calls of CSI drivers show of the volumes on the nodes, for the drivers whose
// volumes are not those of Devices: their mounts cannot be identified by their sources.
//
// Only effects that are certain are kept. What a failed call has changed, unless it was injected, is
// unknown until the next successful call.
type otherDrivers struct {
	volumes map[volumeOnNode]*usedVolume
	// mounts are the drivers at whose paths mounts were seen after a publish. The mounts of others are
	// not in the tables of the nodes' disks.
	mounts map[string]bool
	// nodes are the names of nodes, as CSINodes had them last: a driver that restarts is not in the CSINode
	// for a while, and its controller is called nevertheless.
	nodes map[nodeID]string
}

// A usedVolume is a volume on a node, as far as the calls of its driver show.
type usedVolume struct {
	attached, staged knownState
	paths            map[string]bool // at which it is published; the staging path is ""
}

// A knownState is a state that calls have shown, or not.
type knownState int

const (
	unknown knownState = iota
	yes
	no
)

// sorted returns the volumes in order.
func (o *otherDrivers) sorted() []volumeOnNode {
	return slices.SortedFunc(maps.Keys(o.volumes), func(a, b volumeOnNode) int {
		return cmp.Or(strings.Compare(a.driver, b.driver), strings.Compare(a.handle, b.handle), strings.Compare(a.node, b.node))
	})
}

// after returns the state after a call that makes it wanted.
func (knownState) after(r trace.Record, wanted knownState) knownState {
	if tookEffect(r) {
		return wanted
	}
	return unknown
}

// isOther reports whether a driver's volumes are not those of Devices.
func (c *Checker) isOther(driver string) bool {
	return c.Devices == nil || driver != c.Devices.Driver()
}

// otherCalls are the calls that otherDrivers observes.
var otherCalls = []string{
	"ControllerPublishVolume", "ControllerUnpublishVolume",
	"NodeStageVolume", "NodeUnstageVolume", "NodePublishVolume", "NodeUnpublishVolume",
}

// observeOther observes a call of a driver, before rules do.
func (c *Checker) observeOther(r trace.Record) {
	driver, _, _ := strings.Cut(r.Object, "/")
	if c.Devices == nil || !c.isOther(driver) || !slices.Contains(otherCalls, r.Verb) {
		return
	}
	if c.others.volumes == nil {
		c.others.volumes, c.others.mounts = map[volumeOnNode]*usedVolume{}, map[string]bool{}
	}
	call := c.callOf(r)
	v := c.others.volumes[call.at()]
	if v == nil {
		v = &usedVolume{paths: map[string]bool{}}
		c.others.volumes[call.at()] = v
	}
	switch r.Verb {
	case "ControllerPublishVolume":
		v.attached = v.attached.after(r, yes)
	case "ControllerUnpublishVolume":
		if call.node != "" { // otherwise it failed before it reached the driver
			v.attached = v.attached.after(r, no)
		}
	case "NodeStageVolume":
		v.staged = v.staged.after(r, yes)
	case "NodeUnstageVolume":
		v.staged = v.staged.after(r, no)
	case "NodePublishVolume":
		if tookEffect(r) {
			v.paths[call.path] = true
			if len(mountsAt(c.Devices.Mounts(call.node), call.path)) > 0 {
				c.others.mounts[driver] = true
			}
		}
	case "NodeUnpublishVolume":
		if tookEffect(r) {
			delete(v.paths, call.path)
		}
	}
}

// rebootOther observes the reboot of a node, which loses its mounts.
func (c *Checker) rebootOther(r trace.Record) {
	if r.Verb != "reboot" {
		return
	}
	for at, v := range c.others.volumes {
		if at.node == r.Object {
			v.staged = no
			clear(v.paths)
		}
	}
}

// hidesMounts reports whether the mounts of a driver are not in the tables of the nodes' disks.
func (c *Checker) hidesMounts(driver string) bool {
	return c.isOther(driver) && !c.others.mounts[driver]
}

// mountsOf returns the mounts of a volume on a node, those of another driver as its calls show them.
func (c *Checker) mountsOf(at volumeOnNode) []nodefs.Mount {
	var of []nodefs.Mount
	if !c.isOther(at.driver) {
		for _, m := range c.Devices.Mounts(at.node) {
			if m.Source == at.handle {
				of = append(of, m)
			}
		}
		return of
	}
	v := c.others.volumes[at]
	if v == nil {
		return nil
	}
	table := c.Devices.Mounts(at.node)
	for _, path := range slices.Sorted(maps.Keys(v.paths)) {
		if c.others.mounts[at.driver] {
			of = append(of, mountsAt(table, path)...)
		} else {
			of = append(of, nodefs.Mount{Path: path, Source: at.handle})
		}
	}
	return of
}

// isAttached returns whether a volume is attached to a node, according to the backend of its driver or, if that
// is unknown, to the calls.
func (c *Checker) isAttached(at volumeOnNode) knownState {
	if b := c.backend(at.driver); b != nil {
		held, _ := b.Volume(at.handle)
		if slices.Contains(held.Attached, at.node) {
			return yes
		}
		return no
	}
	if v := c.others.volumes[at]; v != nil {
		return v.attached
	}
	return unknown
}

// attachedTo returns the nodes to which a volume is attached, sorted, as isAttached has it.
func (c *Checker) attachedTo(driver, handle string) []string {
	if b := c.backend(driver); b != nil {
		held, _ := b.Volume(handle)
		return held.Attached
	}
	var nodes []string
	for at, v := range c.others.volumes {
		if at.driver == driver && at.handle == handle && v.attached == yes {
			nodes = append(nodes, at.node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// callOf is deviceCallOf with the name of the node.
func (c *Checker) callOf(r trace.Record) deviceCall {
	call := deviceCallOf(r)
	if strings.HasPrefix(r.Verb, "Controller") {
		call.node = c.nodeName(call.driver, call.node)
	}
	return call
}

// nodeName returns the name of the node that a driver knows by an ID.
func (c *Checker) nodeName(driver, id string) string {
	if id == "" || !c.isOther(driver) {
		return id
	}
	return cmp.Or(c.others.nodes[nodeID{driver, id}], id)
}

// A nodeID is how a driver knows a node.
type nodeID struct{ driver, id string }

// rememberNodes remembers the names of the nodes that CSINodes have.
func (c *Checker) rememberNodes(csiNodes ...fake.Object) {
	for _, obj := range csiNodes {
		node, _ := obj.(*storagev1.CSINode)
		if node == nil {
			continue
		}
		if c.others.nodes == nil {
			c.others.nodes = map[nodeID]string{}
		}
		for _, d := range node.Spec.Drivers {
			c.others.nodes[nodeID{d.Name, d.NodeID}] = node.Name
		}
	}
}

// at returns the volume and the node of a call.
func (call deviceCall) at() volumeOnNode { return volumeOnNode{call.driver, call.handle, call.node} }

// volumeAt returns the identity of the volume behind a PersistentVolume of a CSI driver, on a node.
func volumeAt(v *corev1.PersistentVolume, node string) volumeOnNode {
	return volumeOnNode{v.Spec.CSI.Driver, v.Spec.CSI.VolumeHandle, node}
}

// csiVolumeOf returns a PersistentVolume of a driver's volume; nil if none exists.
func (c *Checker) csiVolumeOf(driver, handle string) *corev1.PersistentVolume {
	for _, obj := range c.API.List("persistentvolumes") {
		if v := obj.(*corev1.PersistentVolume); v.Spec.CSI != nil && v.Spec.CSI.Driver == driver && v.Spec.CSI.VolumeHandle == handle {
			return v
		}
	}
	return nil
}
