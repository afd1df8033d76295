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

// desiredState is what the pods of this node need.
//
// Upstream: pkg/kubelet/volumemanager/cache DesiredStateOfWorld.
type desiredState struct {
	pods    map[types.UID]*desiredPod
	volumes map[corev1.UniqueVolumeName]*desiredVolume

	claimants map[types.NamespacedName][]types.UID // the pods that have a volume of a claim; one may be there twice

	unpopulated int // pods of which nobody has tried yet to find out what they need
}

// desiredPod is a pod whose containers are to run here.
type desiredPod struct {
	pod        *corev1.Pod
	wanted     sets.Set[string]                   // the volumes, by their name in the pod, that containers use
	mounts     sets.Set[string]                   // those of them that containers mount
	devices    sets.Set[string]                   // those of them that containers use as devices
	volumes    map[string]corev1.UniqueVolumeName // those of them that were found, by their name in the pod
	stale      sets.Set[string]                   // those of them that may have changed since
	errors     map[string]string                  // why some could not be processed
	populated  bool                               // somebody has tried to find out what they are
	waitReport waitReport                         // what was told of errors; see wait.go

	waitingSince time.Time // since when for a volume that may not find a place; it is looked at when that is long. Zero: for none
}

// desiredVolume is a volume some pods of this node need.
type desiredVolume struct {
	name            corev1.UniqueVolumeName
	caps            plugins.Capabilities
	attachable      bool
	deviceMountable bool
	block           bool // it is used as a device
	labelled        selinuxLabels
	pods            map[types.UID]desiredMount
	size            resource.Quantity // that its claims are to have; zero: none that may grow is known
	claimSize       resource.Quantity // that the claim said it has
	claimSeen       int64             // the claim's resourceVersion when it said so
	reported        bool              // in node.status.volumesInUse, as the API server has it; the Node known is not older
}

// desiredMount is a volume as one pod wants it.
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

// addPod returns whether there is something to find out about the pod.
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

// eachClaim calls f for the claims behind a pod's volumes, which stay the same as long as the pod lives.
func (d *desiredState) eachClaim(pod *corev1.Pod, f func(types.NamespacedName)) {
	for i := range pod.Spec.Volumes {
		if name := podclaims.Name(pod, &pod.Spec.Volumes[i]); name != "" {
			f(types.NamespacedName{Namespace: pod.Namespace, Name: name})
		}
	}
}

// update takes in the newer object of a pod, whose containers may use further volumes now.
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

// removePod returns the volumes the pod had, sorted.
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

// addVolume adds a volume to what the pod needs, or notes what is new about one that it needs already. The error says that
// the plugin cannot tell what the volume is.
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

// updateSizes notes how large the volume is, and how large its claim says it is. A pod that only reads grows nothing.
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

// uniqueName names a volume: one that is shared has a name for all pods of the node, another one has one for each.
//
// Upstream: pkg/volume/util GetUniqueVolumeNameFromSpec, GetUniqueVolumeNameFromSpecWithPod (v1.36).
func uniqueName(caps plugins.Capabilities, spec *plugins.Spec, pod types.UID, shared bool) (corev1.UniqueVolumeName, error) {
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

// unknown tells whether a volume of the pod is needed, and was not found yet.
func (p *desiredPod) unknown(outerName string) bool {
	return p.wanted.Has(outerName) && p.volumes[outerName] == ""
}

// useVolumes notes the volumes that containers of the pod mount, or use as devices: those that run first or are added for
// looking into the pod, too.
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
