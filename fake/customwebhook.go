package fake

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// This file converts the objects of a custom resource whose definition has a conversion webhook. A
// webhook may fail, and may change labels, annotations and fields. Selectors therefore apply to
// converted objects.
//
// Differs: the objects of a list are converted in one review, up to webhookObjectsMax of them. The
// real server sends one review for each object, and keeps the results in a cache for each version.

// webhookObjectsMax is the limit of objects in one call of a webhook.
const webhookObjectsMax = 500

// callWebhook converts objects in place. All are in other versions.
func (k *kind) callWebhook(objects []*CustomObject, version string) error {
	for len(objects) > 0 {
		n := min(len(objects), webhookObjectsMax)
		if err := k.custom.Webhook(objects[:n], version); err != nil {
			return internalError(err.Error())
		}
		objects = objects[n:]
	}
	return nil
}

// allAsVersion is asVersion for several objects.
func (k *kind) allAsVersion(all []Object, version string, since int64) ([]Object, error) {
	shown := make([]Object, len(all))
	var foreign []*CustomObject // in other versions
	var at []int                // their indices
	for i, stored := range all {
		out, _ := k.decoded(stored.(*CustomObject), version, since)
		shown[i] = out
		if out.APIVersion != k.apiVersion(version) {
			foreign, at = append(foreign, out), append(at, i)
		}
	}
	if err := k.callWebhook(foreign, version); err != nil {
		return nil, err
	}
	for i, obj := range foreign {
		if k.custom.Convert != nil {
			k.custom.Convert(obj, version)
		}
		obj.APIVersion = k.apiVersion(version)
		shown[at[i]] = obj
	}
	return shown, nil
}

// show returns stored objects in the form of this kind.
func (k *kind) show(stored []Object) ([]Object, error) {
	switch {
	case k.fromStored == nil:
		return stored, nil
	case k.allFromStored != nil:
		return k.allFromStored(stored)
	}
	shown := make([]Object, len(stored))
	for i, obj := range stored {
		var err error
		if shown[i], err = k.fromStored(obj); err != nil {
			return nil, err
		}
	}
	return shown, nil
}

// rehearsed returns the answer to a dry run of a write.
func (k *kind) rehearsed(obj Object) (Object, error) {
	if k.allFromStored == nil {
		return obj, nil
	}
	stored, err := k.toStorage(obj)
	if err != nil {
		return nil, err
	}
	return k.fromStored(stored)
}

// webhookForm returns the function that returns a stored object in the version of this kind, if a
// webhook converts it, or else nil.
func (k *kind) webhookForm() func(Object) (Object, error) {
	if k.allFromStored == nil {
		return nil
	}
	return k.fromStored
}

// converts reports whether a webhook converts the selected objects.
func (s *selector) converts() bool { return s.kind.allFromStored != nil }

// readsConverted reports whether objects must be converted to know if they are selected. A webhook
// changes neither namespace nor name.
func (s *selector) readsConverted() bool {
	return s.converts() && (s.labels != nil || len(s.fixed().required) < len(s.required))
}

// fixed returns the part of a selector that no conversion affects: namespace and name.
func (s *selector) fixed() *selector {
	out := &selector{kind: s.kind, namespace: s.namespace}
	for _, r := range s.required {
		if r.Field == metav1.ObjectNameField || r.Field == "metadata.namespace" {
			out.required = append(out.required, r)
		}
	}
	return out
}

// convertedPage is page for objects that are selected after their conversion.
func (s *selector) convertedPage(objects *objectMap, from string, limit int64, out *ObjectList) (string, error) {
	var keys []string
	var batch []Object
	more := ""
	var failed error
	add := func() (goOn bool) {
		shown, err := s.kind.show(batch)
		for i, obj := range shown {
			switch {
			case !s.matches(obj):
			case limit > 0 && int64(len(out.Objects)) == limit:
				more = keys[i]
				return false
			default:
				out.Objects = append(out.Objects, obj)
			}
		}
		keys, batch, failed = nil, nil, err
		return err == nil
	}
	s.fixed().scan(objects, from, func(key string, obj Object) bool {
		keys, batch = append(keys, key), append(batch, obj)
		return len(batch) < webhookObjectsMax || add()
	})
	if failed == nil && more == "" {
		add()
	}
	return more, failed
}

// convertedEvent is event for objects that a webhook converts.
//
// Upstream: k8s.io/apiserver/pkg/storage/etcd3 transformErrorToEvent.
func (s *selector) convertedEvent(e *event) (watch.Event, bool, error) {
	if !s.fixed().matches(e.object) {
		return watch.Event{}, false, nil
	}
	states := []Object{e.object}
	if s.readsConverted() && e.previous != nil {
		states = append(states, e.previous)
	}
	shown, err := s.kind.show(states)
	if err != nil {
		return watch.Event{}, false, apierrors.NewInternalError(err)
	}
	last := shown[len(shown)-1]
	now, before := e.kind != watch.Deleted && s.matches(shown[0]), e.previous != nil && s.matches(last)
	switch {
	case now && before:
		return watch.Event{Type: watch.Modified, Object: shown[0]}, true, nil
	case now:
		return watch.Event{Type: watch.Added, Object: shown[0]}, true, nil
	case !before:
		return watch.Event{}, false, nil
	case e.kind == watch.Deleted:
		return watch.Event{Type: watch.Deleted, Object: shown[0]}, true, nil
	}
	left := s.kind.shallow(last)
	left.SetResourceVersion(formatRevision(e.revision))
	return watch.Event{Type: watch.Deleted, Object: left}, true, nil
}
