package scheduler

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/plugins"
)

// occupancy is what a decision about a node's attach limits is made from.
type occupancy interface {
	csiNode(node string) *storagev1.CSINode                  // nil: there is none
	podsOn(node string, except types.UID) []*corev1.Pod      // that are there, or about to be, and have not ended
	attachmentsTo(node string) []*storagev1.VolumeAttachment // also those that are on their way, in or out
}

// state are all that decisions are made from.
type state interface {
	objects
	occupancy
}

// driverVolume names a volume among all: by its driver and handle, or as long as it is not made, by its claim.
type driverVolume struct {
	driver, handle string
	claim          cache.ObjectName
}

// exceedsLimit tells whether a pod would bring a node more volumes of a driver than it can have. A volume counts once,
// whether a pod on the node uses it or it only is, or is being, attached or detached there.
//
// Differs: upstream counts a volume of the pod that is attached, but that no pod on the node uses any more, twice. It refuses
// a pod where another one on the node names an ephemeral claim that is not its own; here that claim does not count.
//
// Upstream: plugins/nodevolumelimits CSILimits.Filter (v1.36).
func exceedsLimit(pod *corev1.Pod, node *corev1.Node, from state) bool {
	limits := limitsOf(from.csiNode(node.Name))
	if len(limits) == 0 {
		return false
	}
	wanted := map[driverVolume]bool{}
	addVolumes(wanted, pod, from)
	all := map[driverVolume]bool{}
	for _, other := range from.podsOn(node.Name, pod.UID) {
		addVolumes(all, other, from)
	}
	more := map[string]bool{} // the drivers of which it brings a volume that no pod there uses
	for v := range wanted {
		if !all[v] {
			more[v.driver] = true
		}
	}
	maps.Copy(all, wanted)
	for _, attachment := range from.attachmentsTo(node.Name) {
		if v, ok := volumeAttached(attachment, from); ok {
			all[v] = true
		}
	}
	count := map[string]int{}
	for v := range all {
		count[v.driver]++
	}
	for driver, limit := range limits {
		if more[driver] && count[driver] > limit {
			return true
		}
	}
	return false
}

// limitsOf are how many volumes of each driver a node can have, as far as that is limited.
//
// Upstream: plugins/nodevolumelimits getVolumeLimits (v1.36).
func limitsOf(node *storagev1.CSINode) map[string]int {
	if node == nil {
		return nil
	}
	limits := map[string]int{}
	for _, d := range node.Spec.Drivers {
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			limits[d.Name] = int(*d.Allocatable.Count)
		}
	}
	return limits
}

// addVolumes adds the volumes behind a pod's claims, as far as they are known, and those written out in it that a driver of CSI
// handles by now.
//
// Upstream: plugins/nodevolumelimits filterAttachableVolumes (v1.36).
func addVolumes(to map[driverVolume]bool, pod *corev1.Pod, from objects) {
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		name := podclaims.Name(pod, volume)
		if name == "" {
			if v, ok := translated(&plugins.Spec{Volume: volume}, pod.Namespace); ok {
				to[v] = true
			}
			continue
		}
		claim := from.claim(pod.Namespace, name)
		if claim == nil || volume.Ephemeral != nil && ephemeral.VolumeIsForPod(pod, claim) != nil {
			continue
		}
		if v, ok := volumeOfClaim(claim, from); ok {
			to[v] = true
		}
	}
}

// volumeOfClaim is the volume to which a claim is bound, or that will be made for it; false where no driver of CSI has to do
// with it.
//
// Upstream: plugins/nodevolumelimits getCSIDriverInfo, getCSIDriverInfoFromSC (v1.36).
func volumeOfClaim(claim *corev1.PersistentVolumeClaim, from objects) (driverVolume, bool) {
	if volume := from.volume(claim.Spec.VolumeName); claim.Spec.VolumeName != "" && volume != nil {
		return volumeNamed(volume)
	}
	class := from.class(storagehelpers.GetPersistentVolumeClaimClass(claim))
	if class == nil {
		return driverVolume{}, false
	}
	driver := class.Provisioner
	if by, is := migrated[driver]; is {
		driver = by
	}
	return driverVolume{driver: driver, claim: cache.MetaObjectToName(claim)}, true
}

func volumeNamed(volume *corev1.PersistentVolume) (driverVolume, bool) {
	return translated(&plugins.Spec{PersistentVolume: volume}, "")
}

// migrated are the plugins whose volumes drivers of CSI handle by now.
var migrated = plugins.Migrated()

// translated is a volume as its driver has it; false where it has none.
//
// Differs: upstream asks the node's CSINode whether the plugin is migrated; in 1.36 all are.
func translated(spec *plugins.Spec, namespace string) (driverVolume, bool) {
	spec, err := migrated.Translate(spec, namespace)
	if err != nil || spec.PersistentVolume == nil || spec.PersistentVolume.Spec.CSI == nil {
		return driverVolume{}, false
	}
	source := spec.PersistentVolume.Spec.CSI
	return driverVolume{driver: source.Driver, handle: source.VolumeHandle}, true
}

// volumeAttached is the volume of an attachment; false where it is not known.
//
// Upstream: plugins/nodevolumelimits getNodeVolumeAttachmentInfo (v1.36).
func volumeAttached(attachment *storagev1.VolumeAttachment, from objects) (driverVolume, bool) {
	name := attachment.Spec.Source.PersistentVolumeName
	if name == nil {
		return driverVolume{}, false
	}
	volume := from.volume(*name)
	if volume == nil {
		return driverVolume{}, false
	}
	return volumeNamed(volume)
}

// HasLimits tells whether a node can have only so many volumes of some driver. A scheduler has nothing to do about a CSINode that
// does not limit anything and did not before.
func HasLimits(node *storagev1.CSINode) bool { return len(limitsOf(node)) > 0 }

// CountsAgainstLimit tells whether an attachment takes a place of which its node has only so many, as far as own caches show. A scheduler
// has nothing to do about others.
func CountsAgainstLimit(own informers.SharedInformerFactory, attachment *storagev1.VolumeAttachment) bool {
	node, err := own.Storage().V1().CSINodes().Lister().Get(attachment.Spec.NodeName)
	if err != nil {
		return false
	}
	_, limited := limitsOf(node)[attachment.Spec.Attacher]
	return limited
}

// isLimitRaised tells whether a node can have more volumes of a driver than before. One that is no more limited can.
//
// Upstream: plugins/nodevolumelimits isSchedulableAfterCSINodeUpdated (v1.36).
//
// Differs: upstream takes no limit for a limit of 0, and misses that one goes away.
func isLimitRaised(was, is *storagev1.CSINode) bool {
	before, now := limitsOf(was), limitsOf(is)
	for driver, limit := range before {
		if n, limited := now[driver]; !limited || n > limit {
			return true
		}
	}
	return was == nil
}
