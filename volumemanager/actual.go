package volumemanager

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// A mountState says whether something is mounted.
//
// Upstream: pkg/volume/util/operationexecutor DeviceMountState, VolumeMountState.
type mountState int

const (
	notMounted mountState = iota
	mounted
	mountUncertain // it may be mounted, or an operation that will mount it is running
)

// An actualState is what is attached to this node and mounted on it, or may be.
//
// Upstream: pkg/kubelet/volumemanager/cache ActualStateOfWorld.
type actualState struct {
	volumes    map[corev1.UniqueVolumeName]*actualVolume
	podVolumes map[types.UID][]*actualVolume // of each pod, including uncertain ones, in no order; never empty
}

// An actualVolume is a volume that is attached to this node.
type actualVolume struct {
	name       corev1.UniqueVolumeName
	caps       plugins.Capabilities
	spec       *plugins.Spec // as last mounted, or found on the disk
	attachable bool          // of a volume found on the disk: possibly
	block      bool          // it is used as a device
	devicePath string        // as reported by the attach/detach controller
	device     mountState
	mountPath  string // where the device is mounted, mapped, or may be
	label      string // SELinux label it is mounted with, if any

	nodeSize            nodeSize // its size here, and the result of expanding it
	attaching           bool     // an attach or detach by the kubelet was started and has not succeeded: it may be attached or not
	reconstructed       bool     // found on the disk, and not yet known to be attached
	deviceReconstructed bool     // found on the disk, and not mounted for the node since
	pods                map[types.UID]*actualMount
	lastPod             types.UID // the pod of the last mount attempt; a failing pod must not block the others
}

// An actualMount is a volume mounted for a pod.
type actualMount struct {
	specName  string
	outerName string     // name in the pod; "" if unknown
	state     mountState // never notMounted

	reconstructed bool // found on the disk, and not set up since
	remount       bool // it must be set up again
}

func newActualState() actualState {
	return actualState{
		volumes:    map[corev1.UniqueVolumeName]*actualVolume{},
		podVolumes: map[types.UID][]*actualVolume{},
	}
}

// add marks a volume as attached, also one that was found on the disk.
func (a *actualState) add(v *desiredVolume, devicePath string) *actualVolume {
	volume, ok := a.volumes[v.name]
	if !ok {
		volume = &actualVolume{name: v.name, caps: v.caps, block: v.block, pods: map[types.UID]*actualMount{}}
		a.volumes[v.name] = volume
	}
	volume.spec = v.anySpec()
	volume.attachable, volume.devicePath, volume.reconstructed = v.attachable, devicePath, false
	volume.nodeSize.observe(v)
	return volume
}

// anyReconstructed reports whether there is a volume that is not yet known to be attached.
func (a *actualState) anyReconstructed() bool {
	for _, v := range a.volumes {
		if v.reconstructed {
			return true
		}
	}
	return false
}

func (a *actualState) mounted(name corev1.UniqueVolumeName, pod types.UID) bool {
	v, ok := a.volumes[name]
	if !ok {
		return false
	}
	m, ok := v.pods[pod]
	return ok && m.state == mounted
}

// setMount sets the state of a pod's mount. notMounted removes it; mounted clears reconstructed.
func (a *actualState) setMount(v *actualVolume, want desiredMount, state mountState) {
	pod := want.pod.UID
	if state == notMounted {
		a.removeMount(v, pod)
		return
	}
	m, known := v.pods[pod]
	if !known {
		m = &actualMount{}
		v.pods[pod] = m
		a.podVolumes[pod] = append(a.podVolumes[pod], v)
	}
	m.specName, m.outerName, m.state = want.spec.Name(), want.outerName, state
	if state == mounted {
		m.reconstructed = false
	}
}

// removeMount records that a pod has nothing of a volume mounted.
func (a *actualState) removeMount(v *actualVolume, pod types.UID) {
	if _, known := v.pods[pod]; !known {
		return
	}
	delete(v.pods, pod)
	left := slices.DeleteFunc(a.podVolumes[pod], func(other *actualVolume) bool { return other == v })
	if a.podVolumes[pod] = left; len(left) == 0 {
		delete(a.podVolumes, pod)
	}
}

func (v *actualVolume) mountState(pod types.UID) mountState {
	if m, ok := v.pods[pod]; ok {
		return m.state
	}
	return notMounted
}

// stateAfter returns the state of a mount after an operation on it ended in err. An uncertain error
// makes it uncertain, a transient one leaves it as it was, and after a final one it is not mounted.
// A mount found on the disk may be in use, whatever the error.
//
// Upstream: pkg/volume/util/operationexecutor markDeviceErrorState, markVolumeErrorState (v1.36).
func stateAfter(before mountState, reconstructed bool, err error) mountState {
	if err == nil || before == mounted {
		return mounted
	}
	switch class := plugins.ClassOf(err); {
	case class == plugins.Uncertain:
		return mountUncertain
	case class == plugins.Transient, reconstructed:
		return before
	default:
		return notMounted
	}
}
