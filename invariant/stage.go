package invariant

import (
	"strings"

	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about the order of attach, stage and publish, and about the content of paths.
var stageRules = []builtIn{
	{"I17", "a volume staged before it is attached, published before it is staged, or unstaged before it is unpublished", nodeRule(beginStageOrder)},
	{"I18", "a path at which another volume than its own is mounted", nodeRule(beginPathIdentity)},
}

// stageOrder is the state of I17.
type stageOrder struct {
	*Checker
	staged map[volumeOnNode]bool // staged successfully as seen by the node's kubelet, without an attempt to unstage since
}

// beginStageOrder checks that each effective call finds its preconditions. A kubelet must not stage
// a volume again after a successful stage; this also detects concurrent stages. I16 checks that a
// volume is unstaged before it is detached.
func beginStageOrder(c *Checker) watcher {
	if c.Devices == nil {
		return watcher{}
	}
	o := &stageOrder{c, reuse.Map[volumeOnNode, bool](c.Reuse)}
	return watcher{
		call: func(r trace.Record) {
			call := deviceCallOf(r)
			at := call.at()
			switch {
			case r.Verb == "NodeStageVolume" && tookEffect(r):
				o.stage(r, at)
			case r.Verb == "NodePublishVolume" && tookEffect(r):
				o.publish(at, call.path)
			case r.Verb == "NodeUnstageVolume":
				o.unstage(r, at)
			}
		},
		event: func(r trace.Record) {
			for at := range o.staged {
				if at.node == restartedNode(r) {
					delete(o.staged, at)
				}
			}
		},
	}
}

func (o *stageOrder) stage(r trace.Record, at volumeOnNode) {
	if !o.mayBeAttached(at) {
		o.report("I17", "volume %s is staged on node %s, to which it is not attached", at.handle, at.node)
	}
	if o.staged[at] {
		o.report("I17", "volume %s is staged on node %s again, although it was already staged", at.handle, at.node)
	}
	if r.Err == nil {
		o.staged[at] = true
	}
}

func (o *stageOrder) publish(at volumeOnNode, path string) {
	if !o.mayBeAttached(at) {
		o.report("I17", "volume %s is published on node %s, to which it is not attached", at.handle, at.node)
	}
	if o.isOther(at.driver) {
		if v := o.others.volumes[at]; v == nil || v.staged != no {
			return
		}
	}
	for _, m := range o.mountsOf(at) {
		if _, ofPod := podPathAt(m.Path); !ofPod {
			return
		}
	}
	o.report("I17", "volume %s is published on node %s at %s, but it is not staged there", at.handle, at.node, path)
}

func (o *stageOrder) unstage(r trace.Record, at volumeOnNode) {
	delete(o.staged, at)
	if !tookEffect(r) {
		return
	}
	for _, m := range o.mountsOf(at) {
		if _, ofPod := podPathAt(m.Path); ofPod {
			o.report("I17", "volume %s is unstaged on node %s, but still published at %s", at.handle, at.node, m.Path)
			return
		}
	}
}

// mayBeAttached reports whether a volume is attached to a node, need not be, or has not been seen.
func (o *stageOrder) mayBeAttached(at volumeOnNode) bool {
	return o.isAttached(at) != no || o.isOther(at.driver) && (!o.isAttachable(at.driver) || o.csiVolumeOf(at.driver, at.handle) == nil)
}

// beginPathIdentity checks that after a stage or publish at a path only that volume is mounted
// there, and that the path of a pod's volume belongs to a PersistentVolume with this handle.
func beginPathIdentity(c *Checker) watcher {
	if c.Devices == nil {
		return watcher{}
	}
	return watcher{call: func(r trace.Record) {
		if r.Verb != "NodeStageVolume" && r.Verb != "NodePublishVolume" || !tookEffect(r) {
			return
		}
		call := deviceCallOf(r)
		for _, m := range mountsAt(c.Devices.Mounts(call.node), call.path) {
			if m.Source != call.handle && !c.isOther(call.driver) {
				c.report("I18", "volume %s was mounted on node %s at %s, where volume %s is mounted", call.handle,
					call.node, call.path, m.Source)
			}
		}
		pod, ok := podMountAt(call.path)
		if !ok {
			return
		}
		if v := csiVolumeNamed(c.API, pod.volume); v != nil && volumeAt(v, call.node) != call.at() {
			c.report("I18", "volume %s was published on node %s at %s, which is the path of volume %s (%s)",
				call.handle, call.node, call.path, v.Name, v.Spec.CSI.VolumeHandle)
		}
	}}
}

// mountsAt returns the mounts at a path, the lowest first.
func mountsAt(mounts []nodefs.Mount, path string) []nodefs.Mount {
	var at []nodefs.Mount
	for _, m := range mounts {
		if m.Path == strings.TrimSuffix(path, "/") {
			at = append(at, m)
		}
	}
	return at
}
