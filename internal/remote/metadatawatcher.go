package remote

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// MetadataWatcher watches the metadata of all resources that can be watched and deleted, including
// custom resources that are added later. It delivers the matching changes to one process. The
// process's workers start after all initially served resources have listed.
//
// Its methods are for the process's tasks, and for the time before the host starts.
type MetadataWatcher struct {
	process   *sim.Process
	discovery *discoverer
	matches   func(kind schema.GroupVersionKind, old, obj metav1.Object) bool
	observe   func(kind schema.GroupVersionKind, old, obj metav1.Object)

	notifications chan metadataNotification
	served        map[schema.GroupVersionKind]servedResource
	watched       map[schema.GroupKind]*watchedResource // nil before the first discovery
	synced        atomic.Bool
}

// servedResource is the resource that serves a kind.
type servedResource struct {
	schema.GroupVersionResource
	namespaced bool
}

// watchedResource is the cache of one resource's matching objects.
type watchedResource struct {
	resource servedResource
	kind     schema.GroupVersionKind

	// The fields below belong to the process.
	listed  bool
	objects map[string]metav1.Object // by key
}

// metadataNotification is a notification about one resource, or a result of discovery.
type metadataNotification struct {
	notification
	about      *watchedResource
	discovered *discovered
}

// MetadataWatcher returns a watcher of all resources except the excluded ones. It makes no request
// before Run.
func (c *Connection) MetadataWatcher(excluded ...schema.GroupResource) (*MetadataWatcher, error) {
	client, err := metadata.NewForConfig(c.direct)
	if err != nil {
		return nil, err
	}
	s := &MetadataWatcher{process: c.process, notifications: make(chan metadataNotification, notificationsMax)}
	s.discovery = &discoverer{
		name: c.process.Name() + " metadata", client: client, discover: c.discovery, excluded: excluded,
		timeout: c.factory.timeout, notify: s.notify, rediscover: make(chan struct{}, 1),
	}
	c.start(s.discovery)
	return s, nil
}

