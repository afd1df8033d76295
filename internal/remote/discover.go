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

// discovered is what discovery found.
type discovered struct {
	watched map[schema.GroupKind]*watchedResource
	served  map[schema.GroupVersionKind]servedResource
}

// discoverer finds out what is served, and has a reflector for each resource that can be watched and deleted.
type discoverer struct {
	name       string
	client     metadata.Interface
	discover   discovery.DiscoveryInterface
	excluded   []schema.GroupResource
	timeout    time.Duration
	notify     func(ctx context.Context, a metadataNotification) error
	rediscover chan struct{} // there may be news; holds at most one token

	watched   map[schema.GroupKind]*watchedResource
	stops     map[*watchedResource]context.CancelFunc
	lastError string // the last one
	wg        sync.WaitGroup
}

// run looks again and again until ctx ends.
func (d *discoverer) run(ctx context.Context) {
	defer d.wg.Wait()
	d.watched, d.stops = map[schema.GroupKind]*watchedResource{}, map[*watchedResource]context.CancelFunc{}
	news := false
	for ctx.Err() == nil {
		pause := discoverPeriod
		if !d.discoverOnce(ctx) || news {
			pause = discoverSoon
		}
		timer := clock.RealClock{}.NewTimer(pause)
		news = false
		select {
		case <-d.rediscover:
			news = true
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// discoveryResult is what the server says that it serves.
type discoveryResult struct {
	all, preferred []*metav1.APIResourceList
	err            error
}

// discoverOnce finds out what is served now, and tells whether it could. Where a part of it cannot be found out, nothing is taken
// for gone.
func (d *discoverer) discoverOnce(ctx context.Context) bool {
	answered := make(chan discoveryResult, 1)
	go func() { // discovery knows of no context; its requests have a limit of time
		var a discoveryResult
		_, a.all, a.err = d.discover.ServerGroupsAndResources()
		if len(a.all) > 0 {
			var err error
			a.preferred, err = d.discover.ServerPreferredResources()
			a.err = errors.Join(a.err, err)
		}
		answered <- a
	}()
	var a discoveryResult
	select {
	case <-ctx.Done():
		return false
	case a = <-answered:
	}
	d.reportError(ctx, a.err)
	if len(a.preferred) > 0 {
		d.apply(ctx, a)
	}
	return len(a.preferred) > 0
}

// reportError tells an error, the same one again once.
func (d *discoverer) reportError(ctx context.Context, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != d.lastError {
		_ = d.notify(ctx, metadataNotification{notification: notification{err: err}}) // it fails when ctx ends: then nobody listens
	}
	d.lastError = text
}

// apply begins and ends reflectors, and tells what is served.
func (d *discoverer) apply(ctx context.Context, a discoveryResult) {
	is := &discovered{watched: map[schema.GroupKind]*watchedResource{}, served: map[schema.GroupVersionKind]servedResource{}}
	eachResource(a.all, func(kind schema.GroupVersionKind, r servedResource, _ metav1.Verbs) { is.served[kind] = r })
	var begun []*watchedResource
	eachResource(a.preferred, func(kind schema.GroupVersionKind, r servedResource, verbs metav1.Verbs) {
		is.served[kind] = r // what is asked for second may know of more
		if slices.Contains(d.excluded, r.GroupResource()) || !isWatchable(verbs) {
			return
		}
		t := d.watched[kind.GroupKind()]
		if t == nil || t.kind != kind {
			t = &watchedResource{resource: r, kind: kind}
			begun = append(begun, t)
		}
		is.watched[kind.GroupKind()] = t
	})
	for kind, t := range d.watched {
		switch {
		case is.watched[kind] == t:
		case is.watched[kind] == nil && a.err != nil:
			is.watched[kind], is.served[t.kind] = t, t.resource
		default:
			d.stops[t]()
			delete(d.stops, t)
		}
	}
	d.watched = is.watched // from now on nobody changes it
	if d.notify(ctx, metadataNotification{discovered: is}) == nil {
		for _, t := range begun {
			d.startReflector(ctx, t)
		}
	}
}

// isWatchable tells whether a resource can be followed, and what is in it can go.
func isWatchable(verbs metav1.Verbs) bool {
	return !slices.ContainsFunc([]string{"delete", "list", "watch"}, func(verb string) bool { return !slices.Contains(verbs, verb) })
}

// eachResource calls f for each resource of lists, in their order. The first of a kind counts.
func eachResource(lists []*metav1.APIResourceList, f func(kind schema.GroupVersionKind, r servedResource, verbs metav1.Verbs)) {
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
				f(kind, servedResource{gv.WithResource(r.Name), r.Namespaced}, r.Verbs)
			}
		}
	}
}

// startReflector begins the reflector of a resource.
func (d *discoverer) startReflector(ctx context.Context, t *watchedResource) {
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
		notify: func(ctx context.Context, a notification) error {
			if news && a.object != nil {
				d.triggerDiscovery()
			}
			return d.notify(ctx, metadataNotification{notification: a, about: t})
		},
	}
	d.wg.Go(func() { r.run(ctx) })
}

// triggerDiscovery says that there may be news of what is served.
func (d *discoverer) triggerDiscovery() {
	select {
	case d.rediscover <- struct{}{}:
	default:
	}
}
