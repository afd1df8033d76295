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
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about attaching. I16b, I19 and I20 assume one attach/detach controller: two active ones
// violate them.
var attachRules = []builtIn{
	{"I15", "a volume for one node attached to two", nodeRule(beginOneNode)},
	{"I16", "a volume detached from a healthy node that has it mounted", nodeRule(beginMountedStays)},
	{
		"I16b", "an attach of a volume for one node while it is, or may be, attached to another",
		nodeRule(beginAttachAfterDetach),
	},
	{"I19", "a detach that begins while the node's status lists the volume as attached", nodeRule(beginWithdrawFirst)},
	{"I20", "a node whose status lists a volume as attached that is not", nodeRule(beginListedIsAttached)},
	{"I21", "an attachment whose name is not that of its volume, driver and node", nodeRule(beginAttachmentName)},
	{"I22", "a detach whose attachment is not being deleted", nodeRule(beginDetachAsked)},
}

// unmountWait is how long the attach/detach controller waits for a node that is not ready, before
// it detaches a mounted volume.
//
// Upstream: pkg/controller/volume/attachdetach DefaultTimerConfig (v1.36).
const unmountWait = 6 * time.Minute

// beginOneNode checks that a volume attached to more than one node has an access mode for many
// nodes.
func beginOneNode(c *Checker) watcher {
	if c.Devices == nil {
		return watcher{}
	}
	return watcher{call: func(r trace.Record) {
		if r.Verb != "ControllerPublishVolume" || !tookEffect(r) {
			return
		}
		call := c.callOf(r)
		nodes := c.attachedTo(call.driver, call.handle)
		if len(nodes) < 2 {
			return
		}
		a := attachmentOf(c.API, call.driver, call.handle, call.node)
		if a == nil {
			return
		}
		if v := volumeOf(c.API, a); v != nil && forOneNode(v) {
			c.report("I15", "volume %s (%s) is for one node, and attached to %s", v.Name, call.handle,
				strings.Join(nodes, " and "))
		}
	}}
}

// A nodeHealth records when nodes were last unhealthy, by step of the trace.
type nodeHealth struct {
	api      *fake.Server
	notReady map[string]int // last step at which a node was not ready
	absent   map[string]int // last step at which it did not exist or was out of service
	gone     map[string]bool
}

// changed observes a commit of a node. The old state lasted until now.
func (h *nodeHealth) changed(e fake.Commit, step int) {
	name := e.After.GetName()
	was, _ := e.Before.(*corev1.Node)
	switch {
	case was == nil && !h.gone[name]: // new
	case was == nil || outOfService(was):
		h.absent[name] = step
	case !isReady(was):
		h.notReady[name] = step
	}
	h.gone[name] = e.Type == watch.Deleted
}

// since reports whether a node was absent or out of service, and whether it was not ready, at any
// time since a step.
func (h *nodeHealth) since(name string, step int) (absent, notReady bool) {
	node := nodeNamed(h.api, name)
	wasAbsent, a := h.absent[name]
	wasNotReady, n := h.notReady[name]
	absent = node == nil || outOfService(node) || a && wasAbsent >= step
	return absent, !isReady(node) || n && wasNotReady >= step
}

