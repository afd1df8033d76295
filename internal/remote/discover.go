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

// The pause between two discoveries, and after one that failed. A change of a
// CustomResourceDefinition or of an APIService triggers two discoveries: one at once and one soon
// after, since the server needs a moment to act on it.
//
// Upstream: cmd/kube-controller-manager/app startGarbageCollectorController.
const (
	discoverPeriod = 30 * time.Second
	discoverSoon   = 2 * time.Second
)

// discovered is the result of discovery.
type discovered struct {
	watched map[schema.GroupKind]*watchedResource
	served  map[schema.GroupVersionKind]servedResource
}

// discoverer discovers the served resources, and runs a reflector for each one that can be watched
// and deleted.
type discoverer struct {
	name       string
	client     metadata.Interface
	discover   discovery.DiscoveryInterface
	excluded   []schema.GroupResource
	timeout    time.Duration
	notify     func(ctx context.Context, a metadataNotification) error
	rediscover chan struct{} // resources may have changed; holds at most one token

	watched   map[schema.GroupKind]*watchedResource
	stops     map[*watchedResource]context.CancelFunc
	lastError string // the last one reported
	wg        sync.WaitGroup
}

// run discovers repeatedly until ctx ends.
func (d *discoverer) run(ctx context.Context) {
	defer d.wg.Wait()
	d.watched, d.stops = map[schema.GroupKind]*watchedResource{}, map[*watchedResource]context.CancelFunc{}
	changed := false
	for ctx.Err() == nil {
		pause := discoverPeriod
		if !d.discoverOnce(ctx) || changed {
			pause = discoverSoon
		}
		timer := clock.RealClock{}.NewTimer(pause)
		changed = false
		select {
		case <-d.rediscover:
			changed = true
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// discoveryResult is the server's answer to discovery.
type discoveryResult struct {
	all, preferred []*metav1.APIResourceList
	err            error
}

// discoverOnce discovers the served resources, and reports whether it succeeded. If a part fails,
// no resource is considered removed.
func (d *discoverer) discoverOnce(ctx context.Context) bool {
	answered := make(chan discoveryResult, 1)
	go func() { // discovery takes no context; its requests have a timeout
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

// reportError reports an error to the process. The same error is reported once in a row.
func (d *discoverer) reportError(ctx context.Context, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != d.lastError {
		_ = d.notify(ctx, metadataNotification{notification: notification{err: err}}) // fails only when ctx has ended
	}
	d.lastError = text
}

// apply starts and stops reflectors, and passes the result to the process.
func (d *discoverer) apply(ctx context.Context, a discoveryResult) {
	result := &discovered{
		watched: map[schema.GroupKind]*watchedResource{}, served: map[schema.GroupVersionKind]servedResource{},
	}
	eachResource(a.all, func(kind schema.GroupVersionKind, r servedResource,
		_ metav1.Verbs,
	) {
		result.served[kind] = r
	})
	var started []*watchedResource
	eachResource(a.preferred, func(kind schema.GroupVersionKind, r servedResource, verbs metav1.Verbs) {
		result.served[kind] = r // the second request may have found more
		if slices.Contains(d.excluded, r.GroupResource()) || !isWatchable(verbs) {
			return
		}
		t := d.watched[kind.GroupKind()]
		if t == nil || t.kind != kind {
			t = &watchedResource{resource: r, kind: kind}
			started = append(started, t)
		}
		result.watched[kind.GroupKind()] = t
	})
	for kind, t := range d.watched {
		switch {
		case result.watched[kind] == t:
		case result.watched[kind] == nil && a.err != nil:
			result.watched[kind], result.served[t.kind] = t, t.resource
		default:
			d.stops[t]()
			delete(d.stops, t)
		}
	}
	d.watched = result.watched // read-only from here on
	if d.notify(ctx, metadataNotification{discovered: result}) == nil {
		for _, t := range started {
			d.startReflector(ctx, t)
		}
	}
}

// isWatchable reports whether a resource can be listed, watched and deleted from.
func isWatchable(verbs metav1.Verbs) bool {
	return !slices.ContainsFunc([]string{"delete", "list", "watch"},
		func(verb string) bool { return !slices.Contains(verbs, verb) })
}

// eachResource calls f for each resource of lists, in their order. Of each kind, the first one
// counts.
func eachResource(
	lists []*metav1.APIResourceList, f func(kind schema.GroupVersionKind, r servedResource, verbs metav1.Verbs),
) {
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

// startReflector starts the reflector of a resource.
func (d *discoverer) startReflector(ctx context.Context, t *watchedResource) {
	ctx, d.stops[t] = context.WithCancel(ctx)
	client := d.client.Resource(t.resource.GroupVersionResource)
	changed := t.resource.Group == "apiextensions.k8s.io" || t.resource.Group == "apiregistration.k8s.io"
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
			if changed && a.object != nil {
				d.triggerDiscovery()
			}
			return d.notify(ctx, metadataNotification{notification: a, about: t})
		},
	}
	d.wg.Go(func() { r.run(ctx) })
}

// triggerDiscovery requests a discovery.
func (d *discoverer) triggerDiscovery() {
	select {
	case d.rediscover <- struct{}{}:
	default:
	}
}
