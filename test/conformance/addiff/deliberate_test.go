package addiff

import (
	"slices"
	"strings"

	"github.com/volsim/volsim/test/conformance/histories"
)

// The deliberate differences that drawn histories may show.
const (
	handleWithSeparator   = "a volume whose handle contains the separator is detached"
	verifiedAtOnce        = "an attachment that another client deletes is verified at once"
	unreported            = "a volume whose attachment another client deletes is not reported as attached"
	uncertainWhileInUse   = "a volume whose attachment another client deletes stays uncertain while the node uses it"
	notInUse              = "a new attachment is not in use by itself"
	deletedNode           = "no volume is attached to a deleted node"
	podOfDeletedNode      = "a pod of a deleted node neither receives nor appears in events"
	uncertainElsewhere    = "a volume that may be attached to another node is not attached"
	timeFindPlugin        = "time: attach attempted before the CSIDriver object was seen"
	timeUnansweredAttempt = "time: event about an unanswered attempt"
)

// deliberate lists the allowed differences. A history ends at the first one, because the worlds
// differ from there on. Except for those of time, each is documented with "Differs:" in our
// controller.
var deliberate = []histories.Difference[step, *world]{
	// An attempt is reported to the pods that wanted the volume when it began. That time differs
	// between the worlds.
	{Name: timeFindPlugin, Explains: func(_ delta, _, line string) bool {
		return strings.HasPrefix(line, "event ") && strings.Contains(line, ": AttachVolume.FindAttachablePluginBySpec failed ")
	}},
	{Name: timeUnansweredAttempt, Explains: func(_ delta, _, line string) bool {
		return strings.HasPrefix(line, "event ") && strings.Contains(line, " : timed out waiting for external-attacher ")
	}},
	// plugins/csi/names.go splitVolumeName.
	{Name: handleWithSeparator, Explains: func(d delta, disk, _ string) bool {
		return disk == "odd" && strings.Contains(callsIn(d.Ours, disk+":"), "detach")
	}},
	// attachdetach/verify.go doubt.
	{Name: verifiedAtOnce, Explains: func(d delta, disk, line string) bool {
		return isDropped(d, disk) && strings.HasPrefix(line, "event ") && strings.Contains(line, ": AttachVolume.Attach ")
	}},
	{Name: unreported, Explains: func(d delta, disk, line string) bool {
		reported, ok := strings.CutPrefix(line, "reported ")
		return ok && isDropped(d, disk) && slices.Contains(d.Upstream, line) &&
			!slices.ContainsFunc(d.Upstream, func(other string) bool {
				return strings.HasPrefix(other, "attachment "+reported+":") && !strings.Contains(other, ", being deleted")
			})
	}},
	{Name: uncertainWhileInUse, Explains: func(d delta, disk, _ string) bool {
		return isDropped(d, disk) && nextCall(d.Ours, d.Upstream, disk, "attach") != ""
	}},
	// attachdetach/actual.go ActualStateOfWorld. Upstream treats a new attachment as in use until
	// the node's status is written next. That never happens if the node does not exist or its
	// kubelet is down, and happens long after a restart if the node was created again.
	{Name: notInUse, Explains: func(d delta, disk, _ string) bool {
		node := nextCall(d.Upstream, d.Ours, disk, "detach")
		return node != "" && !d.UpstreamWorld.observer.isInUse(disk, node) && (isSilent(d, node) || isRecreated(d, node))
	}},
	// attachdetach/desired.go deleteNode.
	{Name: deletedNode, Explains: func(d delta, disk, _ string) bool {
		node := nextCall(d.Ours, d.Upstream, disk, "attach")
		return node != "" && isUnmanaged(d, node)
	}},
	{Name: podOfDeletedNode, Explains: func(d delta, _, line string) bool {
		pod, ok := podIn(line)
		return ok && (isOfDeletedNode(d, pod) && slices.Contains(d.Upstream, line) ||
			slices.ContainsFunc(append(blockersIn(line), blockersIn(counterpart(d, line))...), func(blocker string) bool {
				return isOfDeletedNode(d, blocker)
			}))
	}},
	// attachdetach/multiattach.go blockers.
	{Name: uncertainElsewhere, Explains: func(d delta, disk, line string) bool {
		upstream, ours := d.UpstreamWorld.observer, d.OurWorld.observer
		return upstream.has(upstream.doubled, disk) ||
			ours.has(ours.uncertain, disk) && strings.Contains(line, "Multi-Attach error")
	}},
}

