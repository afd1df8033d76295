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

// Survey is what one component has seen of the metadata of the objects of all resources that can be watched and deleted,
// custom ones that come later included, as far as they concern it. The component's workers do not start before all that
// were served at first have listed.
//
// Its methods are for the component's strands, and for before the host starts.
type Survey struct {
	component *sim.Component
	discovery *discoverer
	concerns  func(kind schema.GroupVersionKind, was, is metav1.Object) bool
	take      func(kind schema.GroupVersionKind, was, is metav1.Object)

	arrivals chan surveyed
	served   map[schema.GroupVersionKind]server
	tracks   map[schema.GroupKind]*track // nil before something was discovered
	synced   atomic.Bool
}

// server is what serves a kind.
type server struct {
	schema.GroupVersionResource
	namespaced bool
}

// track is what a survey has seen of one resource.
type track struct {
	resource server
	kind     schema.GroupVersionKind

	// The component's.
	listed  bool
	objects map[string]metav1.Object // by key
}

// surveyed is what arrived about one resource, or what discovery found.
type surveyed struct {
	arrival
	about *track
	found *found
}

// Survey makes a survey of all resources but those named. It asks the server for nothing before Run.
func (c *Connection) Survey(without ...schema.GroupResource) (*Survey, error) {
	client, err := metadata.NewForConfig(c.direct)
	if err != nil {
		return nil, err
	}
	s := &Survey{component: c.component, arrivals: make(chan surveyed, arrivalsMax)}
	s.discovery = &discoverer{
		name: c.component.Name() + " survey", client: client, discover: c.discovery, without: without,
		timeout: c.factory.timeout, tell: s.tell, again: make(chan struct{}, 1),
	}
	c.start(s.discovery)
	return s, nil
}

// tell puts an arrival where the component finds it.
func (s *Survey) tell(ctx context.Context, a surveyed) error {
	select {
	case s.arrivals <- a:
		s.component.Wake()
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
func (s *Survey) Follow(concerns func(kind schema.GroupVersionKind, was, is metav1.Object) bool,
	take func(kind schema.GroupVersionKind, was, is metav1.Object),
) {
	s.concerns, s.take = concerns, take
	s.component.Delivery("survey", func() bool { return len(s.arrivals) > 0 }, s.step)
	s.component.Gate(s.HasSynced)
}

// HasSynced tells whether all resources that were served at first have listed. It may be called from anywhere.
func (s *Survey) HasSynced() bool { return s.synced.Load() }

// Mapping tells the resource that serves a kind, whether it is namespaced, and whether there is one.
func (s *Survey) Mapping(kind schema.GroupVersionKind) (r schema.GroupVersionResource, namespaced, ok bool) {
	is, ok := s.served[kind]
	return is.GroupVersionResource, is.namespaced, ok
}

// Seen returns the object of a kind with a UID as the component has seen it, or nil. It is looked for under the name, and
// then among all of the kind.
func (s *Survey) Seen(kind schema.GroupVersionKind, namespace, name string, uid types.UID) metav1.Object {
	t := s.tracks[kind.GroupKind()]
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

// step takes in one arrival.
func (s *Survey) step() {
	a := <-s.arrivals // there is one: nobody else takes them
	switch {
	case a.err != nil && a.about == nil:
		s.note("ERROR", "*", trace.Outcome{Err: a.err})
	case a.found != nil:
		s.accept(a.found)
	case s.tracks[a.about.kind.GroupKind()] != a.about: // it is not served any more
	case a.err != nil:
		s.note("ERROR", a.about.resource.Resource, trace.Outcome{Err: a.err})
	case a.list:
		n := s.takeList(a.about, a.objects)
		s.note("LIST", a.about.resource.Resource, trace.Outcome{Detail: strconv.Itoa(n) + " items rv=" + a.revision})
	default:
		s.takeOne(a.about, a.object.(metav1.Object), a.gone)
	}
	if !s.synced.Load() && s.tracks != nil && !slices.ContainsFunc(slices.Collect(maps.Values(s.tracks)), (*track).waits) {
		s.synced.Store(true)
	}
}

func (t *track) waits() bool { return !t.listed }

// accept follows the resources that come and go.
func (s *Survey) accept(is *found) {
	before := s.served
	s.served, s.tracks = is.served, is.tracks
	if before == nil {
		return
	}
	for _, kind := range slices.SortedFunc(maps.Keys(is.served), byWords) {
		if _, had := before[kind]; !had && s.concerns(kind, nil, nil) {
			s.take(kind, nil, nil)
		}
	}
}

// byWords orders kinds.
func byWords(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) }

// takeOne takes in what became of one object.
func (s *Survey) takeOne(t *track, obj metav1.Object, gone bool) {
	key := keyOf(obj)
	was := t.objects[key]
	kind, told := "MODIFIED", false
	switch {
	case gone:
		kind = "DELETED"
		delete(t.objects, key)
		told = was != nil && s.change(t, was, nil)
	case was == nil:
		kind = "ADDED"
		t.objects[key] = obj
		told = s.change(t, nil, obj)
	case was.GetUID() != obj.GetUID():
		t.objects[key] = obj
		told = s.change(t, was, nil)
		told = s.change(t, nil, obj) || told
	default:
		t.objects[key] = obj
		told = s.change(t, was, obj)
	}
	if told {
		s.note(kind, t.resource.Resource+"/"+key, trace.Outcome{Detail: "rv=" + obj.GetResourceVersion()})
	}
}

// takeList tells the follower how a list differs from what it knows, what went first, and counts what was told.
func (s *Survey) takeList(t *track, all []any) (told int) {
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
			count(s.change(t, was[key], nil))
			delete(was, key)
		}
	}
	for _, obj := range all {
		before := was[keyOf(obj)] // nil: it comes
		count(s.change(t, before, obj.(metav1.Object)))
	}
	return told
}

// change tells the follower of a change if it concerns it, and whether it does.
func (s *Survey) change(t *track, was, is metav1.Object) bool {
	if !s.concerns(t.kind, was, is) {
		return false
	}
	s.take(t.kind, was, is)
	return true
}

func (s *Survey) note(verb, object string, out trace.Outcome) {
	s.component.Note(trace.Action{Kind: trace.KindDeliver, Verb: verb, Object: object}, out)
}
