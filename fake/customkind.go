package fake

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
)

// newCustomKinds returns the kinds of a custom resource: one per served version, the preferred one
// first, or one for the storage version if none is served. Objects that were written up to revision
// since are converted to the current definition.
func newCustomKinds(c *CustomKind, since int64) []*kind {
	if c.Storage == "" {
		c.Storage = c.Versions[0]
	}
	if len(c.Versions) == 0 {
		return []*kind{newCustomKind(c, c.Storage, since)}
	}
	rows := make([]*kind, len(c.Versions))
	for i, v := range c.Versions {
		rows[i] = newCustomKind(c, v, since)
	}
	return rows
}

func newCustomKind(c *CustomKind, version string, since int64) *kind {
	k := &kind{
		id: tableID(c.Group, c.Resource), resource: c.Resource, cache: cacheTask(c.Resource), namespaced: c.Namespaced, custom: c,
		gvk:   schema.GroupVersionKind{Group: c.Group, Version: version, Kind: c.Kind},
		short: c.ShortNames, categories: c.Categories,
		empty: func() Object { return &CustomObject{} },
		copy:  func(obj Object) Object { return obj.DeepCopyObject().(Object) },
		shallow: func(obj Object) Object {
			out := *obj.(*CustomObject)
			out.Content = maps.Clone(out.Content)
			return &out
		},
		name:                validation.NameIsDNSSubdomain,
		defaults:            func(Object) {},
		fieldError:          unsupportedField,
		deleteReturnsStatus: true,
	}
	k.list = func(meta metav1.ListMeta, objects []Object) runtime.Object { return customList(k, meta, objects, true) }
	k.share = func(meta metav1.ListMeta, objects []Object) runtime.Object {
		return customList(k, meta, objects, false)
	}
	k.fromStored = func(obj Object) (Object, error) { return k.asVersion(obj.(*CustomObject), version, since) }
	k.toStorage = func(obj Object) (Object, error) { return k.stored(obj.(*CustomObject)) }
	if c.Webhook != nil {
		k.allFromStored = func(all []Object) ([]Object, error) { return k.allAsVersion(all, version, since) }
	}
	k.toStored = func(obj, _ Object) (Object, error) { return obj, k.defaultCustom(obj.(*CustomObject)) }
	k.statusUpdatesMetadata = c.StatusUpdatesMetadata
	if c.Status && !slices.Contains(c.VersionsWithoutStatus, version) {
		k.copyStatus = func(to, from Object) { copyContent(to.(*CustomObject), from.(*CustomObject), "status") }
	}
	k.field = c.selectable(version)
	if c.Scale != nil {
		if at := c.Scale(version); at != nil {
			k.scale = newCustomScale(k, at)
		}
	}
	k.setStrategy()
	return k
}

// setStrategy sets the prepare and validate functions of a custom kind.
func (k *kind) setStrategy() {
	c := k.custom
	k.prepareCreate = func(now metav1.Time, obj, _ Object) { k.prepareCustom(now, obj.(*CustomObject), nil) }
	k.prepareUpdate = func(now metav1.Time, obj, old Object) {
		k.prepareCustom(now, obj.(*CustomObject),
			old.(*CustomObject))
	}
	k.prepareStatus = func(metav1.Time, Object, Object) {}
	k.validateCreate = func(Object, Object) field.ErrorList { return nil }
	k.validateUpdate, k.validateStatus = k.validateCreate, k.validateCreate
	if c.Validate != nil {
		k.validateCreate = func(obj, _ Object) field.ErrorList { return c.Validate(obj.(*CustomObject), nil) }
		k.validateUpdate = func(obj, old Object) field.ErrorList {
			return c.Validate(obj.(*CustomObject),
				old.(*CustomObject))
		}
		k.validateStatus = k.validateUpdate
	}
	if c.ValidateStatus != nil {
		k.validateStatus = func(obj, old Object) field.ErrorList {
			return c.ValidateStatus(obj.(*CustomObject), old.(*CustomObject))
		}
	}
}

// prepareCustom sets the generation, and drops the status at creation.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource strategy.
func (k *kind) prepareCustom(now metav1.Time, obj, old *CustomObject) {
	switch {
	case old == nil:
		obj.Generation = 1
		if k.copyStatus != nil {
			delete(obj.Content, "status")
		}
	case !sameContent(obj, old, k.copyStatus != nil):
		obj.Generation = old.Generation + 1
	}
	if k.custom.Prepare != nil {
		k.custom.Prepare(now, obj, old)
	}
}

// defaultApplied sets the defaults of the result of a server-side apply.
func (k *kind) defaultApplied(obj *CustomObject) error {
	if obj.Content != nil && k.custom.DefaultApplied != nil {
		k.custom.DefaultApplied(obj)
		return nil
	}
	return k.defaultCustom(obj)
}

// defaultCustom prunes a sent object and sets its defaults.
func (k *kind) defaultCustom(obj *CustomObject) error {
	if obj.Content == nil {
		obj.Content = map[string]any{}
	}
	if k.custom.Default == nil {
		return nil
	}
	return k.custom.Default(obj)
}

