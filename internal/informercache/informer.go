package informercache

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/tools/cache"
)

// registration is a handler of an informer.
type registration struct {
	*cache.FIFO // of the informer
	informer    *Informer
	handler     cache.ResourceEventHandler
}

// HasSynced reports whether the handler has received the initial list, which it has when the
// informer has.
func (r *registration) HasSynced() bool { return r.informer.HasSynced() }

// AddEventHandler adds a handler. If the informer has listed, the handler receives all objects
// before the call returns.
func (v *Informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	r := v.register(h)
	v.handlers = append(v.handlers, r) // a call of the handlers in progress has the slice up to here
	if v.synced.Load() {
		for _, obj := range v.indexer.List() {
			h.OnAdd(obj, true)
		}
	}
	return r, nil
}

// register returns the registration of a handler.
func (v *Informer) register(h cache.ResourceEventHandler) *registration {
	n := len(v.handlers)
	if n == cap(v.handlers) {
		return &registration{FIFO: v.FIFO, informer: v, handler: h}
	}
	r := v.handlers[:n+1][n] // of another world; see Reset
	if r == nil {
		r = &registration{}
	}
	*r = registration{FIFO: v.FIFO, informer: v, handler: h}
	return r
}

// AddEventHandlerWithResyncPeriod is AddEventHandler: there is no resync.
func (v *Informer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler,
	_ time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return v.AddEventHandler(h)
}

// AddEventHandlerWithOptions is AddEventHandler: there is no resync.
func (v *Informer) AddEventHandlerWithOptions(h cache.ResourceEventHandler,
	_ cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return v.AddEventHandler(h)
}

// RemoveEventHandler removes a handler. An unknown handler is no error.
func (v *Informer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	v.handlers = slices.DeleteFunc(slices.Clone(v.handlers),
		func(r *registration) bool { return cache.ResourceEventHandlerRegistration(r) == handle })
	return nil
}

// GetStore returns the cache.
func (v *Informer) GetStore() cache.Store { return &v.indexer }

// GetIndexer returns the cache.
func (v *Informer) GetIndexer() cache.Indexer { return &v.indexer }

// AddIndexers adds indices, and fills them with the existing objects.
func (v *Informer) AddIndexers(indexers cache.Indexers) error { return v.indexer.AddIndexers(indexers) }

// GetController returns the informer.
func (v *Informer) GetController() cache.Controller { return v }

// Run waits until stop is closed. The informer's owner applies the changes.
func (v *Informer) Run(stop <-chan struct{}) { <-stop }

// RunWithContext waits until ctx ends. The informer's owner applies the changes.
func (v *Informer) RunWithContext(ctx context.Context) { <-ctx.Done() }

// HasSynced reports whether the informer has listed. It may be called concurrently.
func (v *Informer) HasSynced() bool { return v.synced.Load() }

// LastSyncResourceVersion returns the revision of the last change.
func (v *Informer) LastSyncResourceVersion() string { return v.revision }

// SetWatchErrorHandler does nothing: there is no watch.
func (v *Informer) SetWatchErrorHandler(cache.WatchErrorHandler) error { return nil }

// SetWatchErrorHandlerWithContext does nothing: there is no watch.
func (v *Informer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return nil
}

// SetTransform sets a function that transforms a copy of each object before it enters the cache. It
// fails once the informer has listed. An error of f panics.
func (v *Informer) SetTransform(f cache.TransformFunc) error {
	if v.synced.Load() {
		return fmt.Errorf("informer has already started")
	}
	v.transform = f
	return nil
}

// IsStopped reports whether the informer has stopped, which it never does.
func (v *Informer) IsStopped() bool { return false }
