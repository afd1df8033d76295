package vmdiff

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/test/conformance/histories"
)

type delta = histories.Delta[step, *world]

// excuse is a difference that may be.
type excuse struct {
	what    string
	excuses func(d delta, disk, line string) bool // a line about a disk ("": about none) that one of the states has
}

// The differences that are there on purpose and that histories may meet.
const (
	endedUnmounted = "what a pod does not have mounted, whose containers have ended, is not mounted for it any more"
	attachFailed   = "what a kubelet has tried to attach, and may be attached, is detached"
	attachedAgain  = "what may not be attached any more, the kubelet having begun anew or failed to detach it, is attached again, or detached"
	kept           = "what a running pod had when the kubelet began stays, though a volume of the pod cannot be processed"
	patient        = "who waits for a volume that another pod has waits as long as before, though that one has gone"
	deviceLeft     = "a device that may be there for a pod is taken away from it, though a later try failed for good"
)

// deliberates are the differences that may be. A history ends where it meets one, since the two worlds are not the same from
// there on. Each is written down, with "Differs:", where ours has it.
var deliberates = []excuse{
	// volumemanager/manager.go RemovePod. Upstream goes on mounting as long as the API server has the pod.
	{endedUnmounted, func(d delta, disk, _ string) bool {
		return slices.ContainsFunc(d.UpstreamWorld.all, func(p *pod) bool { return p.here && p.ended && p.names(disk) && !hasMounted(d.Upstream, p, disk) })
	}},
	// volumemanager/attach.go.
	{attachFailed, func(d delta, disk, line string) bool {
		w := d.UpstreamWorld
		return w.itself && w.seen.failedTo("Attach", disk) && aboutAttaching(line) && onlyAttaching(d, disk, w.found[disk]+w.users(disk))
	}},
	{attachedAgain, func(d delta, disk, line string) bool {
		w, most := d.UpstreamWorld, d.UpstreamWorld.found[disk]
		if w.seen.failedTo("Detach", disk) {
			most += w.users(disk)
		}
		return w.itself && aboutAttaching(line) && onlyAttaching(d, disk, most)
	}},
	// volumemanager/ready.go.
	{kept, func(d delta, disk, line string) bool {
		return slices.ContainsFunc(d.UpstreamWorld.all, func(p *pod) bool {
			if disk != "" {
				return lost(d, p, disk)
			}
			return strings.HasPrefix(line, "pod "+string(p.object.UID)+":") && sameButLost(d, p)
		})
	}},
	// executor/executor.go Start: upstream's back-off ends when another operation on the volume begins.
	{patient, func(d delta, disk, line string) bool {
		return (disk == "single" || strings.HasPrefix(line, "pod ")) && slices.ContainsFunc(d.UpstreamWorld.all, func(p *pod) bool {
			return p.isIn(line, disk) && hasMounted(d.Upstream, p, "single") && !hasMounted(d.Ours, p, "single")
		}) && slices.ContainsFunc(d.Upstream, func(line string) bool { return strings.HasSuffix(line, refused) })
	}},
	// volumemanager/map.go mapVolume.
	{deviceLeft, func(d delta, disk, line string) bool {
		for _, p := range d.UpstreamWorld.all {
			if !p.isIn(line, disk) {
				continue
			}
			for _, v := range p.object.Spec.Volumes {
				name := v.PersistentVolumeClaim.ClaimName
				if d.UpstreamWorld.disk(name).block && d.UpstreamWorld.seen.failedTo("MapPodDevice "+string(p.object.UID), name) {
					return true
				}
			}
		}
		return false
	}},
}

// deliberate says why two states may differ: there is an excuse for each line that only one of them has.
func deliberate(d delta) string {
	var whats []string
	for _, line := range d.Lines() {
		disk := diskIn(line)
		at := slices.IndexFunc(deliberates, func(e excuse) bool { return e.excuses(d, disk, line) })
		if at < 0 {
			return ""
		}
		whats = append(whats, deliberates[at].what)
	}
	slices.Sort(whats)
	return strings.Join(slices.Compact(whats), "; ")
}