// asVersion returns a stored object in a version, as the version is defined since a revision. The
// result is obj itself if nothing changes. An object that was written in another version than the
// stored one lacks the defaults of the stored version.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver crdConversionRESTOptionsGetter.
func (k *kind) asVersion(obj *CustomObject, version string, since int64) (Object, error) {
	out, decoded := k.decoded(obj, version, since)
	if !decoded {
		return obj, nil
	}
	return k.convert(out, version)
}

// decoded returns a copy of a stored object to be converted to a version, as the object's own
// version is defined since a revision. It returns the object itself, and false, if nothing changes.
func (k *kind) decoded(obj *CustomObject, version string, since int64) (*CustomObject, bool) {
	c := k.custom
	complete := len(c.Versions) == 1 || version != c.Storage
	if obj.APIVersion == k.apiVersion(version) && writtenAfter(obj, since) && complete {
		return obj, false
	}
	out := obj.DeepCopyObject().(*CustomObject)
	if c.Decode != nil {
		c.Decode(out)
	}
	return out, true
}

// stored returns an object in the storage version. The result is obj itself if nothing changes.
func (k *kind) stored(obj *CustomObject) (Object, error) {
	if obj.APIVersion == k.apiVersion(k.custom.Storage) {
		return obj, nil
	}
	return k.convert(obj.DeepCopyObject().(*CustomObject), k.custom.Storage)
}

// convert converts an object to a version.
func (k *kind) convert(obj *CustomObject, version string) (Object, error) {
	want := k.apiVersion(version)
	if obj.APIVersion == want {
		return obj, nil
	}
	if k.custom.Webhook != nil {
		all := []*CustomObject{obj}
		if err := k.callWebhook(all, version); err != nil {
			return nil, err
		}
		obj = all[0]
	}
	if k.custom.Convert != nil {
		k.custom.Convert(obj, version)
	}
	obj.APIVersion = want
	return obj, nil
}

func (k *kind) apiVersion(version string) string {
	return schema.GroupVersion{Group: k.gvk.Group, Version: version}.String()
}

// writtenAfter reports whether an object was stored after a revision, or is not stored yet.
func writtenAfter(obj Object, revision int64) bool {
	if revision == 0 {
		return true
	}
	rv, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	return err != nil || rv > revision
}

// selectable returns the accessor of the fields that field selectors may use.
func (c *CustomKind) selectable(version string) func(Object, string) (string, bool) {
	var own map[string]func(*CustomObject) string
	if c.Fields != nil {
		own = c.Fields(version)
	}
	all := selectable(own)
	return func(obj Object, label string) (string, bool) {
		if label == "metadata.namespace" && !c.Namespaced {
			return "", false
		}
		return all(obj, label)
	}
}

// mayCreate returns an error if the resource is terminating.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver forbidCreateAdmission.
func (k *kind) mayCreate(name string) error {
	if k.custom == nil || !k.custom.Terminating {
		return nil
	}
	return apierrors.NewForbidden(k.groupResource(), name,
		fmt.Errorf("create not allowed while custom resource definition is terminating"))
}

// read returns a stored object, or nil, in the version of this kind.
func (k *kind) read(stored Object) (Object, error) {
	if stored == nil || k.toStorage == nil {
		return stored, nil
	}
	return k.fromStored(stored)
}

// outdated reports whether an object is stored in another version than the current definition's.
func (k *kind) outdated(stored Object) bool {
	c, ok := stored.(*CustomObject)
	return ok && k.toStorage != nil && c.APIVersion != k.apiVersion(k.custom.Storage)
}

// put commits an object of a known size in its storage version, and returns it in the version of
// this kind. The bool is false if another writer was faster.
//
// Differs: the answer is converted before the commit, so nothing is written if that fails. The real
// server converts it afterwards.
func (s writer) put(
	t *table, k *kind, event watch.EventType, key string, before, obj Object, size int,
) (Object, bool, error) {
	if k.toStorage == nil {
		return obj, s.commitSized(t, event, key, before, obj, size), nil
	}
	obj.SetResourceVersion("")
	after, err := k.toStorage(obj)
	if err != nil {
		return nil, false, err
	}
	answer, err := k.fromStored(after)
	if err != nil {
		return nil, false, err
	}
	if after != obj && k.custom.Webhook != nil {
		if size, err = storable(k, after); err != nil {
			return nil, false, err
		}
	}
	if !s.commitSized(t, event, key, before, after, size) {
		return nil, false, nil
	}
	if answer != after {
		answer.SetResourceVersion(after.GetResourceVersion())
	}
	return answer, true, nil
}

// warnings returns the warnings about a write.
func (k *kind) warnings(obj, old Object) []string {
	switch {
	case k.warn != nil:
		return k.warn(obj, old)
	case k.custom == nil || k.custom.Warnings == nil:
		return nil
	}
	oldCustom, _ := old.(*CustomObject)
	return k.custom.Warnings(obj.(*CustomObject), oldCustom)
}

// pathOf splits a path such as ".spec.replicas".
func pathOf(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }
