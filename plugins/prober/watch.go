package prober

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// Watch tells of what changes in the directory, as the file system tells it, until ctx ends: then it returns nil. It makes
// the directory if it is not there, and begins by telling of all that is in it. It is for a directory of this machine, beside a
// live host, on a goroutine of its own. The error is that the directory cannot be made or watched.
//
// Upstream: pkg/volume/flexvolume flexVolumeProber.initWatcher, handleWatchEvent (v1.36).
func (d *Directory) Watch(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch driver directories: %w", err)
	}
	defer watcher.Close()
	w := watch{Directory: d, watcher: watcher, dir: filepath.Clean(d.cfg.Dir)}
	for {
		if err := w.all(); err != nil {
			return fmt.Errorf("watch driver directories: %w", err)
		}
		if w.follow(ctx) {
			return nil
		}
	}
}

// watch is a directory that is watched, with those in it.
type watch struct {
	*Directory
	watcher *fsnotify.Watcher
	dir     string
}

// all watches the directory and those in it, and only then tells of them: what changes afterwards is told by the file system.
func (w watch) all() error {
	if err := w.cfg.FS.MkdirAll(w.dir); err != nil {
		return err
	}
	if err := w.watcher.Add(w.dir); err != nil {
		return err
	}
	names, err := w.cfg.FS.ReadDir(w.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		w.within(name)
	}
	w.Notify("")
	return nil
}

// within watches what is in a driver's directory. What is no directory, or none any more, has nothing in it that matters.
func (w watch) within(name string) {
	if !ignored(name) {
		_ = w.watcher.Add(filepath.Join(w.dir, name))
	}
}

// follow tells of what changes, until ctx ends or something was missed: the directory itself is gone, or there was more than
// the kernel keeps. It returns whether ctx has ended.
func (w watch) follow(ctx context.Context) (ended bool) {
	for {
		select {
		case <-ctx.Done():
			return true
		case <-w.watcher.Errors:
			return false
		case event := <-w.watcher.Events:
			if !w.event(event) {
				return false
			}
		}
	}
}

// event takes in one event. It returns false when the directory itself is gone.
func (w watch) event(event fsnotify.Event) bool {
	gone := event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename)
	if event.Name == w.dir {
		return !gone
	}
	rel, err := filepath.Rel(w.dir, event.Name)
	if err != nil {
		return true
	}
	parts := strings.Split(rel, string(filepath.Separator))
	switch name := parts[0]; {
	case len(parts) == 1 && event.Has(fsnotify.Create):
		w.within(name)
		w.Notify(name)
	case len(parts) == 1 && gone, slices.Equal(parts[1:], []string{programOf(name)}):
		w.Notify(name)
	}
	return true
}
