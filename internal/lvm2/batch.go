package lvm2

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// batcher are changes that wait for the metadata. Those that LVM can make of several
// volumes by one command, whoever gets there first makes for all who wait: most of
// what a command takes is to read the metadata of the whole volume group.
type batcher struct {
	mu      sync.Mutex
	waiting map[string][]*batchRequest // by the command
}

// batchRequest is one who wants a command to be run with its volumes.
type batchRequest struct {
	names []string
	// after, if not nil, is called once the command has succeeded, before anything else
	// is changed.
	after func() error
	// retryError, if not nil, tells of a second time which failure is none.
	retryError func(error) error

	taken bool  // somebody runs it, or has
	err   error // once it is taken and the metadata is free again
}

func (c *batcher) add(command string, w *batchRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		c.waiting = map[string][]*batchRequest{}
	}
	c.waiting[command] = append(c.waiting[command], w)
}

// withdraw takes back what nobody has begun; false if somebody has.
func (c *batcher) withdraw(command string, w *batchRequest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.taken {
		return false
	}
	c.waiting[command] = slices.DeleteFunc(c.waiting[command], func(each *batchRequest) bool { return each == w })
	return true
}

// take returns all who wait for a command, unless somebody has run it for w.
func (c *batcher) take(command string, w *batchRequest) []*batchRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.taken {
		return nil
	}
	all := c.waiting[command]
	delete(c.waiting, command)
	for _, each := range all {
		each.taken = true
	}
	return all
}

// batch runs a command with a waiter's volumes as its last arguments, and with
// those of all others who wait to run the same. Whoever calls it has the locks of
// its volumes, and not that of the metadata. A command that fails for several is
// run again for each, so it must be one that may be run twice.
func (g *VolumeGroup) batch(ctx context.Context, command []string, w *batchRequest) error {
	key := strings.Join(command, "\x00")
	g.batches.add(key, w)
	if err := g.lockMetadata(ctx); err != nil {
		if g.batches.withdraw(key, w) {
			return err
		}
		// It is being done. Whoever does it holds the metadata until it is.
		if err := g.lockMetadata(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	defer g.metadata.Release(1)
	if err := ctx.Err(); err != nil && g.batches.withdraw(key, w) {
		return err
	}
	all := g.batches.take(key, w)
	if len(all) > 1 {
		ctx = context.WithoutCancel(ctx) // the others have not given up
	}
	if len(all) > 1 && g.runFor(ctx, command, all...) == nil {
		return w.err
	}
	for _, each := range all {
		if err := g.runFor(ctx, command, each); err != nil && len(all) > 1 && each.retryError != nil {
			each.finish(each.retryError(err))
		}
	}
	return w.err
}

// runFor runs a command with the volumes of waiters. If it succeeds they have what they wanted.
func (g *VolumeGroup) runFor(ctx context.Context, command []string, waiters ...*batchRequest) error {
	arguments := slices.Clone(command)
	for _, each := range waiters {
		for _, name := range each.names {
			arguments = append(arguments, g.name+"/"+name)
		}
	}
	_, err := g.system.lvm(ctx, arguments...)
	for _, each := range waiters {
		each.finish(err)
	}
	return err
}

// finish sets what came of it.
func (w *batchRequest) finish(err error) {
	if err == nil && w.after != nil {
		err = w.after()
	}
	w.err = err
}
