package invariant

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim/trace"
)

// What attaches a volume. I16b, I19 and I20 hold one attach/detach controller to its word: two at a time break them.
var attachRules = []Rule{
	{"I15", "a volume for one node attached to two", nodeRule(beginOneNode)},
	{"I16", "a volume taken away from a node that is well and has it mounted", nodeRule(beginMountedStays)},
	{"I16b", "an attach of a volume for one node while it is, or may be, attached to another", nodeRule(beginAttachAfterDetach)},
	{"I19", "a detach begun while the node is told that the volume is attached", nodeRule(beginWithdrawFirst)},
	{"I20", "a node told that a volume is attached that is not", nodeRule(beginListedIsAttached)},
	{"I21", "an attachment that does not have the name of its volume, driver and node", nodeRule(beginAttachmentName)},
	{"I22", "a detach of what is attached and nobody wants detached", nodeRule(beginDetachAsked)},
}

// unmountWait is how long the attach/detach controller waits for a node that is not ready, before it detaches what is
// mounted there.
//
// Upstream: pkg/controller/volume/attachdetach DefaultTimerConfig (v1.36).
const unmountWait = 6 * time.Minute

// beginOneNode: once a volume is attached, and has more than one node, it is for many.
func beginOneNode(c *Checker) watcher {
	if c.Devices == nil {
		return watcher{}
	}
	return watcher{call: func(r trace.Record) {
		if r.Verb != "ControllerPublishVolume" || !tookEffect(r) {
			return
		}
		call := deviceCallOf(r)
		held, ok := c.Devices.Volume(call.handle)
		if !ok || len(held.Attached) < 2 {
			return
		}
		a := attachmentOf(c.API, c.Devices.Driver(), call.handle, call.node)
		if a == nil {
			return
		}
		if v := volumeOf(c.API, a); v != nil && forOneNode(v) {
			c.report("I15", "volume %s (%s) is for one node, and attached to %s", v.Name, call.handle, strings.Join(held.Attached, " and "))
		}
	}}
}

// nodeHealth is when nodes were last not well: as of which step of the trace.
type nodeHealth struct {
	api      *fake.Server
	notReady map[string]int // up to which step a node was not ready
	absent   map[string]int // up to which step it was not there any more, or out of service
	gone     map[string]bool
}

// changed takes in a commit of a node. What it was, it was up to now.
func (h *nodeHealth) changed(e fake.Commit, step int) {
	name := e.After.GetName()
	was, _ := e.Before.(*corev1.Node)
	switch {
	case was == nil && !h.gone[name]: // a new one
	case was == nil || outOfService(was):
		h.absent[name] = step
	case !isReady(was):
		h.notReady[name] = step
	}
	h.gone[name] = e.Type == watch.Deleted
}

// since tells whether a node was absent or out of service, or was not ready, at any time since a step.
func (h *nodeHealth) since(name string, step int) (absent, notReady bool) {
	node := nodeNamed(h.api, name)
	wasAbsent, a := h.absent[name]
	wasNotReady, n := h.notReady[name]
	absent = node == nil || outOfService(node) || a && wasAbsent >= step
	return absent, !isReady(node) || n && wasNotReady >= step
}

