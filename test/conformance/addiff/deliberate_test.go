package addiff

import (
	"slices"
	"strings"
)

// excuse is a difference that may be.
type excuse struct {
	what    string
	excuses func(d delta, disk, line string) bool // a line about a disk ("": about none) that one of the states has
}

// The differences that are there on purpose and that histories may meet.
const (
	handleWithSeparator = "a handle with the separator in it is detached"
	doubted             = "what somebody deletes is doubted at once"
	unreported          = "what somebody deletes is not reported"
	doubtedWhileInUse   = "what somebody deletes is doubted until the node does not use it"
	notInUse            = "a new attachment is not in use by itself"
	goneNode            = "a node that is gone gets no volumes"
	goneNodesPod        = "a pod on a node that is gone is told of nothing and to nobody"
	elsewhere           = "what may be attached elsewhere is not attached"
)

// deliberates are the differences that may be. A history ends where it meets one, since the two worlds are not the same from
// there on. All but those of time are there on purpose: each is written down, with "Differs:", where our controller has it.
var deliberates = []excuse{
	// Who is told of an attempt is who wanted the volume when it began, which in the two worlds is not at the same time.
	{"time: tried what needs no attaching, before that was seen", func(_ delta, _, line string) bool {
		return strings.HasPrefix(line, "event ") && strings.Contains(line, ": AttachVolume.FindAttachablePluginBySpec failed ")
	}},
	{"time: told of an attempt that was not answered", func(_ delta, _, line string) bool {
		return strings.HasPrefix(line, "event ") && strings.Contains(line, " : timed out waiting for external-attacher ")
	}},
	// plugins/csi/names.go splitVolumeName.
	{handleWithSeparator, func(d delta, disk, _ string) bool {
		return disk == "odd" && strings.Contains(d.calls(d.ours, disk+":"), "detach")
	}},
	// attachdetach/verify.go doubt.
	{doubted, func(d delta, disk, line string) bool {
		return d.facts.is(d.facts.dropped, disk) && strings.HasPrefix(line, "event ") && strings.Contains(line, ": AttachVolume.Attach ")
	}},
	{unreported, func(d delta, disk, line string) bool {
		reported, ok := strings.CutPrefix(line, "reported ")
		return ok && d.facts.is(d.facts.dropped, disk) && slices.Contains(d.upstream, line) &&
			!slices.ContainsFunc(d.upstream, func(other string) bool {
				return strings.HasPrefix(other, "attachment "+reported+":") && !strings.Contains(other, ", being deleted")
			})
	}},
	{doubtedWhileInUse, func(d delta, disk, _ string) bool {
		return d.facts.is(d.facts.dropped, disk) && d.next(d.ours, d.upstream, disk, "attach") != ""
	}},
	// attachdetach/actual.go ActualStateOfWorld: upstream takes a new attachment to be in use until the node's status is written
	// next, which is never where there is no node, or nobody to write, and is well after a restart where a node was made anew.
	{notInUse, func(d delta, disk, _ string) bool {
		node := d.next(d.upstream, d.ours, disk, "detach")
		return node != "" && !d.facts.isInUse(disk, node) && (d.isSilent(node) || d.cameAgain(node))
	}},
	// attachdetach/desired.go deleteNode.
	{goneNode, func(d delta, disk, _ string) bool {
		node := d.next(d.ours, d.upstream, disk, "attach")
		return node != "" && d.getsNone(node)
	}},
	{goneNodesPod, func(d delta, _, line string) bool {
		pod, ok := podIn(line)
		return ok && (d.isOfGone(pod) && slices.Contains(d.upstream, line) ||
			slices.ContainsFunc(append(blockersIn(line), blockersIn(d.counterpart(line))...), d.isOfGone))
	}},
	// attachdetach/multiattach.go blockers.
	{elsewhere, func(d delta, disk, line string) bool {
		return d.facts.is(d.facts.doubled, disk) || d.mine.is(d.mine.unsure, disk) && strings.Contains(line, "Multi-Attach error")
	}},
}

