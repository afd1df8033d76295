package pluginmanager

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"

	"github.com/volsim/volsim/internal/watchdir"
)

// Watch calls Notify for each change in the registration directory and below it that the file
// system reports, until ctx ends; then it returns nil. It creates the directory if necessary, and
// begins with everything in it. It is for a directory of this machine and a live host, on a
// goroutine of its own. It returns an error if the directory cannot be created or watched.
//
// Differs: directories whose names begin with a dot are skipped even if they exist from the start.
//
// Upstream: pkg/kubelet/pluginmanager/pluginwatcher Watcher.Start (v1.36).
func (m *Manager) Watch(ctx context.Context) error {
	w := watch{Manager: m, dir: filepath.Clean(m.cfg.Dir)}
	return watchdir.Watch(ctx, "plugin sockets", w.begin, w.onEvent)
}

// watch is a watched directory with all directories below it.
type watch struct {
	*Manager
	dir string
}

// begin watches the directory and those below it before it notifies of their contents, so that no
// later change is missed.
func (w watch) begin(watcher *fsnotify.Watcher) error {
	const mode = 0o755
	if err := os.MkdirAll(w.dir, mode); err != nil {
		return err
	}
	// A directory that is removed while a socket in it has a listener reports nothing itself; its
	// parent does.
	for _, dir := range []string{filepath.Dir(w.dir), w.dir} {
		if err := watcher.Add(dir); err != nil {
			return err
		}
	}
	w.watchBelow(watcher, w.dir)
	w.Notify("")
	return nil
}

// watchBelow watches dir and the directories below it. Those that disappear meanwhile need no
// watch.
func (w watch) watchBelow(watcher *fsnotify.Watcher, dir string) {
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || path == w.dir || !entry.IsDir():
			return nil //nolint:nilerr // it no longer exists
		case hidden(entry.Name()):
			return fs.SkipDir
		}
		_ = watcher.Add(path)
		return nil
	})
}

// onEvent handles one event. It reports whether the directory itself still exists.
func (w watch) onEvent(watcher *fsnotify.Watcher, event fsnotify.Event) bool {
	gone := event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename)
	switch {
	case event.Name == w.dir:
		return !gone
	case w.ignored(event.Name):
	case event.Has(fsnotify.Rename):
		w.Notify("") // it may have been a directory that contains sockets
	case event.Has(fsnotify.Create):
		if info, err := os.Stat(event.Name); err == nil && info.IsDir() {
			w.watchBelow(watcher, event.Name)
			w.Notify("")
			return true
		}
		w.Notify(event.Name)
	case gone:
		w.Notify(event.Name)
	}
	return true
}
