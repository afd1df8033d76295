package invariant

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about uncertain mounts.
var uncertainRules = []builtIn{
	{"I24", "a volume that is unstaged or not reported in use while its mount is uncertain", nodeRule(beginUncertain)},
}

// A mountPlace is a path of a volume on a node; "" is the staging path.
type mountPlace struct {
	volumeOnNode
	path string
}

// uncertainty maps each uncertain place to the call that made it uncertain.
type uncertainty struct {
	*Checker
	places map[mountPlace]string
}

// beginUncertain tracks what calls have shown to a kubelet. A place becomes uncertain by a mount
// whose error leaves the result open, and by any failed unmount. It becomes certain by a mount that
// succeeds or fails finally, by a successful unmount, and by a reboot of the node. Until then the
// node must report the volume in use, and must not unstage it while it may be published. At rest,
// no place of a ready node is uncertain.
//
// A call that failed before it reached the driver has no path; such a publish is ignored. A failure
// without a call, such as of a missing driver, changes nothing.
func beginUncertain(c *Checker) watcher {
	if c.Devices == nil {
		return watcher{}
	}
	u := &uncertainty{c, reuse.Map[mountPlace, string](c.Reuse)}
	return watcher{
		commits: []string{"nodes"},
		commit:  u.droppedUse,
		call:    u.call,
		event: func(r trace.Record) {
			if r.Verb == "reboot" {
				u.settle(func(p mountPlace) bool { return p.node == restartedNode(r) })
			}
		},
		settled: func(report func(format string, a ...any)) {
			for _, p := range u.sorted() {
				if isReady(nodeNamed(c.API, p.node)) {
					report("volume %s %s, and this is still uncertain", p.handle, u.story(p))
				}
			}
		},
	}
}

// call handles the result of a call.
func (u *uncertainty) call(r trace.Record) {
	call := deviceCallOf(r)
	staging := mountPlace{call.at(), ""}
	published := mountPlace{staging.volumeOnNode, call.path}
	switch r.Verb {
	case "NodeStageVolume":
		u.mounted(staging, r)
	case "NodeUnstageVolume":
		if r.Err == nil {
			u.unstaged(staging)
		}
		u.unmounted(staging, r)
	case "NodePublishVolume":
		switch {
		case call.path != "":
			u.mounted(published, r)
		case isFinal(r.Err): // of any pod
			u.settle(func(p mountPlace) bool { return p.volumeOnNode == staging.volumeOnNode && p.path != "" })
		}
	case "NodeUnpublishVolume":
		if call.path != "" {
			u.unmounted(published, r)
		}
	}
}

func (u *uncertainty) mounted(p mountPlace, r trace.Record) {
	if r.Err == nil || isFinal(r.Err) {
		delete(u.places, p)
		return
	}
	u.places[p] = r.Verb + " with " + status.Code(r.Err).String()
}

func (u *uncertainty) unmounted(p mountPlace, r trace.Record) {
	if r.Err == nil {
		delete(u.places, p)
		return
	}
	u.places[p] = r.Verb + " with " + status.Code(r.Err).String()
}

// unstaged checks whether an unstaged volume may still be published.
func (u *uncertainty) unstaged(staging mountPlace) {
	for _, p := range u.sorted() {
		if p.volumeOnNode == staging.volumeOnNode && p.path != "" {
			u.report("I24", "volume %s is unstaged on node %s, but it %s, and this is still uncertain", p.handle,
				p.node, u.story(p))
		}
	}
}

// droppedUse checks what a node no longer reports in use.
func (u *uncertainty) droppedUse(e fake.Commit) {
	was, _ := e.Before.(*corev1.Node)
	for _, at := range dropped(was, e.After.(*corev1.Node)) {
		for _, p := range u.sorted() {
			if p.volumeOnNode == at {
				u.report("I24", "node %s no longer reports volume %s in use, which %s, and this is still uncertain",
					p.node, p.handle, u.story(p))
			}
		}
	}
}

// story returns why a place is uncertain.
func (u *uncertainty) story(p mountPlace) string {
	if p.path == "" {
		return "may be staged on " + p.node + ": " + u.places[p]
	}
	return "may be mounted on " + p.node + " at " + p.path + ": " + u.places[p]
}

func (u *uncertainty) settle(which func(mountPlace) bool) {
	for p := range u.places {
		if which(p) {
			delete(u.places, p)
		}
	}
}

func (u *uncertainty) sorted() []mountPlace {
	return slices.SortedFunc(maps.Keys(u.places), func(a, b mountPlace) int {
		return cmp.Or(strings.Compare(a.node, b.node), strings.Compare(a.driver, b.driver),
			strings.Compare(a.handle, b.handle), strings.Compare(a.path, b.path))
	})
}

// isFinal reports whether an error of a driver says that the call had no effect and will have none.
//
// Upstream: pkg/volume/csi isFinalError (v1.36).
func isFinal(err error) bool {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return false
	}
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return false
	}
	return true
}

// dropped returns the volumes of CSI drivers that a node no longer reports in use; none for a node that
// is new or deleted.
func dropped(was, is *corev1.Node) []volumeOnNode {
	if was == nil {
		return nil
	}
	var volumes []volumeOnNode
	for _, name := range was.Status.VolumesInUse {
		if driver, handle, ok := splitUniqueVolume(name); ok && !slices.Contains(is.Status.VolumesInUse, name) {
			volumes = append(volumes, volumeOnNode{driver, handle, was.Name})
		}
	}
	return volumes
}
