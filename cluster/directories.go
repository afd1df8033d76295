package cluster

import (
	"context"
	"errors"
	"sync"
)

// directories are the directories of this machine that components watch, next to a live host: each on
// a goroutine of its own, from the start of the world, or of the component, until either ends.
type directories struct {
	mu          sync.Mutex
	began       bool                   // guarded by mu
	closed      bool                   // guarded by mu
	byComponent map[string]*dirWatches // guarded by mu
	errs        []error                // guarded by mu
}

// dirWatches are the directories that one component watches.
type dirWatches struct {
	ctx     context.Context //nolint:containedctx // ends with the component
	stop    context.CancelFunc
	waiting []func(ctx context.Context) error // for the start of the world
	running sync.WaitGroup
}

// add adds a directory that a component watches. watch returns nil when its context ends.
func (d *directories) add(component string, watch func(ctx context.Context) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byComponent == nil {
		d.byComponent = map[string]*dirWatches{}
	}
	of := d.byComponent[component]
	if of == nil {
		of = &dirWatches{}
		of.ctx, of.stop = context.WithCancel(context.Background())
		d.byComponent[component] = of
	}
	of.waiting = append(of.waiting, watch)
	if d.began && !d.closed {
		d.run(of)
	}
}

// run runs the watches that wait. The caller holds mu.
func (d *directories) run(of *dirWatches) {
	for _, watch := range of.waiting {
		of.running.Go(func() {
			err := watch(of.ctx)
			d.mu.Lock()
			defer d.mu.Unlock()
			d.errs = append(d.errs, err)
		})
	}
	of.waiting = nil
}

// begin begins to watch. Further calls do nothing.
func (d *directories) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.began || d.closed {
		return
	}
	d.began = true
	for _, of := range d.byComponent {
		d.run(of)
	}
}

// remove ends the watches of a component.
func (d *directories) remove(component string) {
	d.mu.Lock()
	of := d.byComponent[component]
	delete(d.byComponent, component)
	d.mu.Unlock()
	of.end()
}

// end ends watches and returns when they have returned.
func (w *dirWatches) end() {
	if w != nil {
		w.stop()
		w.running.Wait()
	}
}

// close ends all watches and returns their errors.
func (d *directories) close() error {
	d.mu.Lock()
	d.closed = true
	all := d.byComponent
	d.byComponent = nil
	d.mu.Unlock()
	for _, of := range all {
		of.end()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(d.errs...)
}
