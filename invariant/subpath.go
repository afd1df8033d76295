package invariant

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about subPaths.
var subPathRules = []builtIn{
	{"I40", "a subPath bound without its volume, or a container started without its subPath", nodeRule(beginSubPaths)},
}

// A subPathMount is what the path of a container's subPath contains. index is that of the
// volumeMount.
type subPathMount struct {
	podMount
	container string
	index     string
}

// subPathMountAt parses a path; ok is false if it is not
// "…/pods/<uid>/volume-subpaths/<volume>/<container>/<index>".
func subPathMountAt(path string) (subPathMount, bool) {
	_, rest, found := strings.Cut(path, "/pods/")
	words := strings.Split(rest, "/")
	if !found || len(words) != 5 || words[1] != "volume-subpaths" {
		return subPathMount{}, false
	}
	return subPathMount{podMount{uid: words[0], volume: words[2]}, words[3], words[4]}, true
}

// podPathAt parses the path of a pod's volume, or of a container's subPath of it.
func podPathAt(path string) (podMount, bool) {
	if p, ok := subPathMountAt(path); ok {
		return p.podMount, true
	}
	at, ok := podVolumeAt(path)
	return at.podMount, ok
}

// unmountsVolume reports whether a driver call unmounts a volume from a pod, or removes it.
func unmountsVolume(r trace.Record) bool {
	return r.Verb == "NodeUnpublishVolume" || r.Verb == "TearDown"
}

// beginSubPaths checks that a subPath is bound only while its volume is mounted for the pod, and is
// of that volume. A pod that becomes Running must have all subPaths of its containers.
func beginSubPaths(c *Checker) watcher {
	if c.Devices == nil {
		return watcher{}
	}
	return watcher{
		commits: []string{"pods"},
		commit: func(e fake.Commit) {
			was, _ := e.Before.(*corev1.Pod)
			if is := e.After.(*corev1.Pod); e.Type == watch.Modified && was.Status.Phase == corev1.PodPending &&
				is.Status.Phase == corev1.PodRunning {
				c.checkSubPathsPresent(is, func(format string, a ...any) { c.report("I40", format, a...) })
			}
		},
		call: func(r trace.Record) {
			switch call := deviceCallOf(r); {
			case !tookEffect(r):
			case r.Verb == "BindSubPath":
				c.checkSubPathBound(call.node, call.path)
			case unmountsVolume(r):
				c.checkSubPathsUnbound(call.node, call.path)
			}
		},
	}
}

// checkSubPathBound checks what was bound at a path on a node.
func (c *Checker) checkSubPathBound(node, path string) {
	p, ok := subPathMountAt(path)
	if !ok {
		c.report("I40", "subPath of a volume is bound on node %s at %s, which is not the path of a container's",
			node, path)
		return
	}
	mounts := c.Devices.Mounts(node)
	source := ""
	for _, m := range mounts {
		if at, ok := podVolumeAt(m.Path); ok && at.podMount == p.podMount {
			source = m.Source
		}
	}
	if source == "" && c.hasDirectory(node, p.podMount) {
		return
	}
	if source == "" {
		c.report("I40", "subPath of volume %s is bound on node %s at %s, and the volume is not mounted for that pod",
			p.volume, node, path)
		return
	}
	for _, m := range mountsAt(mounts, path) {
		if m.Source != source {
			c.report("I40", "subPath of volume %s (%s) is bound on node %s at %s, where %s is mounted",
				p.volume, source, node, path, m.Source)
		}
	}
}

// checkSubPathsUnbound reports bound subPaths of a volume that was unmounted from a pod's path.
func (c *Checker) checkSubPathsUnbound(node, path string) {
	at, ok := podVolumeAt(path)
	if !ok {
		return
	}
	mounts := c.Devices.Mounts(node)
	if len(mountsAt(mounts, path)) > 0 {
		return
	}
	for _, m := range mounts {
		if p, ok := subPathMountAt(m.Path); ok && p.podMount == at.podMount {
			c.report("I40", "volume %s is unmounted from the path of a pod on node %s, and a subPath of it is still bound at %s", at.volume, node, m.Path)
		}
	}
}

// checkSubPathsPresent reports the missing subPaths of a pod's containers.
func (c *Checker) checkSubPathsPresent(pod *corev1.Pod, report func(format string, a ...any)) {
	bound := map[subPathMount]bool{}
	for _, m := range c.Devices.Mounts(pod.Spec.NodeName) {
		if p, ok := subPathMountAt(m.Path); ok && types.UID(p.uid) == pod.UID {
			bound[subPathMount{container: p.container, index: p.index}] = true
		}
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for j, m := range containers[i].VolumeMounts {
				if m.SubPath+m.SubPathExpr == "" ||
					bound[subPathMount{container: containers[i].Name, index: strconv.Itoa(j)}] {
					continue
				}
				report("pod %s/%s runs on node %s, and container %s has no subPath of %s at its path %s",
					pod.Namespace, pod.Name, pod.Spec.NodeName, containers[i].Name, m.Name, m.MountPath)
			}
		}
	}
}