// isDropped reports whether another client deleted an attachment of a disk.
func isDropped(d delta, disk string) bool {
	o := d.UpstreamWorld.observer
	return o.has(o.dropped, disk)
}

// nextCall returns the node of the first call about a disk that one state has after all those of
// the other. It returns "" if that call has another verb.
func nextCall(less, more histories.State, disk, verb string) string {
	for _, key := range []string{disk + ":", disk + "@n1:", disk + "@n2:", disk + "@n3:"} {
		rest, ok := strings.CutPrefix(callsIn(more, key), callsIn(less, key))
		if node, is := strings.CutPrefix(strings.TrimLeft(rest, ", "), verb+" "); ok && is {
			node, _, _ = strings.Cut(node, ",")
			return node
		}
	}
	return ""
}

// isOfDeletedNode reports whether the last pod of a name was bound to a node that does not exist or
// is unmanaged.
func isOfDeletedNode(d delta, pod string) bool {
	node := ""
	for a := range acts(d.History) {
		switch a := a.(type) {
		case createPod:
			if a.pod == pod {
				node = a.node
			}
		case bindPod:
			if a.pod == pod {
				node = a.node
			}
		}
	}
	return node != "" && isUnmanaged(d, node)
}

// isUnmanaged reports whether a node does not exist, or was created again and is not managed.
func isUnmanaged(d delta, node string) bool { return !slices.Contains(d.Upstream, "node "+node) }

// isRecreated reports whether a node was deleted and created again.
func isRecreated(d delta, node string) bool {
	deleted := false
	for a := range acts(d.History) {
		switch a := a.(type) {
		case deleteNode:
			deleted = deleted || a.node == node
		case createNode:
			if deleted && a.node == node {
				return true
			}
		}
	}
	return false
}

// usedBy begins the list of the pods that use the volume that another pod needs.
const usedBy = " Volume is already used by pod(s) "

// blockersIn returns the pods that use the volume that another pod needs, according to an event.
func blockersIn(line string) []string {
	_, list, _ := strings.Cut(line, usedBy)
	return strings.Split(list, ", ")
}

// counterpart returns the line with other blockers for the same pod, or "".
func counterpart(d delta, line string) string {
	const already = " Volume is already "
	head, _, ok := strings.Cut(line, already)
	for _, other := range d.Lines() {
		if ok && other != line && strings.HasPrefix(other, head+already) {
			return other
		}
	}
	return ""
}

// podIn returns the pod that an event is about.
func podIn(line string) (string, bool) {
	about, ok := strings.CutPrefix(line, "event about ")
	pod, _, _ := strings.Cut(about, "#")
	return pod, ok
}

// isSilent reports whether no kubelet writes a node's status: the node does not exist, is
// unmanaged, or its kubelet is down.
func isSilent(d delta, node string) bool {
	if isUnmanaged(d, node) {
		return true
	}
	how := works
	for a := range acts(d.History) {
		switch a := a.(type) {
		case setKubelet:
			if a.node == node {
				how = a.how
			}
		case failNode:
			if a.node == node {
				how = map[bool]string{true: works, false: isDown}[a.recovers]
			}
		}
	}
	return how == isDown
}

// callsIn returns the calls of a key, such as "rwo1:" or "rwx@n1:", in a state.
func callsIn(s histories.State, key string) string {
	for _, line := range s {
		if calls, ok := strings.CutPrefix(line, "calls "+key); ok {
			return calls
		}
	}
	return ""
}

// diskIn returns the disk that a line is about, or "".
func diskIn(line string) string {
	for _, d := range disks {
		if strings.Contains(line, ` "`+d.name+`" `) || strings.Contains(line, " "+d.name+"@") || strings.HasPrefix(line, "calls "+d.name+":") {
			return d.name
		}
	}
	return ""
}
