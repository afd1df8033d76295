package vmdiff

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/conformance/histories"
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
	attachedAgain  = "what may not be attached any more, the kubelet having begun anew or failed to detach it, is attached again"
	kept           = "what a running pod had when the kubelet began stays, though a volume of the pod cannot be processed"
	patient        = "who waits for a volume that another pod has waits as long as before, though that one has gone"
	deviceLeft     = "a device that may be there for a pod is taken away from it, though a later try failed for good"
)

// deliberates are the differences that may be. A history ends where it meets one, since the two worlds are not the same from
// there on. Each is written down, with "Differs:", where ours has it.
var deliberates = []excuse{
	// volumemanager/manager.go RemovePod. Upstream goes on mounting as long as the API server has the pod.
	{endedUnmounted, func(d delta, disk, _ string) bool {
		return slices.ContainsFunc(d.Facts.all, func(p *pod) bool { return p.here && p.ended && p.names(disk) && !hasMounted(d, p, disk) })
	}},
	// volumemanager/attach.go.
	{attachFailed, func(d delta, disk, _ string) bool { return d.Facts.itself && d.Facts.seen.failedTo("Attach", disk) }},
	{attachedAgain, func(d delta, disk, line string) bool {
		return d.Facts.itself && (d.Facts.restarted || d.Facts.seen.failedTo("Detach", disk)) &&
			(strings.HasPrefix(line, "calls ") || strings.Contains(line, "AttachVolume.Attach succeeded"))
	}},
	// volumemanager/ready.go.
	{kept, func(d delta, disk, line string) bool {
		return slices.ContainsFunc(d.Facts.all, func(p *pod) bool {
			return p.isIn(line, disk) && p.here && !p.ended && lost(d, p)
		})
	}},
	// executor/executor.go Start: upstream's back-off ends when another operation on the volume begins.
	{patient, func(d delta, disk, line string) bool {
		return slices.ContainsFunc(d.Facts.all, func(p *pod) bool { return p.isIn(line, disk) && p.names("single") && wasRefused(d, p) })
	}},
	// volumemanager/map.go mapVolume.
	{deviceLeft, func(d delta, disk, line string) bool {
		for _, p := range d.Facts.all {
			if !p.isIn(line, disk) {
				continue
			}
			for _, v := range p.object.Spec.Volumes {
				name := v.PersistentVolumeClaim.ClaimName
				if d.Facts.disk(name).block && d.Facts.seen.failedTo("MapPodDevice "+string(p.object.UID), name) {
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

// lost tells whether upstream has taken a volume from a pod, and ours has not.
func lost(d delta, p *pod) bool {
	took := func(s histories.State, disk string) bool {
		return slices.ContainsFunc(s, func(line string) bool {
			return strings.HasPrefix(line, "calls "+disk+": ") && slices.Contains(strings.Split(line, ", "), "TearDown "+string(p.object.UID))
		})
	}
	return slices.ContainsFunc(disks, func(other disk) bool { return took(d.Upstream, other.name) && !took(d.Ours, other.name) })
}

// wasRefused tells whether a pod was ever told that another one has its volume.
func wasRefused(d delta, p *pod) bool {
	return slices.ContainsFunc(d.Upstream, func(line string) bool {
		return strings.HasPrefix(line, "event about "+string(p.object.UID)+":") && strings.HasSuffix(line, " is already in use by another pod")
	})
}

// hasMounted tells whether upstream says that a pod has a disk mounted.
func hasMounted(d delta, p *pod, disk string) bool {
	return slices.ContainsFunc(d.Upstream, func(line string) bool {
		return strings.HasPrefix(line, "pod "+string(p.object.UID)+": mounted ") && (strings.Contains(line, "["+disk+".") || strings.Contains(line, " "+disk+"."))
	})
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
