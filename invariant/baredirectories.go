package invariant

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// A bareDirectories is the state of I70.
type bareDirectories struct {
	*Checker
	volumes map[[2]string][]containerVolume // by the pod's UID and the container
}

// A containerVolume is the volume of a CSI driver that a container mounts.
type containerVolume struct{ inContainer, volume string }

// beginBareDirectories checks, when a container uses a path of a volume of a CSI driver, that the volume is
// mounted in the pod's directory.
func beginBareDirectories(c *Checker) watcher {
	if _, reads := c.Devices.(diskReader); !reads {
		return watcher{}
	}
	d := &bareDirectories{c, reuse.Map[[2]string, []containerVolume](c.Reuse)}
	return watcher{work: func(r trace.Record) {
		a, ok := containerAccessOf(r)
		if !ok {
			return
		}
		_, root := c.diskOf(a.node)
		for _, v := range d.of(a) {
			if a.path != v.inContainer && !strings.HasPrefix(a.path, v.inContainer+"/") {
				continue
			}
			dir := path.Join(ownPath(root, types.UID(a.pod), "kubernetes.io/csi", v.volume), "mount")
			if len(mountsAt(c.Devices.Mounts(a.node), dir)) == 0 {
				c.report("I70", "container %s of pod %s accesses (%s) %s on node %s, where volume %s is not mounted",
					a.container, d.nameOf(a.pod), a.verb, a.path, a.node, v.volume)
			}
		}
	}}
}

// of returns the volumes that a container mounts. They stay the same when its pod is deleted.
func (d *bareDirectories) of(a containerAccess) []containerVolume {
	key := [2]string{a.pod, a.container}
	known, seen := d.volumes[key]
	pod := d.podOfUID(a.pod)
	if seen || pod == nil {
		return known
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name != a.container {
			continue
		}
		for _, m := range c.VolumeMounts {
			if v := d.csiVolumeOfPod(pod, m.Name); v != "" {
				known = append(known, containerVolume{path.Clean(m.MountPath), v})
			}
		}
	}
	d.volumes[key] = known
	return known
}

// csiVolumeOfPod returns the name of the PersistentVolume of a driver that is a volume of a pod; "" for another one.
func (d *bareDirectories) csiVolumeOfPod(pod *corev1.Pod, volume string) string {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Name != volume || podclaims.Name(pod, v) == "" {
			continue
		}
		obj, exists := d.API.Get("persistentvolumeclaims", pod.Namespace, podclaims.Name(pod, v))
		if !exists {
			return ""
		}
		if pv := csiVolumeNamed(d.API, obj.(*corev1.PersistentVolumeClaim).Spec.VolumeName); pv != nil {
			return pv.Name
		}
	}
	return ""
}

// podOfUID returns a pod; nil if it does not exist.
func (d *bareDirectories) podOfUID(uid string) *corev1.Pod {
	for _, obj := range d.API.List("pods") {
		if string(obj.GetUID()) == uid {
			return obj.(*corev1.Pod)
		}
	}
	return nil
}

// nameOf returns the key of a pod, or its UID if it does not exist.
func (d *bareDirectories) nameOf(uid string) string {
	if pod := d.podOfUID(uid); pod != nil {
		return pod.Namespace + "/" + pod.Name
	}
	return uid
}