// next is the node of the first call of a verb about a disk that one state has after all that the other has; "" if that is
// not what is next.
func (d delta) next(less, more state, disk, verb string) string {
	for _, key := range []string{disk + ":", disk + "@n1:", disk + "@n2:", disk + "@n3:"} {
		rest, ok := strings.CutPrefix(d.calls(more, key), d.calls(less, key))
		if node, is := strings.CutPrefix(strings.TrimLeft(rest, ", "), verb+" "); ok && is {
			node, _, _ = strings.Cut(node, ",")
			return node
		}
	}
	return ""
}

// isOfGone tells whether the last pod of a name was to run on a node that is gone.
func (d delta) isOfGone(pod string) bool {
	node := ""
	for a := range d.history.acts() {
		switch a := a.(type) {
		case runPod:
			if a.pod == pod {
				node = a.node
			}
		case schedule:
			if a.pod == pod {
				node = a.node
			}
		}
	}
	return node != "" && d.getsNone(node)
}

// getsNone tells whether a node is gone, or came back and is not managed.
func (d delta) getsNone(node string) bool { return !slices.Contains(d.upstream, "node "+node) }

// cameAgain tells whether a node went and was made anew.
func (d delta) cameAgain(node string) bool {
	went := false
	for a := range d.history.acts() {
		switch a := a.(type) {
		case dropNode:
			went = went || a.node == node
		case makeNode:
			if went && a.node == node {
				return true
			}
		}
	}
	return false
}

// usedBy begins the list of pods that have what another pod wants.
const usedBy = " Volume is already used by pod(s) "

// blockersIn are the pods that have what another pod wants, as an event told.
func blockersIn(line string) []string {
	_, list, _ := strings.Cut(line, usedBy)
	return strings.Split(list, ", ")
}

// counterpart is the line that tells the same pod otherwise of who has what it wants; "" if there is none.
func (d delta) counterpart(line string) string {
	const already = " Volume is already "
	head, _, ok := strings.Cut(line, already)
	for _, other := range d.lines() {
		if ok && other != line && strings.HasPrefix(other, head+already) {
			return other
		}
	}
	return ""
}

// podIn is the pod that an event is about.
func podIn(line string) (string, bool) {
	about, ok := strings.CutPrefix(line, "event about ")
	pod, _, _ := strings.Cut(about, "#")
	return pod, ok
}

// isSilent tells whether nobody writes a node's status: it is not there, or nobody asks, or its kubelet is down.
func (d delta) isSilent(node string) bool {
	if d.getsNone(node) {
		return true
	}
	how := works
	for a := range d.history.acts() {
		switch a := a.(type) {
		case kubelet:
			if a.node == node {
				how = a.how
			}
		case fail:
			if a.node == node {
				how = map[bool]string{true: works, false: isDown}[a.back]
			}
		}
	}
	return how == isDown
}

// deliberate are the differences that may be which two states show; "" if there is another.
func deliberate(d delta) string {
	var whats []string
	for _, line := range d.lines() {
		disk := diskIn(line)
		i := slices.IndexFunc(deliberates, func(one excuse) bool { return one.excuses(d, disk, line) })
		if i < 0 {
			return ""
		}
		whats = append(whats, deliberates[i].what)
	}
	slices.Sort(whats)
	return strings.Join(slices.Compact(whats), "; ")
}

// lines are those that only one of the states has.
func (d delta) lines() []string {
	return append(onlyIn(d.upstream, d.ours), onlyIn(d.ours, d.upstream)...)
}

// calls are those of a key, such as "rwo1:" or "rwx@n1:", in a state.
func (d delta) calls(s state, key string) string {
	for _, line := range s {
		if calls, ok := strings.CutPrefix(line, "calls "+key); ok {
			return calls
		}
	}
	return ""
}

// diskIn is the disk that a line is about; "": none.
func diskIn(line string) string {
	for _, d := range disks {
		if strings.Contains(line, ` "`+d.name+`" `) || strings.Contains(line, " "+d.name+"@") || strings.HasPrefix(line, "calls "+d.name+":") {
			return d.name
		}
	}
	return ""
}
