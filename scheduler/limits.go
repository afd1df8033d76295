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

// occupancy returns the state that a decision about a node's attach limits depends on.
type occupancy interface {
	csiNode(node string) *storagev1.CSINode                  // nil: none
	podsOn(node string, except types.UID) []*corev1.Pod      // assigned or assumed, and not completed
	attachmentsTo(node string) []*storagev1.VolumeAttachment // including those in progress
}

// state is everything that decisions depend on.
type state interface {
	objects
	occupancy
}

// driverVolume identifies a volume: by driver and handle, or by its claim before it is provisioned.
type driverVolume struct {
	driver, handle string
	claim          cache.ObjectName
}

// exceedsLimit reports whether a pod would bring more volumes of a driver to a node than its limit.
// A volume counts once, whether it is used by a pod, attached, or being attached or detached.
//
// Differs: upstream counts an attached volume of the pod twice if no pod on the node uses it.
// Upstream rejects a pod if another pod on the node refers to an ephemeral claim that it does not
// own; here that claim does not count.
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
	more := map[string]bool{} // drivers with a volume that no pod on the node uses
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

// limitsOf returns the volume limits of a node by driver. Drivers without a limit are omitted.
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

// addVolumes adds the known volumes of a pod's claims, and its inline volumes that are migrated to
// CSI drivers.
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

// volumeOfClaim returns the volume of a claim, bound or to be provisioned. It returns false if no
// CSI driver handles it.
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
	if csiDriver, ok := migrated[driver]; ok {
		driver = csiDriver
	}
	return driverVolume{driver: driver, claim: cache.MetaObjectToName(claim)}, true
}

func volumeNamed(volume *corev1.PersistentVolume) (driverVolume, bool) {
	return translated(&plugins.Spec{PersistentVolume: volume}, "")
}

// migrated are the plugins whose volumes are migrated to CSI drivers.
var migrated = plugins.Migrated()

// translated returns a volume as its CSI driver identifies it. It returns false if no CSI driver
// handles it.
//
// Differs: upstream checks the node's CSINode for migration; in 1.36 all plugins are migrated.
func translated(spec *plugins.Spec, namespace string) (driverVolume, bool) {
	spec, err := migrated.Translate(spec, namespace)
	if err != nil || spec.PersistentVolume == nil || spec.PersistentVolume.Spec.CSI == nil {
		return driverVolume{}, false
	}
	source := spec.PersistentVolume.Spec.CSI
	return driverVolume{driver: source.Driver, handle: source.VolumeHandle}, true
}

// volumeAttached returns the volume of an attachment, and false if it is unknown.
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

// HasLimits reports whether a node has a volume limit for any driver. A CSINode without limits,
// before and after a change, does not concern the scheduler.
func HasLimits(node *storagev1.CSINode) bool { return len(limitsOf(node)) > 0 }

// CountsAgainstLimit reports whether an attachment counts against a limit of its node, according to
// the given caches. Other attachments do not concern the scheduler.
func CountsAgainstLimit(own informers.SharedInformerFactory, attachment *storagev1.VolumeAttachment) bool {
	node, err := own.Storage().V1().CSINodes().Lister().Get(attachment.Spec.NodeName)
	if err != nil {
		return false
	}
	_, limited := limitsOf(node)[attachment.Spec.Attacher]
	return limited
}

// isLimitRaised reports whether a node has a higher limit for a driver than before. The removal of
// a limit counts.
//
// Upstream: plugins/nodevolumelimits isSchedulableAfterCSINodeUpdated (v1.36).
//
// Differs: upstream treats a missing limit as 0, and ignores the removal of a limit.
func isLimitRaised(old, node *storagev1.CSINode) bool {
	before, now := limitsOf(old), limitsOf(node)
	for driver, limit := range before {
		if n, limited := now[driver]; !limited || n > limit {
			return true
		}
	}
	return old == nil
}