func outOfService(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// beginMountedStays: the driver is told to detach what is mounted only from a node that was not there, out of service, or
// not ready, at some time since the volume was taken back from its status: the decision was made after that. Where it was
// only not ready, the attachment must have been there for longer than such a node is waited for; since when nobody wanted
// it, only the controller knows.
func beginMountedStays(c *Checker) watcher {
	if c.Devices == nil {
		return watcher{}
	}
	health := nodeHealth{c.API, map[string]int{}, map[string]int{}, map[string]bool{}}
	withdrawn := map[volumeOnNode]int{} // the step at which a node's status ceased to list the volume
	return watcher{
		commits: []string{"nodes"},
		commit: func(e fake.Commit) {
			health.changed(e, c.Log.Steps())
			was, _ := e.Before.(*corev1.Node)
			if was == nil {
				return
			}
			for _, a := range was.Status.VolumesAttached {
				if _, handle, ok := splitUniqueVolume(a.Name); ok && !lists(e.After.(*corev1.Node), a.Name) {
					withdrawn[volumeOnNode{handle, was.Name}] = c.Log.Steps()
				}
			}
		},
		call: func(r trace.Record) {
			if r.Verb != "ControllerUnpublishVolume" {
				return
			}
			call := deviceCallOf(r)
			at := volumeOnNode{call.handle, call.node}
			mounts := c.mountsOf(at)
			if len(mounts) == 0 {
				return
			}
			absent, notReady := health.since(at.node, withdrawn[at])
			switch {
			case absent || notReady && attachedForLong(attachmentOf(c.API, c.Devices.Driver(), at.handle, at.node)):
			case notReady:
				c.report("I16", "volume %s is detached from node %s, which is not ready, before its time; it is mounted there at %s",
					at.handle, at.node, mounts[0].Path)
			default:
				c.report("I16", "volume %s is detached from node %s, which has it mounted at %s", at.handle, at.node, mounts[0].Path)
			}
		},
	}
}

// attachedForLong tells whether an attachment was there for as long as a node that is not ready is waited for. Times in
// the API have whole seconds. Of one that is gone nobody knows.
func attachedForLong(a *storagev1.VolumeAttachment) bool {
	return a == nil || a.DeletionTimestamp == nil || a.DeletionTimestamp.Sub(a.CreationTimestamp.Time) >= unmountWait-time.Second
}

// attachedNodes is on which nodes each volume has a VolumeAttachment.
type attachedNodes struct {
	nodes map[string]map[string]bool // by driver^handle
	known map[string]volumeOnNode    // by attachment; handle stands for driver^handle
}

// add takes in an attachment, and returns the other nodes of its volume, sorted.
func (n *attachedNodes) add(a *storagev1.VolumeAttachment, v *corev1.PersistentVolume) []string {
	at := volumeOnNode{v.Spec.CSI.Driver + "^" + v.Spec.CSI.VolumeHandle, a.Spec.NodeName}
	others := slices.Sorted(maps.Keys(n.nodes[at.handle]))
	if n.nodes[at.handle] == nil {
		n.nodes[at.handle] = map[string]bool{}
	}
	n.nodes[at.handle][at.node], n.known[a.Name] = true, at
	return slices.DeleteFunc(others, func(other string) bool { return other == at.node })
}

func (n *attachedNodes) remove(attachment string) {
	at := n.known[attachment]
	delete(n.known, attachment)
	delete(n.nodes[at.handle], at.node)
	if len(n.nodes[at.handle]) == 0 {
		delete(n.nodes, at.handle)
	}
}

// beginAttachAfterDetach: a volume for one node gets a VolumeAttachment only when it has none for another node.
func beginAttachAfterDetach(c *Checker) watcher {
	nodes := attachedNodes{map[string]map[string]bool{}, map[string]volumeOnNode{}}
	for _, obj := range c.API.List("volumeattachments") {
		a := obj.(*storagev1.VolumeAttachment)
		if v := volumeOf(c.API, a); v != nil {
			nodes.add(a, v)
		}
	}
	return watcher{
		commits: []string{"volumeattachments"},
		commit: func(e fake.Commit) {
			a := e.After.(*storagev1.VolumeAttachment)
			switch e.Type {
			case watch.Deleted:
				nodes.remove(a.Name)
			case watch.Added:
				v := volumeOf(c.API, a)
				if v == nil {
					return
				}
				if others := nodes.add(a, v); len(others) > 0 && forOneNode(v) {
					c.report("I16b", "volume %s, which is for one node, is to be attached to %s, but it still has an attachment to %s",
						v.Name, a.Spec.NodeName, strings.Join(others, " and "))
				}
			}
		},
	}
}

// beginWithdrawFirst: when a VolumeAttachment begins to be deleted, the node's status does not list the volume. (A person
// who deletes one by hand breaks the rule.)
func beginWithdrawFirst(c *Checker) watcher {
	return watcher{
		commits: []string{"volumeattachments"},
		commit: func(e fake.Commit) {
			was, _ := e.Before.(*storagev1.VolumeAttachment)
			is := e.After.(*storagev1.VolumeAttachment)
			if was == nil || was.DeletionTimestamp != nil || is.DeletionTimestamp == nil && e.Type != watch.Deleted {
				return
			}
			node, v := nodeNamed(c.API, is.Spec.NodeName), volumeOf(c.API, is)
			if node == nil || v == nil {
				return
			}
			if lists(node, uniqueVolume(v.Spec.CSI.Driver, v.Spec.CSI.VolumeHandle)) {
				c.report("I19", "volume %s is to be detached from node %s, whose status still lists it as attached", v.Name, node.Name)
			}
		},
	}
}

// beginListedIsAttached: a volume that comes into a node's volumesAttached has a VolumeAttachment there that says so, and is
// not being deleted. That the two become equal in the end is for L5.
func beginListedIsAttached(c *Checker) watcher {
	return watcher{
		commits: []string{"nodes"},
		commit: func(e fake.Commit) {
			if e.Type == watch.Deleted {
				return
			}
			was, _ := e.Before.(*corev1.Node)
			is := e.After.(*corev1.Node)
			for _, listed := range is.Status.VolumesAttached {
				driver, handle, ok := splitUniqueVolume(listed.Name)
				if !ok || was != nil && lists(was, listed.Name) {
					continue
				}
				switch a := attachmentOf(c.API, driver, handle, is.Name); {
				case a == nil:
					c.report("I20", "node %s is told that volume %s is attached, but there is no attachment", is.Name, handle)
				case !a.Status.Attached:
					c.report("I20", "node %s is told that volume %s is attached, but its attachment does not say so", is.Name, handle)
				case a.DeletionTimestamp != nil:
					c.report("I20", "node %s is told that volume %s is attached, but its attachment is being deleted", is.Name, handle)
				}
			}
		},
	}
}

// beginAttachmentName: a new VolumeAttachment has the name made of its volume's handle, its driver and its node, so that
// the same name is always the same thing. That one nobody needs any more goes away is for L4.
func beginAttachmentName(c *Checker) watcher {
	return watcher{
		commits: []string{"volumeattachments"},
		commit: func(e fake.Commit) {
			a := e.After.(*storagev1.VolumeAttachment)
			if e.Type != watch.Added {
				return
			}
			source, name := attachedSource(c.API, a)
			switch {
			case source == nil:
			case source.Driver != a.Spec.Attacher:
				c.report("I21", "attachment %s is for driver %s, but its volume %s is of driver %s", a.Name, a.Spec.Attacher, name, source.Driver)
			case a.Name != attachmentName(source.VolumeHandle, source.Driver, a.Spec.NodeName):
				c.report("I21", "attachment %s of volume %s to node %s has the name of another", a.Name, name, a.Spec.NodeName)
			}
		},
	}
}

// attachedSource is the volume that a VolumeAttachment names or holds, and what to call it; nil where it is gone, or has no
// CSI driver.
func attachedSource(api *fake.Server, a *storagev1.VolumeAttachment) (*corev1.CSIPersistentVolumeSource, string) {
	if inline := a.Spec.Source.InlineVolumeSpec; inline != nil && inline.CSI != nil {
		return inline.CSI, inline.CSI.VolumeHandle
	}
	if v := volumeOf(api, a); v != nil {
		return v.Spec.CSI, v.Name
	}
	return nil, ""
}

// beginDetachAsked: the driver does not detach what a VolumeAttachment that is not being deleted says is attached. That no
// two operations on a volume run at once is not to be seen in the calls, each of which is done at once; for a volume of one
// node I16b says it. To detach twice what is not attached is no breach: the attacher must, when it could not write that it
// had.
func beginDetachAsked(c *Checker) watcher {
	if c.Devices == nil {
		return watcher{}
	}
	return watcher{call: func(r trace.Record) {
		if r.Verb != "ControllerUnpublishVolume" || !tookEffect(r) {
			return
		}
		call := deviceCallOf(r)
		a := attachmentOf(c.API, c.Devices.Driver(), call.handle, call.node)
		if a != nil && a.Status.Attached && a.DeletionTimestamp == nil {
			c.report("I22", "volume %s is detached from node %s, but its attachment stands and nobody is deleting it", call.handle, call.node)
		}
	}}
}
