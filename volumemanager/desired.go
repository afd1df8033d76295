package volumemanager

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volsim/volsim/plugins"
)

// desiredState is what the pods of this node need.
//
// Upstream: pkg/kubelet/volumemanager/cache DesiredStateOfWorld.
type desiredState struct {
	pods    map[types.UID]*desiredPod
	volumes map[corev1.UniqueVolumeName]*desiredVolume

	unlooked int // pods of which nobody has tried yet to find out what they need
}

// desiredPod is a pod whose containers are to run here.
type desiredPod struct {
	pod     *corev1.Pod
	wanted  sets.Set[string]                   // the volumes, by their name in the pod, that containers use
	volumes map[string]corev1.UniqueVolumeName // those of them that were found, by their name in the pod
	errors  map[string]string                  // why others could not be processed
	looked  bool                               // somebody has tried to find out what they are
	telling telling                            // what was told of errors; see wait.go

	waitsSince time.Time // since when for a volume that may not find a place; it is looked at when that is long. Zero: for none
}

// desiredVolume is a volume some pods of this node need.
type desiredVolume struct {
	name            corev1.UniqueVolumeName
	caps            plugins.Capabilities
	attachable      bool
	deviceMountable bool
	block           bool // it is used as a device
	pods            map[types.UID]desiredMount
	reported        bool // in node.status.volumesInUse, as the API server has it; the Node known is not older
}

// desiredMount is a volume as one pod wants it.
type desiredMount struct {
	pod       *corev1.Pod
	spec      *plugins.Spec
	outerName string // in the pod
}

func newDesiredState() desiredState {
	return desiredState{pods: map[types.UID]*desiredPod{}, volumes: map[corev1.UniqueVolumeName]*desiredVolume{}}
}

// addPod returns whether there is something to find out about the pod.
func (d *desiredState) addPod(pod *corev1.Pod) bool {
	if p, ok := d.pods[pod.UID]; ok {
		p.pod = pod
		return false
	}
	p := &desiredPod{
		pod: pod, wanted: usedVolumes(pod),
		volumes: map[string]corev1.UniqueVolumeName{}, errors: map[string]string{},
	}
	d.pods[pod.UID] = p
	if len(p.wanted) > 0 {
		d.unlooked++
		return true
	}
	p.looked = true
	return false
}

// removePod returns the volumes the pod had, sorted.
func (d *desiredState) removePod(uid types.UID) []corev1.UniqueVolumeName {
	p, ok := d.pods[uid]
	if !ok {
		return nil
	}
	delete(d.pods, uid)
	d.looked(p)
	names := slices.Compact(slices.Sorted(maps.Values(p.volumes))) // two volumes of a pod may be the same
	for _, name := range names {
		v := d.volumes[name]
		delete(v.pods, uid)
		if len(v.pods) == 0 {
			delete(d.volumes, name)
		}
	}
	return names
}

// addVolume adds a volume to what the pod needs. The error says that the plugin cannot tell what the volume is.
func (d *desiredState) addVolume(p *desiredPod, outerName string, spec *plugins.Spec, caps plugins.Capabilities) (corev1.UniqueVolumeName, error) {
	attachable, err := caps.Attachable(spec)
	if err != nil {
		return "", err
	}
	deviceMountable, err := caps.DeviceMountable(spec)
	if err != nil {
		return "", err
	}
	name := plugins.UniquePodVolumeName(caps.Name(), spec.Name(), p.pod.UID)
	if attachable || deviceMountable {
		volumeName, err := caps.VolumeName(spec)
		if err != nil {
			return "", fmt.Errorf("failed to GetVolumeName from volumePlugin for volumeSpec %q: %w", spec.Name(), err)
		}
		name = plugins.UniqueVolumeName(caps.Name(), volumeName)
	}
	v, ok := d.volumes[name]
	if !ok {
		v = &desiredVolume{
			name: name, caps: caps, attachable: attachable, deviceMountable: deviceMountable, block: isBlock(spec),
			pods: map[types.UID]desiredMount{},
		}
		d.volumes[name] = v
	}
	v.pods[p.pod.UID] = desiredMount{pod: p.pod, spec: spec, outerName: outerName}
	p.volumes[outerName] = name
	return name, nil
}

// isBlock tells whether the volume is one that pods use as a device.
func isBlock(spec *plugins.Spec) bool {
	pv := spec.PersistentVolume
	return pv != nil && pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == corev1.PersistentVolumeBlock
}

// failed remembers why a volume of the pod could not be processed, or that it now was.
func (p *desiredPod) failed(outerName string, err error) {
	if err == nil {
		delete(p.errors, outerName)
		return
	}
	p.errors[outerName] = err.Error()
}

// usedVolumes are the volumes that containers of the pod mount, or use as devices.
//
// Upstream: pkg/volume/util GetPodVolumeNames (v1.36).
func usedVolumes(pod *corev1.Pod) sets.Set[string] {
	used := sets.New[string]()
	add := func(containers []corev1.Container) {
		for i := range containers {
			for _, m := range containers[i].VolumeMounts {
				used.Insert(m.Name)
			}
			for _, d := range containers[i].VolumeDevices {
				used.Insert(d.Name)
			}
		}
	}
	add(pod.Spec.InitContainers)
	add(pod.Spec.Containers)
	for i := range pod.Spec.EphemeralContainers {
		add([]corev1.Container{corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)})
	}
	return used
}
