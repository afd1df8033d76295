package fake

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"github.com/volsim/volsim/fake/internal/rules"
)

// Managed fields record which manager wrote which field of an object, and when. Tracking them makes
// a write ten times as slow, and is rarely needed. They are therefore kept only for objects that
// need them: from the first server-side apply on, or when a writer sends some.
//
// Differs: the real server tracks every object from its creation on. Config.TrackManagedFields does
// the same. Fields that were set before the first apply belong to the manager "before-first-apply",
// as upstream for an object without managed fields.

// defaultManager is the manager of a client without a name.
const defaultManager = "volsim"

// As returns a client with a user agent, such as "kubectl/v1.36.3 (linux/amd64)". The part before
// the slash is the manager of the fields that it writes, unless a request has another. The default
// is the name of the client's process, or "volsim".
func (c *Clientset) As(userAgent string) *Clientset {
	out := c.clone()
	out.manager = managerOf(userAgent)
	return out
}

// managerOf returns the field manager of a user agent.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers/create.go prefixFromUserAgent.
func managerOf(userAgent string) string {
	name, _, _ := strings.Cut(userAgent, "/")
	var b strings.Builder
	for _, r := range name {
		if !unicode.IsPrint(r) {
			continue
		}
		if b.Len()+utf8.RuneLen(r) > validation.FieldManagerMaxLength {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// managerName returns the manager of the client's writes.
func (c *Clientset) managerName() string {
	if c.manager != "" {
		return c.manager
	}
	if named, ok := c.caller.(interface{ Name() string }); ok {
		return named.Name()
	}
	return defaultManager
}

// track sets the managed fields of obj, which is to replace old. old is nil at a creation.
//
// Upstream: k8s.io/apimachinery/pkg/util/managedfields FieldManager.UpdateNoErrors.
func (r ResourceClient) track(obj, old Object, through subresource, manager string) {
	m := metaOf(obj)
	var oldFields []metav1.ManagedFieldsEntry
	if old != nil {
		oldFields = metaOf(old).ManagedFields
	}
	if through != mainResource {
		m.ManagedFields = nil // only the resource itself may set them
	}
	if len(m.ManagedFields) == 0 && len(oldFields) == 0 && !(old == nil && r.c.server.track) {
		m.ManagedFields = nil
		return
	}
	if manager == "" {
		manager = r.c.managerName()
	}
	if old == nil {
		old = r.New()
	}
	r.prune(obj)
	f, err := r.fieldManager(through)
	if err != nil || checkApplyCost(old, obj) != nil {
		m.ManagedFields = nil
		return
	}
	live, wanted := r.forms().of(old), r.forms().of(obj)
	times := newManagedTimes(live.(metav1.Object), wanted.(metav1.Object))
	out, err := f.Update(live, wanted, manager)
	if err != nil {
		m.ManagedFields = nil
		return
	}
	m.ManagedFields = out.(metav1.Object).GetManagedFields()
	times.restore(obj, r.c.server.timestamp())
}

// prune prunes a sent object and sets its defaults. The pipeline will do it again.
func (r ResourceClient) prune(obj Object) {
	r.kind.defaults(obj)
	if d, ok := obj.(*appsv1.DaemonSet); ok {
		rules.ShowTemplateGeneration(d)
	}
	if c, ok := obj.(*CustomObject); ok {
		c.SetGroupVersionKind(r.GroupVersionKind())
		_ = r.kind.defaultCustom(c) // the pipeline will return the error
	}
}

// managedTimes hides the wall clock that a field manager reads from the world. It replaces the times in
// managed fields by numbers in the same order, which no clock returns. Any other time afterwards is
// new.
type managedTimes []metav1.Time

// newManagedTimes replaces the times in the objects' managed fields.
func newManagedTimes(objects ...metav1.Object) managedTimes {
	var t managedTimes
	for _, obj := range objects {
		for _, e := range obj.GetManagedFields() {
			if e.Time != nil {
				t = append(t, *e.Time)
			}
		}
	}
	slices.SortFunc(t, func(a, b metav1.Time) int { return a.Compare(b.Time) })
	t = slices.CompactFunc(t, func(a, b metav1.Time) bool { return a.Time.Equal(b.Time) })
	for _, obj := range objects {
		entries := slices.Clone(obj.GetManagedFields())
		for i, e := range entries {
			if e.Time != nil {
				n := slices.IndexFunc(t, func(x metav1.Time) bool { return x.Time.Equal(e.Time.Time) })
				entries[i].Time = &metav1.Time{Time: time.Unix(int64(n), 0)}
			}
		}
		obj.SetManagedFields(entries)
	}
	return t
}

// restore restores the times, and sets new ones to now.
func (t managedTimes) restore(obj metav1.Object, now metav1.Time) {
	entries := obj.GetManagedFields()
	for i, e := range entries {
		if e.Time == nil {
			continue
		}
		at := now
		if n := e.Time.Unix(); n < int64(len(t)) {
			at = t[n]
		}
		entries[i].Time = &at
	}
	slices.SortFunc(entries, compareEntries)
	obj.SetManagedFields(entries)
}

// compareEntries compares managed fields in the server's order.
//
// Upstream: k8s.io/apimachinery/pkg/util/managedfields/internal sortEncodedManagedFields.
func compareEntries(a, b metav1.ManagedFieldsEntry) int {
	seconds := func(e metav1.ManagedFieldsEntry) int64 {
		if e.Time == nil {
			return 0
		}
		return e.Time.Unix()
	}
	return cmp.Or(
		cmp.Compare(a.Operation, b.Operation), cmp.Compare(seconds(a), seconds(b)), cmp.Compare(a.Manager, b.Manager),
		cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Subresource, b.Subresource),
	)
}

// keepTimes restores an object's managed fields if nothing but their times would change.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager
// IgnoreManagedFieldsTimestampsTransformer.
func keepTimes(obj, old Object) {
	m, oldMeta := metaOf(obj), metaOf(old)
	if len(m.ManagedFields) == 0 || !slices.EqualFunc(m.ManagedFields, oldMeta.ManagedFields, sameEntry) {
		return
	}
	fields := m.ManagedFields
	m.ManagedFields = oldMeta.ManagedFields
	if !same(obj, old) {
		m.ManagedFields = fields
	}
}

func sameEntry(a, b metav1.ManagedFieldsEntry) bool {
	a.Time, b.Time = nil, nil
	return reflect.DeepEqual(a, b)
}
