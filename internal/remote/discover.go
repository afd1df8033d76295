package remote

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// How long to wait between two looks at what is served, and after one that failed. A change of a definition of custom
// resources, or of an APIService, is a reason to look at once, and soon again: the server needs a moment to act on it.
//
// Upstream: cmd/kube-controller-manager/app startGarbageCollectorController.
const (
	discoverPeriod = 30 * time.Second
	discoverSoon   = 2 * time.Second
)

// found is what discovery found.
type found struct {
	tracks map[schema.GroupKind]*track
	served map[schema.GroupVersionKind]server
}

// discoverer finds out what is served, and has a reflector for each resource that can be watched and deleted.
type discoverer struct {
	name     string
	client   metadata.Interface
	discover discovery.DiscoveryInterface
	without  []schema.GroupResource
	timeout  time.Duration
	tell     func(ctx context.Context, a surveyed) error
	again    chan struct{} // there may be news; holds at most one token

	tracks    map[schema.GroupKind]*track
	stops     map[*track]context.CancelFunc
	complaint string // the last one
	wg        sync.WaitGroup
}

// run looks again and again until ctx ends.
func (d *discoverer) run(ctx context.Context) {
	defer d.wg.Wait()
	d.tracks, d.stops = map[schema.GroupKind]*track{}, map[*track]context.CancelFunc{}
	news := false
	for ctx.Err() == nil {
		pause := discoverPeriod
		if !d.look(ctx) || news {
			pause = discoverSoon
		}
		timer := clock.RealClock{}.NewTimer(pause)
		news = false
		select {
		case <-d.again:
			news = true
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// answer is what the server says that it serves.
type answer struct {
	all, preferred []*metav1.APIResourceList
	err            error
}

// look finds out what is served now, and tells whether it could. Where a part of it cannot be found out, nothing is taken
// for gone.
func (d *discoverer) look(ctx context.Context) bool {
	answered := make(chan answer, 1)
	go func() { // discovery knows of no context; its requests have a limit of time
		var a answer
		_, a.all, a.err = d.discover.ServerGroupsAndResources()
		if len(a.all) > 0 {
			var err error
			a.preferred, err = d.discover.ServerPreferredResources()
			a.err = errors.Join(a.err, err)
		}
		answered <- a
	}()
	var a answer
	select {
	case <-ctx.Done():
		return false
	case a = <-answered:
	}
	d.complain(ctx, a.err)
	if len(a.preferred) > 0 {
		d.accept(ctx, a)
	}
	return len(a.preferred) > 0
}

// complain tells an error, the same one again once.
func (d *discoverer) complain(ctx context.Context, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != d.complaint {
		_ = d.tell(ctx, surveyed{arrival: arrival{err: err}}) // it fails when ctx ends: then nobody listens
	}
	d.complaint = text
}

// accept begins and ends reflectors, and tells what is served.
func (d *discoverer) accept(ctx context.Context, a answer) {
	is := &found{tracks: map[schema.GroupKind]*track{}, served: map[schema.GroupVersionKind]server{}}
	eachResource(a.all, func(kind schema.GroupVersionKind, r server, _ metav1.Verbs) { is.served[kind] = r })
	var begun []*track
	eachResource(a.preferred, func(kind schema.GroupVersionKind, r server, verbs metav1.Verbs) {
		is.served[kind] = r // what is asked for second may know of more
		if slices.Contains(d.without, r.GroupResource()) || !discoverable(verbs) {
			return
		}
		t := d.tracks[kind.GroupKind()]
		if t == nil || t.kind != kind {
			t = &track{resource: r, kind: kind}
			begun = append(begun, t)
		}
		is.tracks[kind.GroupKind()] = t
	})
	for kind, t := range d.tracks {
		switch {
		case is.tracks[kind] == t:
		case is.tracks[kind] == nil && a.err != nil:
			is.tracks[kind], is.served[t.kind] = t, t.resource
		default:
			d.stops[t]()
			delete(d.stops, t)
		}
	}
	d.tracks = is.tracks // from now on nobody changes it
	if d.tell(ctx, surveyed{found: is}) == nil {
		for _, t := range begun {
			d.begin(ctx, t)
		}
	}
}

// discoverable tells whether a resource can be followed, and what is in it can go.
func discoverable(verbs metav1.Verbs) bool {
	return !slices.ContainsFunc([]string{"delete", "list", "watch"}, func(verb string) bool { return !slices.Contains(verbs, verb) })
}

// eachResource calls f for each resource of lists, in their order. The first of a kind counts.
func eachResource(lists []*metav1.APIResourceList, f func(kind schema.GroupVersionKind, r server, verbs metav1.Verbs)) {
	seen := map[schema.GroupVersionKind]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			kind := gv.WithKind(r.Kind)
			if !strings.Contains(r.Name, "/") && !seen[kind] {
				seen[kind] = true
				f(kind, server{gv.WithResource(r.Name), r.Namespaced}, r.Verbs)
			}
		}
	}
}

// begin begins the reflector of a resource.
func (d *discoverer) begin(ctx context.Context, t *track) {
	ctx, d.stops[t] = context.WithCancel(ctx)
	client := d.client.Resource(t.resource.GroupVersionResource)
	news := t.resource.Group == "apiextensions.k8s.io" || t.resource.Group == "apiregistration.k8s.io"
	r := reflector{
		name: d.name + " " + t.resource.Resource, example: &metav1.PartialObjectMetadata{}, timeout: d.timeout,
		source: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
				return client.List(ctx, opts)
			},
			WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
				return client.Watch(ctx, opts)
			},
		},
		tell: func(ctx context.Context, a arrival) error {
			if news && a.object != nil {
				d.lookAgain()
			}
			return d.tell(ctx, surveyed{arrival: a, about: t})
		},
	}
	d.wg.Go(func() { r.run(ctx) })
}

// lookAgain says that there may be news of what is served.
func (d *discoverer) lookAgain() {
	select {
	case d.again <- struct{}{}:
	default:
	}
}
