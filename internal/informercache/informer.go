package informercache

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/tools/cache"
)

// registration is a handler of a view.
type registration struct {
	informer *Informer
	handler  cache.ResourceEventHandler
}

// HasSynced tells whether the handler has seen the initial list, which it has when the view has.
func (r *registration) HasSynced() bool { return r.informer.HasSynced() }

// HasSyncedChecker is done when HasSynced is true.
func (r *registration) HasSyncedChecker() cache.DoneChecker { return r.informer.HasSyncedChecker() }

// AddEventHandler adds a handler. If the view has listed, the handler hears of all that is in it before this returns.
func (v *Informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	r := &registration{informer: v, handler: h}
	v.handlers = append(v.handlers[:len(v.handlers):len(v.handlers)], r)
	if v.synced.Load() {
		for _, obj := range v.indexer.List() {
			h.OnAdd(obj, true)
		}
	}
	return r, nil
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

// RemoveEventHandler takes a handler out; one that is not there is no error.
func (v *Informer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	v.handlers = slices.DeleteFunc(slices.Clone(v.handlers),
		func(r *registration) bool { return cache.ResourceEventHandlerRegistration(r) == handle })
	return nil
}

// GetStore returns the view's objects.
func (v *Informer) GetStore() cache.Store { return &v.indexer }

// GetIndexer returns the view's objects.
func (v *Informer) GetIndexer() cache.Indexer { return &v.indexer }

// AddIndexers adds indices, also over what is in the view already.
func (v *Informer) AddIndexers(indexers cache.Indexers) error { return v.indexer.AddIndexers(indexers) }

// GetController returns the view.
func (v *Informer) GetController() cache.Controller { return v }

// Run waits until stop is closed. The view is moved by its host.
func (v *Informer) Run(stop <-chan struct{}) { <-stop }

// RunWithContext waits until ctx ends. The view is moved by its host.
func (v *Informer) RunWithContext(ctx context.Context) { <-ctx.Done() }

// HasSynced tells whether the view has listed.
func (v *Informer) HasSynced() bool { return v.synced.Load() }

// HasSyncedChecker is done when HasSynced is true.
func (v *Informer) HasSyncedChecker() cache.DoneChecker { return syncChecker{v} }

// LastSyncResourceVersion is the revision that the view has come to.
func (v *Informer) LastSyncResourceVersion() string { return v.revision }

// SetWatchErrorHandler does nothing: there is no watch that could fail.
func (v *Informer) SetWatchErrorHandler(cache.WatchErrorHandler) error { return nil }

// SetWatchErrorHandlerWithContext does nothing: there is no watch that could fail.
func (v *Informer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return nil
}

// SetTransform has f change a copy of each object before it comes into the view. It fails once the view has listed. An
// error of f panics.
func (v *Informer) SetTransform(f cache.TransformFunc) error {
	if v.synced.Load() {
		return fmt.Errorf("informer has already started")
	}
	v.transform = f
	return nil
}

// IsStopped returns false.
func (v *Informer) IsStopped() bool { return false }

// syncChecker tells when a view has listed.
type syncChecker struct{ informer *Informer }

// Name names what is waited for.
func (c syncChecker) Name() string { return c.informer.name }

// Done is closed when the view has listed.
func (c syncChecker) Done() <-chan struct{} { return c.informer.done }
