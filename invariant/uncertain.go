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
	"github.com/volsim/volsim/sim/trace"
)

// What must not be forgotten because nobody knows whether it is mounted.
var uncertainRules = []Rule{
	{"I24", "a volume forgotten by its node while nobody knows whether it is mounted there", nodeRule(beginUncertain)},
}

// mountPlace is a path of a volume on a node; "" is where the volume is staged.
type mountPlace struct {
	volumeOnNode
	path string
}

// uncertainty is, for each place at which something may be mounted, the call because of which nobody knows.
type uncertainty struct {
	*Checker
	places map[mountPlace]string
}

// beginUncertain follows what the calls of a kubelet can have told it. A mount that failed in a way that does not tell
// whether it happened, or an unmount that failed in whatever way, leaves the place uncertain. It is certain again when the
// mount succeeds or fails for good, or the unmount succeeds; and when the node boots. Until then the node must go on to say
// that it uses the volume, and must not unstage it where it may be published; when nothing is left to happen, no place of a
// node that is well is uncertain.
//
// A call that failed before it reached the driver does not tell its path; of such a publish nothing is kept. What a kubelet
// takes for missing (a driver, say) makes no call, and changes nothing.
func beginUncertain(c *Checker) watcher {
	if c.Devices == nil {
		return watcher{}
	}
	u := &uncertainty{c, map[mountPlace]string{}}
	return watcher{
		commits: []string{"nodes"},
		commit:  u.forgotten,
		call:    u.call,
		event: func(r trace.Record) {
			if r.Verb == "reboot" {
				u.settle(func(p mountPlace) bool { return p.node == restartedNode(r) })
			}
		},
		settled: func(report func(format string, a ...any)) {
			for _, p := range u.sorted() {
				if isReady(nodeNamed(c.API, p.node)) {
					report("volume %s %s, and nobody has found out since", p.handle, u.story(p))
				}
			}
		},
	}
}

// call takes in what a call told the kubelet.
func (u *uncertainty) call(r trace.Record) {
	call := deviceCallOf(r)
	staging := mountPlace{volumeOnNode{call.handle, call.node}, ""}
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
		case isFinal(r.Err): // of whichever pod it is
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

// unstaged looks whether a volume that is unstaged may still be published.
func (u *uncertainty) unstaged(staging mountPlace) {
	for _, p := range u.sorted() {
		if p.volumeOnNode == staging.volumeOnNode && p.path != "" {
			u.report("I24", "volume %s is unstaged on node %s, but it %s, and nobody has found out since", p.handle, p.node, u.story(p))
		}
	}
}

// forgotten looks at what a node does not say any more that it uses.
func (u *uncertainty) forgotten(e fake.Commit) {
	was, _ := e.Before.(*corev1.Node)
	for _, handle := range dropped(was, e.After.(*corev1.Node), u.Devices.Driver()) {
		for _, p := range u.sorted() {
			if p.handle == handle && p.node == was.Name {
				u.report("I24", "node %s does not say any more that it uses volume %s, which %s, and nobody has found out since",
					p.node, p.handle, u.story(p))
			}
		}
	}
}

// story tells why nobody knows about a place.
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
		return cmp.Or(strings.Compare(a.node, b.node), strings.Compare(a.handle, b.handle), strings.Compare(a.path, b.path))
	})
}

// isFinal tells whether an error of a driver says that the call did not happen and will not.
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

// dropped are the handles of a driver's volumes that a node said it uses, and says no more. A node that is new, or gone,
// has dropped none.
func dropped(was, is *corev1.Node, driver string) []string {
	if was == nil {
		return nil
	}
	var handles []string
	for _, name := range was.Status.VolumesInUse {
		if of, handle, ok := splitUniqueVolume(name); ok && of == driver && !slices.Contains(is.Status.VolumesInUse, name) {
			handles = append(handles, handle)
		}
	}
	return handles
}