// names tells whether a pod uses a disk.
func (p *pod) names(disk string) bool {
	return slices.ContainsFunc(p.object.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim.ClaimName == disk })
}

// isIn tells whether a line about a disk is about the pod, or about a disk that it uses.
func (p *pod) isIn(line, disk string) bool {
	return strings.HasPrefix(line, "pod "+string(p.object.UID)+":") || p.names(disk)
}

// lost tells whether upstream has taken a volume from a pod that runs, more often than ours, since the kubelet began when not all
// volumes of the pod could be processed.
func lost(d delta, p *pod, disk string) bool {
	took := func(s histories.State) int { return count(callsIn(s, disk), "TearDown "+string(p.object.UID)) }
	return p.here && !p.ended && p.unprocessed && p.names(disk) && took(d.Upstream) > took(d.Ours)
}

// sameButLost tells whether a pod has the same volumes in both worlds, but for what it has lost in upstream's.
func sameButLost(d delta, p *pod) bool {
	others := func(s histories.State) []string {
		return slices.DeleteFunc(mountedIn(s, p), func(name string) bool {
			disk, _, _ := strings.Cut(name, ".")
			return lost(d, p, disk)
		})
	}
	anything := slices.ContainsFunc(p.object.Spec.Volumes, func(v corev1.Volume) bool { return lost(d, p, v.PersistentVolumeClaim.ClaimName) })
	return anything && slices.Equal(others(d.Upstream), others(d.Ours))
}

// aboutAttaching tells whether a line is one that differs where a volume is attached or detached otherwise.
func aboutAttaching(line string) bool {
	return strings.HasPrefix(line, "calls ") || strings.HasPrefix(line, "in use: ") || strings.Contains(line, "AttachVolume.Attach succeeded")
}

// onlyAttaching tells whether of a disk nothing but attaching and detaching differs, and ours did each of these at most so many
// times more, or in vain.
func onlyAttaching(d delta, disk string, most int) bool {
	rest := func(s histories.State) []string {
		return slices.DeleteFunc(callsIn(s, disk), func(word string) bool {
			verb, _, _ := strings.Cut(strings.TrimPrefix(word, "("), ":")
			return verb == "Attach" || verb == "Detach"
		})
	}
	more := func(verb string) int {
		return count(callsIn(d.Ours, disk), verb) - count(callsIn(d.Upstream, disk), verb)
	}
	return slices.Equal(rest(d.Upstream), rest(d.Ours)) && more("Attach") <= most && more("Detach") <= most
}

// callsIn are the words of the calls for a disk.
func callsIn(s histories.State, disk string) []string {
	for _, line := range s {
		if words, is := strings.CutPrefix(line, "calls "+disk+": "); is {
			return strings.Split(words, ", ")
		}
	}
	return nil
}

func count(words []string, word string) int {
	return len(slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w != word }))
}

// mountedIn are the volumes that a pod has.
func mountedIn(s histories.State, p *pod) []string {
	for _, line := range s {
		if rest, is := strings.CutPrefix(line, "pod "+string(p.object.UID)+": mounted ["); is {
			names, _, _ := strings.Cut(rest, "]")
			return strings.Fields(names)
		}
	}
	return nil
}

// refused is how it ends what a pod is told of which another one has the volume.
const refused = " is already in use by another pod"

// hasMounted tells whether a pod has a disk mounted.
func hasMounted(s histories.State, p *pod, disk string) bool {
	return slices.ContainsFunc(mountedIn(s, p), func(name string) bool { return strings.HasPrefix(name, disk+".") })
}

// diskIn is the disk that a line is about; "": none.
func diskIn(line string) string {
	for _, d := range disks {
		if strings.HasPrefix(line, "calls "+d.name+":") || strings.HasSuffix(line, ": "+string(d.unique())) || strings.Contains(line, ` "`+d.name+`" `) {
			return d.name
		}
	}
	return ""
}