// notify queues a notification for the process.
func (s *MetadataWatcher) notify(ctx context.Context, a metadataNotification) error {
	select {
	case s.notifications <- a:
		s.process.Wake()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Follow starts to deliver changes. It is called once. observe is called with each change that
// matches: old is nil for an addition, obj for a deletion, both are nil when a kind becomes served.
// kind has the preferred version. The objects are read-only.
//
// After a gap in the watch, old may be older than the previous state. Two objects that had the same
// name in succession are delivered as a deletion and an addition.
func (s *MetadataWatcher) Follow(matches func(kind schema.GroupVersionKind, old, obj metav1.Object) bool,
	observe func(kind schema.GroupVersionKind, old, obj metav1.Object),
) {
	s.matches, s.observe = matches, observe
	s.process.Delivery("metadata", func() bool { return len(s.notifications) > 0 }, s.deliver)
	s.process.GateWorkers(s.HasSynced)
}

// HasSynced reports whether all initially served resources have listed. It may be called
// concurrently.
func (s *MetadataWatcher) HasSynced() bool { return s.synced.Load() }

// Mapping returns the resource that serves a kind, whether it is namespaced, and whether it exists.
func (s *MetadataWatcher) Mapping(kind schema.GroupVersionKind) (r schema.GroupVersionResource, namespaced, ok bool) {
	served, ok := s.served[kind]
	return served.GroupVersionResource, served.namespaced, ok
}

// Seen returns the cached object of a kind with a UID, or nil. It looks under the name first, and
// then at all objects of the kind.
func (s *MetadataWatcher) Seen(kind schema.GroupVersionKind, namespace, name string, uid types.UID) metav1.Object {
	t := s.watched[kind.GroupKind()]
	if t == nil {
		return nil
	}
	if !t.resource.namespaced {
		namespace = ""
	}
	if obj := t.objects[cache.NewObjectName(namespace, name).String()]; obj != nil && obj.GetUID() == uid {
		return obj
	}
	for _, obj := range t.objects {
		if obj.GetUID() == uid {
			return obj // UIDs are unique
		}
	}
	return nil
}

// deliver applies one notification.
func (s *MetadataWatcher) deliver() {
	a := <-s.notifications // does not block: this is the only receiver
	switch {
	case a.err != nil && a.about == nil:
		s.record("ERROR", "*", trace.Outcome{Err: a.err})
	case a.discovered != nil:
		s.applyDiscovery(a.discovered)
	case s.watched[a.about.kind.GroupKind()] != a.about: // the resource is no longer served
	case a.err != nil:
		s.record("ERROR", a.about.resource.Resource, trace.Outcome{Err: a.err})
	case a.list:
		n := s.applyList(a.about, a.objects)
		s.record("LIST", a.about.resource.Resource, trace.Outcome{Detail: strconv.Itoa(n) + " items rv=" + a.revision})
	default:
		s.applyObject(a.about, a.object.(metav1.Object), a.gone)
	}
	if !s.synced.Load() && s.watched != nil && !slices.ContainsFunc(slices.Collect(maps.Values(s.watched)),
		(*watchedResource).isUnlisted) {
		s.synced.Store(true)
	}
}

func (t *watchedResource) isUnlisted() bool { return !t.listed }

// applyDiscovery applies a result of discovery.
func (s *MetadataWatcher) applyDiscovery(result *discovered) {
	before := s.served
	s.served, s.watched = result.served, result.watched
	if before == nil {
		return
	}
	for _, kind := range slices.SortedFunc(maps.Keys(result.served), compareKinds) {
		if _, served := before[kind]; !served && s.matches(kind, nil, nil) {
			s.observe(kind, nil, nil)
		}
	}
}

// compareKinds orders kinds.
func compareKinds(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) }

// applyObject applies a change of one object.
func (s *MetadataWatcher) applyObject(t *watchedResource, obj metav1.Object, gone bool) {
	key := keyOf(obj)
	old := t.objects[key]
	kind, matched := "MODIFIED", false
	switch {
	case gone:
		kind = "DELETED"
		delete(t.objects, key)
		matched = old != nil && s.observeChange(t, old, nil)
	case old == nil:
		kind = "ADDED"
		t.objects[key] = obj
		matched = s.observeChange(t, nil, obj)
	case old.GetUID() != obj.GetUID():
		t.objects[key] = obj
		matched = s.observeChange(t, old, nil)
		matched = s.observeChange(t, nil, obj) || matched
	default:
		t.objects[key] = obj
		matched = s.observeChange(t, old, obj)
	}
	if matched {
		s.record(kind, t.resource.Resource+"/"+key, trace.Outcome{Detail: "rv=" + obj.GetResourceVersion()})
	}
}

// applyList delivers the difference between a list and the cache, deletions first, and returns the
// number of matching changes.
func (s *MetadataWatcher) applyList(t *watchedResource, all []any) (matched int) {
	old := t.objects
	t.objects, t.listed = make(map[string]metav1.Object, len(all)), true
	for _, obj := range all {
		t.objects[keyOf(obj)] = obj.(metav1.Object)
	}
	count := func(concerned bool) {
		if concerned {
			matched++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(old)) {
		if current := t.objects[key]; current == nil || current.GetUID() != old[key].GetUID() {
			count(s.observeChange(t, old[key], nil))
			delete(old, key)
		}
	}
	for _, obj := range all {
		before := old[keyOf(obj)] // nil: an addition
		count(s.observeChange(t, before, obj.(metav1.Object)))
	}
	return matched
}

// observeChange delivers a change if it matches, and reports whether it does.
func (s *MetadataWatcher) observeChange(t *watchedResource, old, obj metav1.Object) bool {
	if !s.matches(t.kind, old, obj) {
		return false
	}
	s.observe(t.kind, old, obj)
	return true
}

func (s *MetadataWatcher) record(verb, object string, out trace.Outcome) {
	s.process.Record(trace.Action{Kind: trace.KindDeliver, Verb: verb, Object: object}, out)
}
