package volumebinding

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/resourceversion"
)

// An assumeCache is an informer's cache with the changes of this scheduler that it does not have yet.
//
// Upstream: passiveAssumeCache (v1.36).
//
// Differs: it also keeps the versions that were written until the informer has them. Upstream keeps the
// assumed version of a volume; it restores that of a claim if the pod fails after the write.
type assumeCache[T metav1.Object] struct {
	store    cache.Indexer
	resource schema.GroupResource
	assumed  map[string]T // to be written; of the version that base returns, or it has ended
	written  map[string]T // newer than in store, or it has ended
}

func newAssumeCache[T metav1.Object](store cache.Indexer, resource string) *assumeCache[T] {
	return &assumeCache[T]{
		store: store, resource: schema.GroupResource{Resource: resource}, assumed: map[string]T{}, written: map[string]T{},
	}
}

// keyOf returns the key of an object: its name, after "NAMESPACE/" if it has a namespace.
func keyOf(obj metav1.Object) string { return cache.MetaObjectToName(obj).String() }

// api returns an object as the informer has it. The error is that it does not exist.
func (c *assumeCache[T]) api(key string) (T, error) {
	obj, ok, err := c.store.GetByKey(key)
	if err != nil || !ok {
		var none T
		return none, apierrors.NewNotFound(c.resource, key)
	}
	return obj.(T), nil
}

// base returns an object as the informer has it, or as it was written if that version is newer.
func (c *assumeCache[T]) base(key string) (T, error) {
	obj, err := c.api(key)
	if err != nil || len(c.written) == 0 {
		return obj, err
	}
	if written, ok := c.written[key]; ok && isNewer(written, obj) {
		return written, nil
	}
	return obj, nil
}

// get returns an object with the changes that are assumed.
func (c *assumeCache[T]) get(key string) (T, error) {
	obj, err := c.base(key)
	if err != nil || len(c.assumed) == 0 {
		return obj, err
	}
	if assumed, ok := c.assumed[key]; ok && assumed.GetResourceVersion() == obj.GetResourceVersion() {
		return assumed, nil
	}
	return obj, nil
}

// assume says that an object will be written. It must be of the version that base returns.
func (c *assumeCache[T]) assume(obj T) error {
	key := keyOf(obj)
	stored, err := c.base(key)
	if err != nil {
		return err
	}
	if stored.GetResourceVersion() != obj.GetResourceVersion() {
		return fmt.Errorf("%q is out of sync (stored: %s, assume: %s)", key, stored.GetResourceVersion(), obj.GetResourceVersion())
	}
	c.assumed[key] = obj
	return nil
}

// restore says that an object that was assumed will not be written.
func (c *assumeCache[T]) restore(obj T) {
	key := keyOf(obj)
	if assumed, ok := c.assumed[key]; ok && assumed.GetResourceVersion() == obj.GetResourceVersion() {
		delete(c.assumed, key)
	}
}

// wrote says that a version is written.
func (c *assumeCache[T]) wrote(obj T) {
	key := keyOf(obj)
	c.written[key] = obj
	c.expire(key)
}

// expire removes what the informer's version of an object replaces.
func (c *assumeCache[T]) expire(key string) {
	if len(c.assumed)+len(c.written) == 0 {
		return
	}
	obj, err := c.api(key)
	if err != nil {
		delete(c.written, key)
		delete(c.assumed, key)
		return
	}
	if written, ok := c.written[key]; ok {
		if isNewer(written, obj) {
			obj = written
		} else {
			delete(c.written, key)
		}
	}
	if assumed, ok := c.assumed[key]; ok && assumed.GetResourceVersion() != obj.GetResourceVersion() {
		delete(c.assumed, key)
	}
}

// isNewer reports whether a is a later version of the same object as b.
func isNewer(a, b metav1.Object) bool {
	order, err := resourceversion.Compare(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && a.GetUID() == b.GetUID() && order > 0
}
