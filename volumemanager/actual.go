package volumemanager

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// mountState says whether something is mounted.
//
// Upstream: pkg/volume/util/operationexecutor DeviceMountState, VolumeMountState.
type mountState int

const (
	notMounted mountState = iota
	mounted
	mountUncertain // it may be mounted, or an operation that will mount it is under way
)

// actualState is what is attached to this node and mounted on it, or may be.
//
// Upstream: pkg/kubelet/volumemanager/cache ActualStateOfWorld.
type actualState struct {
	volumes    map[corev1.UniqueVolumeName]*actualVolume
	podVolumes map[types.UID]int // how many mounts each pod has, or may have
}

// actualVolume is a volume that is attached to this node.
type actualVolume struct {
	name       corev1.UniqueVolumeName
	caps       plugins.Capabilities
	attachable bool
	devicePath string // as the attach/detach controller reported it
	device     mountState
	mountPath  string // where the device is mounted, or may be
	pods       map[types.UID]*actualMount
	turn       types.UID // the pod it was last being mounted for; one that fails must not keep the others waiting
}

// actualMount is a volume mounted for a pod.
type actualMount struct {
	specName string
	state    mountState // never notMounted
}

func newActualState() actualState {
	return actualState{volumes: map[corev1.UniqueVolumeName]*actualVolume{}, podVolumes: map[types.UID]int{}}
}

// add notes that a volume is attached.
func (a *actualState) add(v *desiredVolume, devicePath string) *actualVolume {
	volume := &actualVolume{
		name: v.name, caps: v.caps, attachable: v.attachable, devicePath: devicePath,
		pods: map[types.UID]*actualMount{},
	}
	a.volumes[v.name] = volume
	return volume
}

func (a *actualState) mounted(name corev1.UniqueVolumeName, pod types.UID) bool {
	v, ok := a.volumes[name]
	if !ok {
		return false
	}
	m, ok := v.pods[pod]
	return ok && m.state == mounted
}

// setMount notes the state of a pod's mount; notMounted removes it.
func (a *actualState) setMount(v *actualVolume, pod types.UID, specName string, state mountState) {
	m, known := v.pods[pod]
	switch {
	case state == notMounted && known:
		delete(v.pods, pod)
		if a.podVolumes[pod]--; a.podVolumes[pod] == 0 {
			delete(a.podVolumes, pod)
		}
	case state == notMounted:
	case known:
		m.state = state
	default:
		v.pods[pod] = &actualMount{specName: specName, state: state}
		a.podVolumes[pod]++
	}
}

func (v *actualVolume) mountState(pod types.UID) mountState {
	if m, ok := v.pods[pod]; ok {
		return m.state
	}
	return notMounted
}

// sortedPods are the pods that have the volume mounted, or may have.
func (v *actualVolume) sortedPods() []types.UID { return slices.Sorted(maps.Keys(v.pods)) }

// after is the state that a mount in a state is in when an operation on it has ended in err: an uncertain error leaves
// it uncertain, a transient one as it was, a final one means it is not mounted.
//
// Upstream: pkg/volume/util/operationexecutor markDeviceErrorState, markVolumeErrorState (v1.36).
func after(before mountState, err error) mountState {
	if err == nil || before == mounted {
		return mounted
	}
	switch plugins.ClassOf(err) {
	case plugins.Uncertain:
		return mountUncertain
	case plugins.Transient:
		return before
	default:
		return notMounted
	}
}