func outOfService(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints,
		func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// beginMountedStays checks that a mounted volume is detached only from a node that was absent, out
// of service or not ready at some time since the node's status ceased to list the volume: the
// decision was made after that. If the node was only not ready, the attachment must be older than
// the time the controller waits for such a node. Only the controller knows since when no pod needed
// it.
func beginMountedStays(c *Checker) watcher {
	if c.Devices == nil {
		return watcher{}
	}
	health := nodeHealth{c.API, reuse.Map[string, int](c.Reuse), reuse.Map[string, int](c.Reuse), reuse.Map[string, bool](c.Reuse)}
	withdrawn := reuse.Map[volumeOnNode, int](c.Reuse) // step at which a node's status ceased to list the volume
	return watcher{
		commits: []string{"nodes"},
		commit: func(e fake.Commit) {
			health.changed(e, c.Log.Steps())
			was, _ := e.Before.(*corev1.Node)
			if was == nil {
				return
			}
			for _, a := range was.Status.VolumesAttached {
				if driver, handle, ok := splitUniqueVolume(a.Name); ok && !lists(e.After.(*corev1.Node), a.Name) {
					withdrawn[volumeOnNode{driver, handle, was.Name}] = c.Log.Steps()
				}
			}
		},
		call: func(r trace.Record) {
			if r.Verb != "ControllerUnpublishVolume" {
				return
			}
			at := c.callOf(r).at()
			mounts := c.mountsOf(at)
			absent, notReady := health.since(at.node, withdrawn[at])
			if absent || notReady {
				c.Log.Sometimes("I16: a volume is detached from a lost node that has it mounted", len(mounts) > 0)
			}
			if len(mounts) == 0 {
				return
			}
			switch {
			case absent || notReady && attachedForLong(attachmentOf(c.API, at.driver, at.handle, at.node)):
			case notReady:
				c.report("I16",
					"volume %s is detached from node %s, which is not ready, too early; it is mounted there at %s",
					at.handle, at.node, mounts[0].Path)
			default:
				c.report("I16", "volume %s is detached from node %s, which has it mounted at %s",
					at.handle, at.node, mounts[0].Path)
			}
		},
	}
}

// attachedForLong reports whether an attachment existed for as long as the controller waits for a
// node that is not ready. Times in the API have whole seconds. For a deleted attachment it returns
// true: its age is unknown.
func attachedForLong(a *storagev1.VolumeAttachment) bool {
	return a == nil || a.DeletionTimestamp == nil ||
		a.DeletionTimestamp.Sub(a.CreationTimestamp.Time) >= unmountWait-time.Second
}

// attachedNodes records the nodes to which each volume has a VolumeAttachment.
type attachedNodes struct {
	nodes map[volumeOnNode]map[string]bool // by volume, without a node
	known map[string]volumeOnNode          // by attachment
}

// add observes an attachment and returns the other nodes of its volume, sorted.
func (n *attachedNodes) add(a *storagev1.VolumeAttachment, v *corev1.PersistentVolume) []string {
	at, volume := volumeAt(v, a.Spec.NodeName), volumeAt(v, "")
	others := slices.Sorted(maps.Keys(n.nodes[volume]))
	if n.nodes[volume] == nil {
		n.nodes[volume] = map[string]bool{}
	}
	n.nodes[volume][at.node], n.known[a.Name] = true, at
	return slices.DeleteFunc(others, func(other string) bool { return other == at.node })
}

func (n *attachedNodes) remove(attachment string) {
	at := n.known[attachment]
	volume := volumeOnNode{at.driver, at.handle, ""}
	delete(n.known, attachment)
	delete(n.nodes[volume], at.node)
	if len(n.nodes[volume]) == 0 {
		delete(n.nodes, volume)
	}
}

// beginAttachAfterDetach checks that a volume for one node gets a VolumeAttachment only if it has
// none to another node.
func beginAttachAfterDetach(c *Checker) watcher {
	nodes := attachedNodes{reuse.Map[volumeOnNode, map[string]bool](c.Reuse), reuse.Map[string, volumeOnNode](c.Reuse)}
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
					c.report("I16b", "volume %s, which is for one node, will be attached to %s, but it still has an attachment to %s",
						v.Name, a.Spec.NodeName, strings.Join(others, " and "))
				}
			}
		},
	}
}

// beginWithdrawFirst checks that the node's status does not list a volume when the deletion of its
// VolumeAttachment begins. A user who deletes one violates the rule.
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
				c.report("I19", "volume %s is being detached from node %s, whose status still lists it as attached",
					v.Name, node.Name)
			}
		},
	}
}

// beginListedIsAttached checks that a volume added to a node's volumesAttached has a
// VolumeAttachment there that is attached and is not being deleted. L5 checks that both finally
// agree.
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
					c.report("I20", "node %s lists volume %s as attached, but there is no attachment", is.Name, handle)
				case !a.Status.Attached:
					c.report("I20",
						"node %s lists volume %s as attached, but its attachment is not attached", is.Name, handle)
				case a.DeletionTimestamp != nil:
					c.report("I20",
						"node %s lists volume %s as attached, but its attachment is being deleted", is.Name, handle)
				}
			}
		},
	}
}

// beginAttachmentName checks that the name of a new VolumeAttachment is derived from its volume's
// handle, driver and node, so that a name identifies them. L4 checks that unneeded ones are
// deleted.
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
				c.report("I21", "attachment %s is for driver %s, but its volume %s is of driver %s", a.Name,
					a.Spec.Attacher, name, source.Driver)
			case a.Name != attachmentName(source.VolumeHandle, source.Driver, a.Spec.NodeName):
				c.report("I21", "attachment %s of volume %s to node %s has the name of another",
					a.Name, name, a.Spec.NodeName)
			}
		},
	}
}

// attachedSource returns the source of the volume that a VolumeAttachment refers to or contains,
// and the volume's name. The source is nil if the volume does not exist or has no CSI driver.
func attachedSource(api *fake.Server, a *storagev1.VolumeAttachment) (*corev1.CSIPersistentVolumeSource, string) {
	if inline := a.Spec.Source.InlineVolumeSpec; inline != nil && inline.CSI != nil {
		return inline.CSI, inline.CSI.VolumeHandle
	}
	if v := volumeOf(api, a); v != nil {
		return v.Spec.CSI, v.Name
	}
	return nil, ""
}

// beginDetachAsked checks that the driver does not detach a volume whose VolumeAttachment is
// attached and not being deleted. Overlapping operations on a volume do not show in the calls, each
// of which is instantaneous; for a volume of one node I16b detects them. A repeated detach is no
// violation: the attacher must repeat it if it could not record the first one.
func beginDetachAsked(c *Checker) watcher {
	if c.Devices == nil {
		return watcher{}
	}
	return watcher{call: func(r trace.Record) {
		if r.Verb != "ControllerUnpublishVolume" || !tookEffect(r) {
			return
		}
		call := c.callOf(r)
		a := attachmentOf(c.API, call.driver, call.handle, call.node)
		if a != nil && a.Status.Attached && a.DeletionTimestamp == nil {
			c.report("I22",
				"volume %s is detached from node %s, but its attachment is not being deleted", call.handle, call.node)
		}
	}}
}
