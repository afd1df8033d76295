package workload

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/resourceversion"
)

// A Cache has a resource, and knows the version of its last change.
type Cache struct {
	Resource string // "pods", "statefulsets.apps"
	Versions interface{ LastSyncResourceVersion() string }
}

// Written has the versions of a controller's last writes for each owner. A sync that decided from
// caches without them would repeat what it has done.
//
// Upstream: pkg/controller/util/consistency ConsistencyStore (v1.36, KEP-5647).
type Written struct {
	caches   []Cache
	versions map[types.NamespacedName]*writes
}

// writes has the versions of the last writes for one owner; "" is none.
type writes struct {
	uid  types.UID
	last []string
}

// NewWritten returns a store without writes. The controller's sync waits for these caches.
func NewWritten(caches ...Cache) *Written {
	return &Written{caches: caches, versions: map[types.NamespacedName]*writes{}}
}

// Key returns the key of an object.
func Key(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Add records that a write for an owner returned an object, which belongs to the cache of this index.
func (w *Written) Add(owner metav1.Object, cache int, obj metav1.Object) {
	key := Key(owner)
	known := w.versions[key]
	if known == nil || known.uid != owner.GetUID() {
		known = &writes{uid: owner.GetUID(), last: make([]string, len(w.caches))}
		w.versions[key] = known
	}
	version := obj.GetResourceVersion()
	if newer, err := resourceversion.Compare(version, known.last[cache]); err != nil || newer > 0 {
		known.last[cache] = version
	}
}

// Seen returns an error while a cache lacks a write for the owner.
func (w *Written) Seen(key types.NamespacedName) error {
	known := w.versions[key]
	if known == nil {
		return nil
	}
	for i, version := range known.last {
		if version == "" {
			continue
		}
		has := w.caches[i].Versions.LastSyncResourceVersion()
		if older, err := resourceversion.Compare(has, version); err == nil && older < 0 {
			return fmt.Errorf("read version: %s is not as new as written version: %s for group resource %s",
				has, version, w.caches[i].Resource)
		}
	}
	w.Forget(key)
	return nil
}

// Forget removes the record of an owner.
func (w *Written) Forget(key types.NamespacedName) { delete(w.versions, key) }
