package watchdir

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/fsnotify/fsnotify"
)

// Off makes each later Watch wait for the end of its context only. It is for tests in a bubble of testing/synctest,
// whose time stands still while a goroutine waits for the file system.
var Off atomic.Bool

// Watch watches directories of this machine until ctx ends; then it returns nil. It calls begin,
// which adds directories to a new watcher, and then onEvent for each event. When events may have
// been missed it begins again: if onEvent returns false, or the kernel's queue has overflowed. The
// error is that of begin, or that there is no watcher. what is for the error's text.
//
// Each round has a new watcher: one that watched a removed directory confuses it with a new
// directory of the same name.
func Watch(
	ctx context.Context, what string, begin func(*fsnotify.Watcher) error,
	onEvent func(*fsnotify.Watcher, fsnotify.Event) bool,
) error {
	if Off.Load() {
		<-ctx.Done()
		return nil
	}
	for {
		ended, err := watchOnce(ctx, begin, onEvent)
		if err != nil {
			return fmt.Errorf("watch %s: %w", what, err)
		}
		if ended {
			return nil
		}
	}
}

// watchOnce watches until ctx ends or events may have been missed. It reports whether ctx has
// ended.
func watchOnce(
	ctx context.Context, begin func(*fsnotify.Watcher) error, onEvent func(*fsnotify.Watcher, fsnotify.Event) bool,
) (ended bool, err error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return false, err
	}
	defer watcher.Close()
	if err := begin(watcher); err != nil {
		return false, err
	}
	for {
		select {
		case <-ctx.Done():
			return true, nil
		case <-watcher.Errors:
			return false, nil
		case event := <-watcher.Events:
			if !onEvent(watcher, event) {
				return false, nil
			}
		}
	}
}
