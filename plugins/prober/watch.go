package prober

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"

	"github.com/volsim/volsim/internal/watchdir"
)

// Watch calls Notify for each change that the file system reports, until ctx ends; then it returns
// nil. It creates the directory if necessary, and begins with everything in it. It is for a
// directory of this machine and a live host, on a goroutine of its own. It returns an error if the
// directory cannot be created or watched.
//
// Upstream: pkg/volume/flexvolume flexVolumeProber.initWatcher, handleWatchEvent (v1.36).
func (d *Directory) Watch(ctx context.Context) error {
	w := watch{Directory: d, dir: filepath.Clean(d.cfg.Dir)}
	return watchdir.Watch(ctx, "driver directories", w.begin, w.onEvent)
}

// watch is a watched directory with its subdirectories.
type watch struct {
	*Directory
	dir string
}

// begin watches the directory and its subdirectories before it notifies of them, so that no later
// change is missed.
func (w watch) begin(watcher *fsnotify.Watcher) error {
	if err := w.cfg.FS.MkdirAll(w.dir); err != nil {
		return err
	}
	if err := watcher.Add(w.dir); err != nil {
		return err
	}
	names, err := w.cfg.FS.ReadDir(w.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		w.watchDriver(watcher, name)
	}
	w.Notify("")
	return nil
}

// watchDriver watches a driver's directory. An error means that it is not a directory, or no longer
// exists.
func (w watch) watchDriver(watcher *fsnotify.Watcher, name string) {
	if !ignored(name) {
		_ = watcher.Add(filepath.Join(w.dir, name))
	}
}

// onEvent handles one event. It reports whether the directory itself still exists.
func (w watch) onEvent(watcher *fsnotify.Watcher, event fsnotify.Event) bool {
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
		w.watchDriver(watcher, name)
		w.Notify(name)
	case len(parts) == 1 && gone, slices.Equal(parts[1:], []string{programOf(name)}):
		w.Notify(name)
	}
	return true
}
