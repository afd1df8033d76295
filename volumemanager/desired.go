package volumemanager

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/plugins"
)

// A desiredState is what the pods of this node need.
//
// Upstream: pkg/kubelet/volumemanager/cache DesiredStateOfWorld.
type desiredState struct {
	pods    map[types.UID]*desiredPod
	volumes map[corev1.UniqueVolumeName]*desiredVolume

	claimants map[types.NamespacedName][]types.UID // the pods that have a volume of a claim; a pod may occur twice

	unpopulated int // number of pods that were not populated yet
}

// A desiredPod is a pod whose containers should run here.
type desiredPod struct {
	pod        *corev1.Pod
	wanted     sets.Set[string]                   // names, in the pod, of the volumes that containers use
	mounts     sets.Set[string]                   // the wanted ones that containers mount
	devices    sets.Set[string]                   // the wanted ones that containers use as devices
	volumes    map[string]corev1.UniqueVolumeName // the wanted ones that were resolved, by name in the pod
	stale      sets.Set[string]                   // the resolved ones that may have changed since
	errors     map[string]string                  // why volumes could not be processed, by name
	populated  bool                               // its volumes were resolved, or failed to be, at least once
	waitReport waitReport                         // what was reported of errors; see wait.go

	waitingSince time.Time // start of the wait for a volume of a driver with a limit; zero: none
}

// A desiredVolume is a volume that some pods of this node need.
type desiredVolume struct {
	name            corev1.UniqueVolumeName
	caps            plugins.Capabilities
	attachable      bool
	deviceMountable bool
	block           bool // it is used as a device
	labelled        selinuxLabels
	pods            map[types.UID]desiredMount
	size            resource.Quantity // desired size of its claims; zero: no expandable one is known
	claimSize       resource.Quantity // size in the claim's status
	claimSeen       int64             // resourceVersion of the claim that had claimSize
	reported        bool              // in node.status.volumesInUse, as the API server has it; the known Node is not older
}

// A desiredMount is a volume as one pod wants it.
type desiredMount struct {
	pod       *corev1.Pod
	spec      *plugins.Spec
	outerName string // in the pod
}

func newDesiredState() desiredState {
	return desiredState{
		pods: map[types.UID]*desiredPod{}, volumes: map[corev1.UniqueVolumeName]*desiredVolume{},
		claimants: map[types.NamespacedName][]types.UID{},
	}
}

// addPod adds or updates a pod. It reports whether the pod has volumes to be resolved.
func (d *desiredState) addPod(pod *corev1.Pod) bool {
	if p, ok := d.pods[pod.UID]; ok {
		return d.update(p, pod)
	}
	p := &desiredPod{
		pod: pod, mounts: sets.New[string](), devices: sets.New[string](), stale: sets.New[string](),
		volumes: map[string]corev1.UniqueVolumeName{}, errors: map[string]string{},
	}
	p.useVolumes()
	d.pods[pod.UID] = p
	d.eachClaim(pod, func(claim types.NamespacedName) {
		d.claimants[claim] = append(d.claimants[claim], pod.UID)
	})
	if len(p.wanted) > 0 {
		d.unpopulated++
		return true
	}
	p.populated = true
	return false
}

// eachClaim calls f for the claims behind a pod's volumes. They do not change during the pod's
// life.
func (d *desiredState) eachClaim(pod *corev1.Pod, f func(types.NamespacedName)) {
	for i := range pod.Spec.Volumes {
		if name := podclaims.Name(pod, &pod.Spec.Volumes[i]); name != "" {
			f(types.NamespacedName{Namespace: pod.Namespace, Name: name})
		}
	}
}

// update replaces the object of a pod. It reports whether the pod's containers use further volumes
// now.
func (d *desiredState) update(p *desiredPod, pod *corev1.Pod) (more bool) {
	p.pod = pod
	for _, name := range p.volumes {
		mount := d.volumes[name].pods[pod.UID]
		mount.pod = pod
		d.volumes[name].pods[pod.UID] = mount
	}
	before := len(p.wanted)
	p.useVolumes()
	return len(p.wanted) > before
}

