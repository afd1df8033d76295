package pluginmanager

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// Watch tells of what changes in the directory and in those below it, as the file system tells it, until ctx ends: then it
// returns nil. It makes the directory if it is not there, and begins by telling of all that is in it. It is for a directory of
// this machine, beside a live host, on a goroutine of its own. The error is that the directory cannot be made or watched.
//
// Differs: directories whose names begin with a dot are passed over also if they are there from the beginning.
//
// Upstream: pkg/kubelet/pluginmanager/pluginwatcher Watcher.Start (v1.36).
func (m *Manager) Watch(ctx context.Context) error {
	for {
		ended, err := m.watch(ctx)
		if err != nil {
			return fmt.Errorf("watch plugin sockets: %w", err)
		}
		if ended {
			return nil
		}
	}
}

// watch watches until ctx ends or something was missed, and returns whether ctx has ended. It has a watcher of its own: one that
// watched a directory that is gone mixes it up with another of its name.
func (m *Manager) watch(ctx context.Context) (ended bool, err error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return false, err
	}
	defer watcher.Close()
	w := watch{Manager: m, watcher: watcher, dir: filepath.Clean(m.cfg.Dir)}
	if err := w.all(); err != nil {
		return false, err
	}
	return w.follow(ctx), nil
}

// watch is a directory that is watched, with those below it.
type watch struct {
	*Manager
	watcher *fsnotify.Watcher
	dir     string
}

// all watches the directory and those below it, and only then tells of what is in them: what changes afterwards is told by the
// file system.
func (w watch) all() error {
	const mode = 0o755
	if err := os.MkdirAll(w.dir, mode); err != nil {
		return err
	}
	// While somebody listens at a socket in it, a directory that is removed does not say so itself.
	for _, dir := range []string{filepath.Dir(w.dir), w.dir} {
		if err := w.watcher.Add(dir); err != nil {
			return err
		}
	}
	w.below(w.dir)
	w.Notify("")
	return nil
}

// below watches the directories below one. Those that go meanwhile need not be watched.
func (w watch) below(dir string) {
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || path == w.dir || !entry.IsDir():
			return nil //nolint:nilerr // it is gone
		case hidden(entry.Name()):
			return fs.SkipDir
		}
		_ = w.watcher.Add(path)
		return nil
	})
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
	switch {
	case event.Name == w.dir:
		return !gone
	case w.ignored(event.Name):
	case event.Has(fsnotify.Rename):
		w.Notify("") // it may have been a directory with sockets in it
	case event.Has(fsnotify.Create):
		if info, err := os.Stat(event.Name); err == nil && info.IsDir() {
			w.below(event.Name)
			w.Notify("")
			return true
		}
		w.Notify(event.Name)
	case gone:
		w.Notify(event.Name)
	}
	return true
}
