package fake

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
)

// Managed fields say who wrote which field of an object, and when. To keep them takes ten times as long as to write, and
// few ask for them. So they are kept of the objects of which somebody asks: from the first server-side apply
// on, or when a writer sends some.
//
// Differs: the real server keeps them of every object, from its creation on. Config.TrackManagedFields does that. What
// was there before the first apply belongs to the manager "before-first-apply", as upstream where an object has none.

// defaultManager is the manager of what is written by a client that has no name.
const defaultManager = "volsim"

// As returns the client as one that makes itself known by a user agent, such as "kubectl/v1.36.3 (linux/amd64)". What is
// before the slash is the manager of the fields that it writes, unless a request names another. Without it the manager
// is the component that the client is of, or "volsim".
func (c *Clientset) As(userAgent string) *Clientset {
	out := *c
	out.manager = managerOf(userAgent)
	return &out
}

// managerOf is the manager that a user agent stands for.
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

// managerName is the manager of what the client writes.
func (c *Clientset) managerName() string {
	if c.manager != "" {
		return c.manager
	}
	if named, ok := c.caller.(interface{ Name() string }); ok {
		return named.Name()
	}
	return defaultManager
}

// track writes into obj, which somebody wants to put in old's place, the managed fields that follow. old is nil at a
// creation.
//
// Upstream: k8s.io/apimachinery/pkg/util/managedfields FieldManager.UpdateNoErrors.
func (r ResourceClient) track(obj, old Object, through subresource, manager string) {
	m := metaOf(obj)
	var was []metav1.ManagedFieldsEntry
	if old != nil {
		was = metaOf(old).ManagedFields
	}
	if through != throughMain {
		m.ManagedFields = nil // only the resource itself may say
	}
	if len(m.ManagedFields) == 0 && len(was) == 0 && !(old == nil && r.c.server.track) {
		m.ManagedFields = nil
		return
	}
	if manager == "" {
		manager = r.c.managerName()
	}
	if old == nil {
		old = r.New()
	}
	r.settle(obj)
	f, err := r.fieldManager(through)
	if err != nil {
		m.ManagedFields = nil
		return
	}
	live, wanted := r.forms().of(old), r.forms().of(obj)
	times := newTimes(live.(metav1.Object), wanted.(metav1.Object))
	out, err := f.Update(live, wanted, manager)
	if err != nil {
		m.ManagedFields = nil
		return
	}
	m.ManagedFields = out.(metav1.Object).GetManagedFields()
	times.restore(obj, r.c.server.timestamp())
}

// settle prunes and fills in what a writer sent, as will be done again.
func (r ResourceClient) settle(obj Object) {
	r.kind.defaults(obj)
	if c, ok := obj.(*CustomObject); ok {
		c.SetGroupVersionKind(r.GroupVersionKind())
		_ = r.kind.defaultCustom(c) // its error will be the answer
	}
}

// times stands between the clock of this machine, which a field manager reads, and the world's. What the managed fields
// have of times is replaced by numbers in the same order, which no clock shows; what else there is afterwards is new.
type times []metav1.Time

// newTimes replaces the times in the objects' managed fields.
func newTimes(objects ...metav1.Object) times {
	var t times
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

// restore puts the times back, and now where there is a new one.
func (t times) restore(obj metav1.Object, now metav1.Time) {
	entries := obj.GetManagedFields()
	for i, e := range entries {
		if e.Time == nil {
			continue
		}
		is := now
		if n := e.Time.Unix(); n < int64(len(t)) {
			is = t[n]
		}
		entries[i].Time = &is
	}
	slices.SortFunc(entries, compareEntries)
	obj.SetManagedFields(entries)
}

// compareEntries orders managed fields as the server does.
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

// keepTimes gives an object back the managed fields it had, if nothing but their times would change.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager IgnoreManagedFieldsTimestampsTransformer.
func keepTimes(obj, old Object) {
	m, was := metaOf(obj), metaOf(old)
	if len(m.ManagedFields) == 0 || !slices.EqualFunc(m.ManagedFields, was.ManagedFields, sameEntry) {
		return
	}
	is := m.ManagedFields
	m.ManagedFields = was.ManagedFields
	if !same(obj, old) {
		m.ManagedFields = is
	}
}

func sameEntry(a, b metav1.ManagedFieldsEntry) bool {
	a.Time, b.Time = nil, nil
	return reflect.DeepEqual(a, b)
}
