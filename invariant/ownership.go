package invariant

import (
	"io/fs"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about the owners of files.
var ownershipRules = []builtIn{
	{"I39", "a file whose group changed although no pod allows it", nodeRule(beginOwnership)},
}

// An ownerLister is a Devices that also returns the owners of the files in volumes.
type ownerLister interface {
	// Owners returns owner and mode of everything in a volume, by path; that of its root is ".".
	Owners(handle string) map[string]nodefs.Info
}

// ownership is the state of I39. A file that changes its group must get the fsGroup of a pod that
// has the volume mounted read-write, with a driver whose CSIDriver allows it. If the pod's policy
// is OnRootMismatch, the volume's root must not have been right before. It checks when a volume is
// unmounted or detached, and at rest: a kubelet changes owners between two calls.
type ownership struct {
	*Checker
	in      ownerLister
	groups  map[string]map[string]int          // by handle and path, as last seen
	allowed map[string]map[types.UID]int64     // by handle: the pods that allow a change, and their group
	pods    map[types.UID]types.NamespacedName // pods with an fsGroup
	names   map[string]string                  // by handle: of the PersistentVolume it was published as
}

func beginOwnership(c *Checker) watcher {
	in, ok := c.Devices.(ownerLister)
	if !ok {
		return watcher{}
	}
	o := &ownership{
		c, in,
		map[string]map[string]int{},
		map[string]map[types.UID]int64{},
		map[types.UID]types.NamespacedName{},
		map[string]string{},
	}
	for _, pod := range c.API.List("pods") {
		o.notePod(pod.(*corev1.Pod))
	}
	return watcher{
		commits: []string{"pods"},
		commit: func(e fake.Commit) {
			if e.Type == watch.Added {
				o.notePod(e.After.(*corev1.Pod))
			}
		},
		call: o.call,
		settled: func(func(format string, a ...any)) {
			for _, handle := range slices.Sorted(maps.Keys(o.groups)) {
				o.check(handle)
			}
		},
	}
}

func (o *ownership) notePod(pod *corev1.Pod) {
	if s := pod.Spec.SecurityContext; s != nil && s.FSGroup != nil {
		o.pods[pod.UID] = types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	}
}

func (o *ownership) call(r trace.Record) {
	call := deviceCallOf(r)
	switch r.Verb {
	case "NodePublishVolume":
		if tookEffect(r) {
			o.check(call.handle)
			o.allow(call)
		}
	case "NodeUnpublishVolume":
		o.check(call.handle)
		if at, ok := podMountAt(call.path); ok && tookEffect(r) {
			delete(o.allowed[call.handle], types.UID(at.uid))
		}
	case "ControllerUnpublishVolume":
		o.check(call.handle)
	}
}

// allow records that a pod allows a change of the volume's files, if it does.
func (o *ownership) allow(call deviceCall) {
	at, ok := podMountAt(call.path)
	if !ok {
		return
	}
	o.names[call.handle] = at.volume
	key, ok := o.pods[types.UID(at.uid)]
	if !ok {
		return
	}
	obj, _ := o.API.Get("pods", key.Namespace, key.Name)
	pod, _ := obj.(*corev1.Pod)
	v := csiVolumeNamed(o.API, at.volume)
	if pod == nil || v == nil || string(pod.UID) != at.uid || !o.mayChangeOwner(pod, v) {
		return
	}
	group := *pod.Spec.SecurityContext.FSGroup
	if policy := pod.Spec.SecurityContext.FSGroupChangePolicy; policy != nil &&
		*policy == corev1.FSGroupChangeOnRootMismatch &&
		hasGroupRoot(o.in.Owners(call.handle)["."], group) {
		return
	}
	if o.allowed[call.handle] == nil {
		o.allowed[call.handle] = map[types.UID]int64{}
	}
	o.allowed[call.handle][pod.UID] = group
}

// mayChangeOwner reports whether a kubelet may change the owners of a volume's files for a pod with
// an fsGroup.
//
// Upstream: pkg/volume/csi csiMountMgr.supportsFSGroup (v1.36).
func (o *ownership) mayChangeOwner(pod *corev1.Pod, v *corev1.PersistentVolume) bool {
	isDevice := v.Spec.VolumeMode != nil && *v.Spec.VolumeMode == corev1.PersistentVolumeBlock
	if isDevice || v.Spec.CSI.ReadOnly || o.readsOnly(pod, v.Name) {
		return false
	}
	policy := storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	if obj, found := o.API.Get("csidrivers", "", v.Spec.CSI.Driver); found {
		if p := obj.(*storagev1.CSIDriver).Spec.FSGroupPolicy; p != nil {
			policy = *p
		}
	}
	switch policy {
	case storagev1.FileFSGroupPolicy:
		return true
	case storagev1.NoneFSGroupPolicy:
		return false
	default:
		return v.Spec.CSI.FSType != "" &&
			slices.ContainsFunc(v.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
				return m == corev1.ReadWriteOnce || m == corev1.ReadWriteOncePod
			})
	}
}

// readsOnly reports whether a pod uses a volume read-only.
func (o *ownership) readsOnly(pod *corev1.Pod, volume string) bool {
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil || !source.ReadOnly {
			continue
		}
		obj, found := o.API.Get("persistentvolumeclaims", pod.Namespace, source.ClaimName)
		if found && obj.(*corev1.PersistentVolumeClaim).Spec.VolumeName == volume {
			return true
		}
	}
	return false
}

// hasGroupRoot reports whether a volume's root belongs to the group, is writable by it, and passes
// it on to new files.
func hasGroupRoot(root nodefs.Info, group int64) bool {
	return int64(root.GID) == group && root.Mode.Perm()&0o070 == 0o070 && root.Mode&fs.ModeSetgid != 0
}

// check compares the groups of the files in a volume with the known ones.
func (o *ownership) check(handle string) {
	now := o.in.Owners(handle)
	was := o.groups[handle]
	groups := make(map[string]int, len(now))
	for _, path := range slices.Sorted(maps.Keys(now)) {
		group := now[path].GID
		groups[path] = group
		before, known := was[path]
		if known && before != group && !slices.Contains(slices.Collect(maps.Values(o.allowed[handle])), int64(group)) {
			o.report("I39",
				"%s of volume %s (%s), which belonged to group %d, now belongs to group %d, and no pod allows that",
				path, handle, o.names[handle], before, group)
		}
	}
	o.groups[handle] = groups
}
