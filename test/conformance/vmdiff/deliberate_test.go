package vmdiff

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/test/conformance/histories"
)

// The deliberate differences that drawn histories may show.
const (
	terminatedUnmounted = "a volume of a terminated pod that is not mounted is not mounted any more"
	attachFailed        = "a volume that a kubelet tried to attach, and that may be attached, is detached"
	attachedAgain       = "a volume that may not be attached any more, after a restart or a failed detach of the kubelet, is attached again or detached"
	kept                = "a volume that a running pod had when the kubelet started stays mounted, although a volume of the pod cannot be processed"
	backoffKept         = "the back-off of a pod that waits for a volume of another pod does not end when that pod is deleted"
	deviceUnmapped      = "a device that may be mapped for a pod is unmapped, although a later attempt failed with a final error"
)

// deliberate lists the allowed differences. A history ends at the first one, because the worlds
// differ from there on. Each is documented with "Differs:" in our manager.
var deliberate = []histories.Difference[step, *world]{
	// volumemanager/manager.go RemovePod. Upstream mounts as long as the pod exists.
	{Name: terminatedUnmounted, Explains: func(d delta, disk, _ string) bool {
		return slices.ContainsFunc(d.UpstreamWorld.all, func(p *pod) bool { return p.exists && p.terminated && p.uses(disk) && !hasMounted(d.Upstream, p, disk) })
	}},
	// volumemanager/attach.go.
	{Name: attachFailed, Explains: func(d delta, disk, line string) bool {
		w := d.UpstreamWorld
		return w.selfAttach && w.observer.failedTo("Attach", disk) && aboutAttaching(line) && onlyAttaching(d, disk, w.restarts[disk]+w.users(disk))
	}},
	{Name: attachedAgain, Explains: func(d delta, disk, line string) bool {
		w, most := d.UpstreamWorld, d.UpstreamWorld.restarts[disk]
		if w.observer.failedTo("Detach", disk) {
			most += w.users(disk)
		}
		return w.selfAttach && aboutAttaching(line) && onlyAttaching(d, disk, most)
	}},
	// volumemanager/ready.go.
	{Name: kept, Explains: func(d delta, disk, line string) bool {
		return slices.ContainsFunc(d.UpstreamWorld.all, func(p *pod) bool {
			if disk != "" {
				return lost(d, p, disk)
			}
			return strings.HasPrefix(line, "pod "+string(p.object.UID)+":") && sameButLost(d, p)
		})
	}},
	// executor/executor.go Start: upstream's back-off ends when another operation on the volume
	// starts.
	{Name: backoffKept, Explains: func(d delta, disk, line string) bool {
		return (disk == "single" || strings.HasPrefix(line, "pod ")) && slices.ContainsFunc(d.UpstreamWorld.all, func(p *pod) bool {
			return p.isIn(line, disk) && hasMounted(d.Upstream, p, "single") && !hasMounted(d.Ours, p, "single")
		}) && slices.ContainsFunc(d.Upstream, func(line string) bool { return strings.HasSuffix(line, inUseByOther) })
	}},
	// volumemanager/map.go mapVolume.
	{Name: deviceUnmapped, Explains: func(d delta, disk, line string) bool {
		for _, p := range d.UpstreamWorld.all {
			if !p.isIn(line, disk) {
				continue
			}
			for _, v := range p.object.Spec.Volumes {
				name := v.PersistentVolumeClaim.ClaimName
				if d.UpstreamWorld.disk(name).block && d.UpstreamWorld.observer.failedTo("MapPodDevice "+string(p.object.UID), name) {
					return true
				}
			}
		}
		return false
	}},
}

// uses reports whether a pod uses a disk.
func (p *pod) uses(disk string) bool {
	return slices.ContainsFunc(p.object.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim.ClaimName == disk })
}

// isIn reports whether a line about a disk is about the pod, or about a disk that it uses.
func (p *pod) isIn(line, disk string) bool {
	return strings.HasPrefix(line, "pod "+string(p.object.UID)+":") || p.uses(disk)
}

// lost reports whether upstream has unmounted a volume of a running pod more often than ours. The
// kubelet must have started when not all volumes of the pod could be processed.
func lost(d delta, p *pod, disk string) bool {
	unmounts := func(s histories.State) int { return count(callsIn(s, disk), "TearDown "+string(p.object.UID)) }
	return p.exists && !p.terminated && p.unprocessed && p.uses(disk) && unmounts(d.Upstream) > unmounts(d.Ours)
}

// sameButLost reports whether a pod has the same volumes in both worlds, except those that it has
// lost in upstream's.
func sameButLost(d delta, p *pod) bool {
	others := func(s histories.State) []string {
		return slices.DeleteFunc(mountedIn(s, p), func(name string) bool {
			disk, _, _ := strings.Cut(name, ".")
			return lost(d, p, disk)
		})
	}
	anyLost := slices.ContainsFunc(p.object.Spec.Volumes, func(v corev1.Volume) bool { return lost(d, p, v.PersistentVolumeClaim.ClaimName) })
	return anyLost && slices.Equal(others(d.Upstream), others(d.Ours))
}

// aboutAttaching reports whether a line depends on when a volume is attached or detached.
func aboutAttaching(line string) bool {
	return strings.HasPrefix(line, "calls ") || strings.HasPrefix(line, "in use: ") || strings.Contains(line, "AttachVolume.Attach succeeded")
}

// onlyAttaching reports whether only attach and detach calls of a disk differ, and ours made each
// of them successfully at most most times more often.
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

// callsIn returns the calls for a disk.
func callsIn(s histories.State, disk string) []string {
	for _, line := range s {
		if calls, ok := strings.CutPrefix(line, "calls "+disk+": "); ok {
			return strings.Split(calls, ", ")
		}
	}
	return nil
}

func count(words []string, word string) int {
	return len(slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w != word }))
}

// mountedIn returns the mounted volumes of a pod.
func mountedIn(s histories.State, p *pod) []string {
	for _, line := range s {
		if rest, ok := strings.CutPrefix(line, "pod "+string(p.object.UID)+": mounted ["); ok {
			names, _, _ := strings.Cut(rest, "]")
			return strings.Fields(names)
		}
	}
	return nil
}

// inUseByOther ends an event about a pod whose volume another pod uses.
const inUseByOther = " is already in use by another pod"

// hasMounted reports whether a pod has a disk mounted.
func hasMounted(s histories.State, p *pod, disk string) bool {
	return slices.ContainsFunc(mountedIn(s, p), func(name string) bool { return strings.HasPrefix(name, disk+".") })
}

// diskIn returns the disk that a line is about, or "".
func diskIn(line string) string {
	for _, d := range disks {
		if strings.HasPrefix(line, "calls "+d.name+":") || strings.HasSuffix(line, ": "+string(d.unique())) || strings.Contains(line, ` "`+d.name+`" `) {
			return d.name
		}
	}
	return ""
}
