package pvcontroller

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/internal/podclaims"
)

// A change of one object can allow progress of another. The functions of this file queue the others
// at once.
//
// Differs: upstream queues a claim's volume when the claim is deleted, and a volume's claim when
// the volume is deleted. It leaves the rest to the resync, up to 15 s later.

// claimChanged queues the volumes that are reserved for a claim that is bound to another volume.
func (c *Controller) claimChanged(claim *corev1.PersistentVolumeClaim) {
	if claim.Spec.VolumeName == "" {
		return
	}
	for _, volume := range c.volumes.reservedFor(c.claims.key(claim)) {
		if volume.Name != claim.Spec.VolumeName {
			c.volumeQueue.Add(volume.Name)
		}
	}
}

// forgetClaim drops a deleted claim and queues the volumes reserved for it, which will be released.
func (c *Controller) forgetClaim(claim *corev1.PersistentVolumeClaim) {
	key := c.claims.key(claim)
	c.claims.delete(key)
	c.cleanUpClaim(claim.UID)
	c.markIdle(claim)
	c.clearSent(claim.UID)
	for _, volume := range c.volumes.reservedFor(key) {
		c.volumeQueue.Add(volume.Name)
	}
}

// forgetVolume drops a deleted volume and queues the claims that name it, which may be lost.
func (c *Controller) forgetVolume(volume *corev1.PersistentVolume) {
	c.volumes.delete(volume.Name)
	c.memory.write(partGone, volume.Name)
	c.memory.write(partOffered, volume.Name)
	if c.dataDeleted[volume.UID] || c.recyclerMessages[volume.UID] != nil {
		c.memory.writeRest()
	}
	delete(c.goneClaims, volume.Name)
	delete(c.dataDeleted, volume.UID)
	delete(c.recyclerMessages, volume.UID)
	delete(c.offeredVersions, volume.Name)
	c.clearSent(volume.UID)
	for _, key := range c.claims.namesVolume(volume.Name) {
		c.claimQueue.Add(key)
	}
}

// offer queues the claims that may progress because of a volume, once for each version of the
// volume.
func (c *Controller) offer(name string) {
	volume := c.volumes.get(name)
	c.memory.read(partOffered, name)
	if volume == nil || c.offeredVersions[name] == volume.ResourceVersion {
		return
	}
	c.memory.write(partOffered, name)
	c.offeredVersions[name] = volume.ResourceVersion
	for _, key := range c.claims.namesVolume(name) {
		if !isSettled(c.claims.get(key), volume) {
			c.claimQueue.Add(key)
		}
	}
	if ref := volume.Spec.ClaimRef; ref != nil {
		claim := c.claims.get(keyOfRef(ref))
		if claim != nil && claim.Spec.VolumeName == "" && storagehelpers.IsVolumeBoundToClaim(volume, claim) {
			c.claimQueue.Add(c.claims.key(claim))
		}
		return
	}
	c.offerFree(volume, nil)
}

// offerFree queues one claim that a free volume suits, and stores the volume as offered to it; see
// markIdle. after, if not nil, is the claim before it. One claim is enough. A claim outside the
// index will be matched with this volume anyway: its sync is pending, failed and will be retried,
// or wrote the claim, whose update requeues it.
func (c *Controller) offerFree(volume *corev1.PersistentVolume, after *corev1.PersistentVolumeClaim) {
	if !isFree(volume) {
		return
	}
	class := listed[*storagev1.StorageClass](c.classIndexer, storagehelpers.GetPersistentVolumeClass(volume))
	if isDelayed(class) {
		return // the scheduler assigns it
	}
	if claim := c.claims.nextIdle(volume, after); claim != nil {
		key := c.claims.key(claim)
		c.memory.write(partOffers, key)
		c.offers.add(key, volume.Name)
		c.claimQueue.Add(key)
	}
}

// markIdle ends a claim's sync. Volumes offered to the claim that are still free are offered to the
// next claim. A claim that is still unbound enters the index.
func (c *Controller) markIdle(claim *corev1.PersistentVolumeClaim) {
	key := c.claims.key(claim)
	c.memory.write(partOffers, key)
	names := c.offers.sorted(key)
	delete(c.offers, key)
	for _, name := range names {
		if volume := c.volumes.get(name); volume != nil {
			c.offerFree(volume, claim)
		}
	}
	if now := c.claims.get(key); now != nil && isUnbound(now) {
		c.claims.addIdle(now)
	}
}

// isSettled reports whether claim and volume are bound to each other and both statuses say so.
func isSettled(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) bool {
	return isBindCompleted(claim) && claim.Status.Phase == corev1.ClaimBound &&
		volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.UID == claim.UID &&
		volume.Status.Phase == corev1.VolumeBound
}

// classChanged queues the unbound claims of a class, and those without a class if it is the
// default.
func (c *Controller) classChanged(class *storagev1.StorageClass) {
	names := []string{class.Name}
	if isDefault(class) {
		names = append(names, "")
	}
	for _, name := range names {
		for _, key := range c.claims.unboundOf(name) {
			c.claimQueue.Add(key)
		}
	}
}

// podChanged queues the unbound claims of a pod: the scheduler may wait for them, or they for it.
// If a claim does not exist, it queues the claim's volumes, which may wait for the pod before they
// are recycled.
func (c *Controller) podChanged(pod *corev1.Pod) {
	for _, key := range podclaims.Keys(pod) {
		claim := c.claims.get(key)
		if claim != nil && isUnbound(claim) {
			c.claimQueue.Add(key)
		}
		if claim != nil {
			continue
		}
		for _, volume := range c.volumes.reservedFor(key) {
			if volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
				c.volumeQueue.Add(volume.Name)
			}
		}
	}
}

// fromTombstone returns the object passed to an informer's handler, unwrapped from a tombstone if
// necessary.
func fromTombstone[T any](obj any) T {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	return obj.(T)
}

func keyOfAny(obj any) string {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		panic("pvcontroller: informer without keys: " + err.Error())
	}
	return key
}

// sortedList returns all objects of a lister, sorted by key.
func sortedList[T object](list func(labels.Selector) ([]T, error)) []T {
	objects, err := list(labels.Everything())
	if err != nil {
		panic("pvcontroller: lister: " + err.Error())
	}
	slices.SortFunc(objects, func(a, b T) int { return compareKeys(a, b) })
	return objects
}

// compareKeys compares the keys of two objects of one kind.
func compareKeys[T object](a, b T) int {
	if a.GetNamespace() == b.GetNamespace() {
		return strings.Compare(a.GetName(), b.GetName())
	}
	return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
}
