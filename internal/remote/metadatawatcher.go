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

// MetadataWatcher is what one component has seen of the metadata of the objects of all resources that can be watched and deleted,
// custom ones that come later included, as far as they concern it. The component's workers do not start before all that
// were served at first have listed.
//
// Its methods are for the component's strands, and for before the host starts.
type MetadataWatcher struct {
	process   *sim.Process
	discovery *discoverer
	matches   func(kind schema.GroupVersionKind, was, is metav1.Object) bool
	observe   func(kind schema.GroupVersionKind, was, is metav1.Object)

	notifications chan metadataNotification
	served        map[schema.GroupVersionKind]servedResource
	watched       map[schema.GroupKind]*watchedResource // nil before something was discovered
	synced        atomic.Bool
}

// servedResource is what serves a kind.
type servedResource struct {
	schema.GroupVersionResource
	namespaced bool
}

// watchedResource is what a survey has seen of one resource.
type watchedResource struct {
	resource servedResource
	kind     schema.GroupVersionKind

	// The component's.
	listed  bool
	objects map[string]metav1.Object // by key
}

// metadataNotification is what arrived about one resource, or what discovery found.
type metadataNotification struct {
	notification
	about      *watchedResource
	discovered *discovered
}

// MetadataWatcher makes a survey of all resources but those named. It asks the server for nothing before Run.
func (c *Connection) MetadataWatcher(without ...schema.GroupResource) (*MetadataWatcher, error) {
	client, err := metadata.NewForConfig(c.direct)
	if err != nil {
		return nil, err
	}
	s := &MetadataWatcher{process: c.process, notifications: make(chan metadataNotification, notificationsMax)}
	s.discovery = &discoverer{
		name: c.process.Name() + " survey", client: client, discover: c.discovery, excluded: without,
		timeout: c.factory.timeout, notify: s.notify, rediscover: make(chan struct{}, 1),
	}
	c.start(s.discovery)
	return s, nil
}

// notify puts an arrival where the component finds it.
func (s *MetadataWatcher) notify(ctx context.Context, a metadataNotification) error {
	select {
	case s.notifications <- a:
		s.process.Wake()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Follow begins the survey, once. take is called with each change that concerns tells to concern the component: was is
// nil for an object that comes, is for one that goes; both are nil when a resource of the kind comes to be served. kind is
// the preferred version's. The objects are read-only.
//
// After a gap was may be older than the state before, and two objects of one name that came after each other are told as
// one that goes and one that comes.
func (s *MetadataWatcher) Follow(concerns func(kind schema.GroupVersionKind, was, is metav1.Object) bool,
	take func(kind schema.GroupVersionKind, was, is metav1.Object),
) {
	s.matches, s.observe = concerns, take
	s.process.Delivery("survey", func() bool { return len(s.notifications) > 0 }, s.deliver)
	s.process.GateWorkers(s.HasSynced)
}

// HasSynced tells whether all resources that were served at first have listed. It may be called from anywhere.
func (s *MetadataWatcher) HasSynced() bool { return s.synced.Load() }

// Mapping tells the resource that serves a kind, whether it is namespaced, and whether there is one.
func (s *MetadataWatcher) Mapping(kind schema.GroupVersionKind) (r schema.GroupVersionResource, namespaced, ok bool) {
	is, ok := s.served[kind]
	return is.GroupVersionResource, is.namespaced, ok
}

// Seen returns the object of a kind with a UID as the component has seen it, or nil. It is looked for under the name, and
// then among all of the kind.
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
			return obj // no two have one UID
		}
	}
	return nil
}

// deliver takes in one arrival.
func (s *MetadataWatcher) deliver() {
	a := <-s.notifications // there is one: nobody else takes them
	switch {
	case a.err != nil && a.about == nil:
		s.record("ERROR", "*", trace.Outcome{Err: a.err})
	case a.discovered != nil:
		s.applyDiscovery(a.discovered)
	case s.watched[a.about.kind.GroupKind()] != a.about: // it is not served any more
	case a.err != nil:
		s.record("ERROR", a.about.resource.Resource, trace.Outcome{Err: a.err})
	case a.list:
		n := s.applyList(a.about, a.objects)
		s.record("LIST", a.about.resource.Resource, trace.Outcome{Detail: strconv.Itoa(n) + " items rv=" + a.revision})
	default:
		s.applyObject(a.about, a.object.(metav1.Object), a.gone)
	}
	if !s.synced.Load() && s.watched != nil && !slices.ContainsFunc(slices.Collect(maps.Values(s.watched)), (*watchedResource).isUnlisted) {
		s.synced.Store(true)
	}
}

func (t *watchedResource) isUnlisted() bool { return !t.listed }

// applyDiscovery follows the resources that come and go.
func (s *MetadataWatcher) applyDiscovery(is *discovered) {
	before := s.served
	s.served, s.watched = is.served, is.watched
	if before == nil {
		return
	}
	for _, kind := range slices.SortedFunc(maps.Keys(is.served), compareKinds) {
		if _, had := before[kind]; !had && s.matches(kind, nil, nil) {
			s.observe(kind, nil, nil)
		}
	}
}

// compareKinds orders kinds.
func compareKinds(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) }

// applyObject takes in what became of one object.
func (s *MetadataWatcher) applyObject(t *watchedResource, obj metav1.Object, gone bool) {
	key := keyOf(obj)
	was := t.objects[key]
	kind, told := "MODIFIED", false
	switch {
	case gone:
		kind = "DELETED"
		delete(t.objects, key)
		told = was != nil && s.observeChange(t, was, nil)
	case was == nil:
		kind = "ADDED"
		t.objects[key] = obj
		told = s.observeChange(t, nil, obj)
	case was.GetUID() != obj.GetUID():
		t.objects[key] = obj
		told = s.observeChange(t, was, nil)
		told = s.observeChange(t, nil, obj) || told
	default:
		t.objects[key] = obj
		told = s.observeChange(t, was, obj)
	}
	if told {
		s.record(kind, t.resource.Resource+"/"+key, trace.Outcome{Detail: "rv=" + obj.GetResourceVersion()})
	}
}

// applyList tells the follower how a list differs from what it knows, what went first, and counts what was told.
func (s *MetadataWatcher) applyList(t *watchedResource, all []any) (told int) {
	was := t.objects
	t.objects, t.listed = make(map[string]metav1.Object, len(all)), true
	for _, obj := range all {
		t.objects[keyOf(obj)] = obj.(metav1.Object)
	}
	count := func(concerned bool) {
		if concerned {
			told++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(was)) {
		if is := t.objects[key]; is == nil || is.GetUID() != was[key].GetUID() {
			count(s.observeChange(t, was[key], nil))
			delete(was, key)
		}
	}
	for _, obj := range all {
		before := was[keyOf(obj)] // nil: it comes
		count(s.observeChange(t, before, obj.(metav1.Object)))
	}
	return told
}

// observeChange tells the follower of a change if it concerns it, and whether it does.
func (s *MetadataWatcher) observeChange(t *watchedResource, was, is metav1.Object) bool {
	if !s.matches(t.kind, was, is) {
		return false
	}
	s.observe(t.kind, was, is)
	return true
}

func (s *MetadataWatcher) record(verb, object string, out trace.Outcome) {
	s.process.Record(trace.Action{Kind: trace.KindDeliver, Verb: verb, Object: object}, out)
}