// removePod removes a pod and returns its volumes, sorted.
func (d *desiredState) removePod(uid types.UID) []corev1.UniqueVolumeName {
	p, ok := d.pods[uid]
	if !ok {
		return nil
	}
	delete(d.pods, uid)
	d.eachClaim(p.pod, func(claim types.NamespacedName) {
		left := slices.DeleteFunc(d.claimants[claim], func(other types.UID) bool { return other == uid })
		if d.claimants[claim] = left; len(left) == 0 {
			delete(d.claimants, claim)
		}
	})
	d.markPopulated(p)
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

// addVolume adds a volume to a pod's needs, or updates it. It fails if the plugin cannot identify
// the volume.
//
// Upstream: pkg/kubelet/volumemanager/cache DesiredStateOfWorld.AddPodToVolume (v1.36).
func (d *desiredState) addVolume(p *desiredPod, outerName string, found resolved) (corev1.UniqueVolumeName, error) {
	spec, caps := found.spec, found.caps
	attachable, err := caps.Attachable(spec)
	if err != nil {
		return "", err
	}
	deviceMountable, err := caps.DeviceMountable(spec)
	if err != nil {
		return "", err
	}
	name, err := uniqueName(caps, spec, p.pod.UID, attachable || deviceMountable)
	if err != nil {
		return "", err
	}
	v, ok := d.volumes[name]
	if !ok {
		v = &desiredVolume{
			name: name, caps: caps, attachable: attachable, deviceMountable: deviceMountable, block: isBlock(spec),
			pods: map[types.UID]desiredMount{}, labelled: found.labelled,
		}
		d.volumes[name] = v
	} else if _, has := v.pods[p.pod.UID]; !has {
		if err := v.conflict(found.labelled, spec); err != nil {
			return "", err
		}
	}
	v.pods[p.pod.UID] = desiredMount{pod: p.pod, spec: spec, outerName: outerName}
	v.updateSizes(found)
	p.volumes[outerName] = name
	return name, nil
}

// updateSizes records the size of the volume and the size in its claim's status. A read-only pod
// expands nothing.
//
// Upstream: pkg/kubelet/volumemanager/populator checkVolumeFSResize (v1.36).
func (v *desiredVolume) updateSizes(found resolved) {
	if found.claim == nil || found.spec.Inline {
		return
	}
	if seen := revision(found.claim); seen >= v.claimSeen {
		v.claimSeen, v.claimSize = seen, found.claim.Status.Capacity[corev1.ResourceStorage]
	}
	if !found.spec.ReadOnly {
		v.size = found.spec.PersistentVolume.Spec.Capacity[corev1.ResourceStorage]
	}
}

// uniqueName returns the name of a volume: one per node if it is shared, otherwise one per pod.
//
// Upstream: pkg/volume/util GetUniqueVolumeNameFromSpec, GetUniqueVolumeNameFromSpecWithPod
// (v1.36).
func uniqueName(caps plugins.Capabilities, spec *plugins.Spec, pod types.UID,
	shared bool,
) (corev1.UniqueVolumeName, error) {
	if !shared {
		return plugins.UniquePodVolumeName(caps.Name(), spec.Name(), pod), nil
	}
	volumeName, err := caps.VolumeName(spec)
	if err != nil {
		return "", fmt.Errorf("failed to GetUniqueVolumeNameFromSpec for volumeSpec %q using volume plugin %q err=failed to "+
			"GetVolumeName from volumePlugin for volumeSpec %q err=%w", spec.Name(), caps.Name(), spec.Name(), err)
	}
	return plugins.UniqueVolumeName(caps.Name(), volumeName), nil
}

// isBlock reports whether pods use the volume as a device.
func isBlock(spec *plugins.Spec) bool {
	pv := spec.PersistentVolume
	return pv != nil && pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == corev1.PersistentVolumeBlock
}

// failed records why a volume of the pod could not be processed; nil clears it.
func (p *desiredPod) failed(outerName string, err error) {
	if err == nil {
		delete(p.errors, outerName)
		return
	}
	p.errors[outerName] = err.Error()
}

// unknown reports whether a volume of the pod is needed and not resolved yet.
func (p *desiredPod) unknown(outerName string) bool {
	return p.wanted.Has(outerName) && p.volumes[outerName] == ""
}

// useVolumes records the volumes that containers of the pod mount or use as devices, including init
// and ephemeral containers.
//
// Upstream: pkg/volume/util GetPodVolumeNames (v1.36).
func (p *desiredPod) useVolumes() {
	use := func(mounts []corev1.VolumeMount, devices []corev1.VolumeDevice) {
		for i := range mounts {
			p.mounts.Insert(mounts[i].Name)
		}
		for i := range devices {
			p.devices.Insert(devices[i].Name)
		}
	}
	for i := range p.pod.Spec.InitContainers {
		use(p.pod.Spec.InitContainers[i].VolumeMounts, p.pod.Spec.InitContainers[i].VolumeDevices)
	}
	for i := range p.pod.Spec.Containers {
		use(p.pod.Spec.Containers[i].VolumeMounts, p.pod.Spec.Containers[i].VolumeDevices)
	}
	for i := range p.pod.Spec.EphemeralContainers {
		use(p.pod.Spec.EphemeralContainers[i].VolumeMounts, p.pod.Spec.EphemeralContainers[i].VolumeDevices)
	}
	p.wanted = p.mounts.Union(p.devices)
}
