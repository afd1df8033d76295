package volumebinding

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/scheduler/internal/framework"
)

// Events implements framework.Plugin.
//
// Upstream: EventsToRegister (v1.36), with the feature gate SchedulerQueueingHints.
func (p *Plugin) Events() []framework.EventHint {
	return []framework.EventHint{
		{Resource: framework.StorageClass, Action: framework.Add | framework.Update, Hint: classChanged},
		{Resource: framework.PersistentVolumeClaim, Action: framework.Add | framework.Update, Hint: claimChanged},
		{Resource: framework.PersistentVolume, Action: framework.Add | framework.Update},
		{Resource: framework.Node, Action: framework.Add | framework.UpdateNodeLabel},
		{Resource: framework.CSINode, Action: framework.Add | framework.Update, Hint: csiNodeChanged},
		{Resource: framework.CSIDriver, Action: framework.Update, Hint: p.driverChanged},
		{Resource: framework.CSIStorageCapacity, Action: framework.Add | framework.Update, Hint: capacityChanged},
	}
}

// versions returns two versions of an object; the old one is nil for an object that was added. ok is false for
// objects of another type, which upstream's hints always take.
func versions[T any](old, new any) (before, after *T, ok bool) {
	if old != nil {
		if before, ok = old.(*T); !ok {
			return nil, nil, false
		}
	}
	after, ok = new.(*T)
	return before, after, ok
}

// classChanged reports whether a class was added, or its topologies have changed.
//
// Upstream: isSchedulableAfterStorageClassChange (v1.36).
func classChanged(_ *corev1.Pod, old, new any) bool {
	before, after, ok := versions[storagev1.StorageClass](old, new)
	return !ok || before == nil || !equality.Semantic.DeepEqual(before.AllowedTopologies, after.AllowedTopologies)
}

// claimChanged reports whether a claim is one of the pod's.
//
// Upstream: isSchedulableAfterPersistentVolumeClaimChange (v1.36).
func claimChanged(pod *corev1.Pod, old, new any) bool {
	_, claim, ok := versions[corev1.PersistentVolumeClaim](old, new)
	if !ok {
		return true
	}
	if pod.Namespace != claim.Namespace {
		return false
	}
	for i := range pod.Spec.Volumes {
		if podclaims.Name(pod, &pod.Spec.Volumes[i]) == claim.Name {
			return true
		}
	}
	return false
}

// csiNodeChanged reports whether a CSINode was added, or its migrated plugins have changed.
//
// Upstream: isSchedulableAfterCSINodeChange (v1.36).
func csiNodeChanged(_ *corev1.Pod, old, new any) bool {
	before, after, ok := versions[storagev1.CSINode](old, new)
	return !ok || before == nil ||
		before.Annotations[corev1.MigratedPluginsAnnotationKey] != after.Annotations[corev1.MigratedPluginsAnnotationKey]
}

// driverChanged reports whether a driver does not publish its capacity any more, and the pod uses it.
//
// Upstream: isSchedulableAfterCSIDriverChange (v1.36).
//
// Differs: upstream looks at volumes in the pod only, for which capacity does not matter; here also at the
// classes of the pod's claims.
func (p *Plugin) driverChanged(pod *corev1.Pod, old, new any) bool {
	before, after, ok := versions[storagev1.CSIDriver](old, new)
	if !ok || before == nil {
		return true
	}
	return publishes(before) && !publishes(after) && (slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.CSI != nil && v.CSI.Driver == after.Name
	}) || p.provisions(pod, after.Name))
}

// provisions reports whether a driver provisions volumes for one of the pod's claims.
func (p *Plugin) provisions(pod *corev1.Pod, driver string) bool {
	claims, err := p.claimsOf(pod)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(claims, func(claim *corev1.PersistentVolumeClaim) bool {
		class := p.class(storagehelpers.GetPersistentVolumeClaimClass(claim))
		return class != nil && class.Provisioner == driver
	})
}

// capacityChanged reports whether a capacity was added, or larger volumes can be provisioned.
//
// Upstream: isSchedulableAfterCSIStorageCapacityChange (v1.36).
func capacityChanged(_ *corev1.Pod, old, new any) bool {
	before, after, ok := versions[storagev1.CSIStorageCapacity](old, new)
	if !ok || before == nil {
		return true
	}
	was, is := volumeLimit(before), volumeLimit(after)
	return is != nil && (was == nil || is.Value() > was.Value())
}
