package lvm2

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// batcher collects changes that wait for the metadata. Most of the time of a command goes into
// reading the metadata of the whole volume group. So the first caller runs one command for the
// volumes of all callers that wait.
type batcher struct {
	mu      sync.Mutex
	waiting map[string][]*batchRequest // by command
}

// batchRequest asks for a command to be run with some volumes.
type batchRequest struct {
	names []string
	// after, if not nil, is called when the command has succeeded, before anything else changes.
	after func() error
	// retryError, if not nil, filters the error of a second attempt.
	retryError func(error) error

	taken bool  // another caller runs it or has run it
	err   error // valid once it is taken and the metadata is unlocked
}

func (c *batcher) add(command string, w *batchRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		c.waiting = map[string][]*batchRequest{}
	}
	c.waiting[command] = append(c.waiting[command], w)
}

// withdraw removes a request that is not taken. It reports false if it is.
func (c *batcher) withdraw(command string, w *batchRequest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.taken {
		return false
	}
	c.waiting[command] = slices.DeleteFunc(c.waiting[command], func(each *batchRequest) bool { return each == w })
	return true
}

// take returns all requests for a command, or nil if another caller has run w.
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

// batch runs a command with a request's volumes as its last arguments, together with those of all
// callers that wait for the same command. The caller holds the locks of its volumes, and not that
// of the metadata. A command that fails for several requests is run again for each, so it must be
// safe to run twice.
func (g *VolumeGroup) batch(ctx context.Context, command []string, w *batchRequest) error {
	key := strings.Join(command, "\x00")
	g.batches.add(key, w)
	if err := g.lockMetadata(ctx); err != nil {
		if g.batches.withdraw(key, w) {
			return err
		}
		// Another caller is running it and holds the metadata until it is done.
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
		ctx = context.WithoutCancel(ctx) // the other callers have not given up
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

// runFor runs a command with the volumes of requests, and sets their results.
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

// finish sets the result.
func (w *batchRequest) finish(err error) {
	if err == nil && w.after != nil {
		err = w.after()
	}
	w.err = err
}
