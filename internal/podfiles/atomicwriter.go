package podfiles

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volsim/volsim/internal/ownership"
)

// The links of a volume: to its current content, and to the one that replaces it.
//
// Upstream: pkg/volume/util dataDirName, newDataDirName (v1.36).
const (
	dataLink    = "..data"
	newDataLink = "..data_tmp"
)

// Limits of a path in a volume.
//
// Upstream: pkg/volume/util maxFileNameLength, maxPathLength (v1.36).
const (
	nameLengthMax = 255
	pathLengthMax = 4096
)

// contentMode is the mode of the directories of the content.
const contentMode fs.FileMode = 0o755

// A Payload is the content of a volume by path, relative to its directory.
type Payload map[string]File

// A File is a file of a payload.
type File struct {
	Data []byte
	Mode fs.FileMode
	User *int64 // the owner; nil: the kubelet
}

// Write replaces the content of a volume that is set up. A reader sees the old content or the new,
// never a mixture. Content that is the same is not written again. group is the group that must own
// the files; nil: no change.
//
// Differs: a link that a crash left behind is removed; upstream fails because of it, and then
// removes the whole volume, also under a running pod. The name of the directory ends in a number
// that is not random.
//
// Upstream: pkg/volume/util AtomicWriter.Write (v1.36).
func (v Volume) Write(ctx context.Context, payload Payload, group *int64) error {
	files, err := payload.clean()
	if err != nil {
		return err
	}
	w := &writer{Volume: v, files: files, group: group}
	if w.old, err = v.disk.FS.Readlink(path.Join(v.Path(), dataLink)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if w.obsolete, err = w.findObsolete(); err != nil {
		return err
	}
	changed, err := w.changed()
	if err != nil {
		return err
	}
	if changed {
		if err := v.call("WriteFiles", func() error { return w.writeContent(ctx) }); err != nil {
			return err
		}
		if err := v.call("ReplaceFiles", w.replace); err != nil {
			return err
		}
	} else {
		w.old = ""
	}
	if !changed && w.linked() {
		return nil
	}
	return v.call("LinkFiles", w.link)
}

// clean returns the payload with clean paths. It fails if one is invalid.
//
// Upstream: pkg/volume/util validatePayload, validatePath (v1.36).
func (p Payload) clean() (Payload, error) {
	files := make(Payload, len(p))
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if err := validatePath(name); err != nil {
			return nil, err
		}
		files[path.Clean(name)] = p[name]
	}
	return files, nil
}

func validatePath(name string) error {
	elements := strings.Split(name, "/")
	switch {
	case name == "":
		return fmt.Errorf("invalid path: must not be empty: %q", name)
	case path.IsAbs(name):
		return fmt.Errorf("invalid path: must be relative path: %s", name)
	case len(name) > pathLengthMax:
		return fmt.Errorf("invalid path: must be less than or equal to %d characters", pathLengthMax)
	}
	for _, element := range elements {
		switch {
		case element == "..":
			return fmt.Errorf("invalid path: must not contain '..': %s", name)
		case len(element) > nameLengthMax:
			return fmt.Errorf("invalid path: filenames must be less than or equal to %d characters", nameLengthMax)
		}
	}
	if strings.HasPrefix(elements[0], "..") {
		return fmt.Errorf("invalid path: must not start with '..': %s", name)
	}
	return nil
}

// A writer is one Write.
type writer struct {
	Volume
	files    Payload
	group    *int64
	old      string           // where the content is; "": there is none, or it stays
	obsolete sets.Set[string] // names of the old content that the new one does not have
	content  string           // where the new content is
}

func (w *writer) at(name string) string { return path.Join(w.Path(), name) }

// names returns the first elements of the paths, sorted: what a reader sees in the directory.
func (w *writer) names() []string {
	names := sets.New[string]()
	for file := range w.files {
		first, _, _ := strings.Cut(file, "/")
		names.Insert(first)
	}
	return sets.List(names)
}

// findObsolete returns the paths of the old content that are not in the new one.
//
// Upstream: pkg/volume/util AtomicWriter.pathsToRemove (v1.36).
func (w *writer) findObsolete() (sets.Set[string], error) {
	if w.old == "" {
		return nil, nil
	}
	current := sets.New[string]()
	for file := range w.files {
		for dir := file; dir != "."; dir = path.Dir(dir) {
			current.Insert(dir)
		}
	}
	obsolete := sets.New[string]()
	err := w.walk(w.at(w.old), "", func(name string) {
		if !current.Has(name) {
			obsolete.Insert(name)
		}
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return obsolete, err
}

// walk visits everything below a directory.
func (w *writer) walk(dir, relative string, visit func(name string)) error {
	names, err := w.disk.FS.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		full, inner := path.Join(dir, name), path.Join(relative, name)
		visit(inner)
		info, err := w.disk.FS.Stat(full)
		if err != nil {
			return err
		}
		if info.Mode.IsDir() {
			if err := w.walk(full, inner, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// changed reports whether the content must be written.
//
// Upstream: pkg/volume/util shouldWritePayload (v1.36).
func (w *writer) changed() (bool, error) {
	if w.old == "" || len(w.obsolete) > 0 {
		return true, nil
	}
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		have, err := w.disk.FS.ReadFile(path.Join(w.at(w.old), name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return true, nil
		case err != nil:
			return false, err
		case !bytes.Equal(have, w.files[name].Data):
			return true, nil
		}
	}
	return false, nil
}

// linked reports whether every name leads to its content.
func (w *writer) linked() bool {
	return !slices.ContainsFunc(w.names(), func(name string) bool {
		_, err := w.disk.FS.Readlink(w.at(name))
		return errors.Is(err, fs.ErrNotExist)
	})
}

// writeContent writes the new content into a directory of its own, and the link that will replace
// the current one.
func (w *writer) writeContent(ctx context.Context) error {
	var err error
	if w.content, err = w.newDirectory(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		if err := w.writeFile(path.Join(w.at(w.content), name), w.files[name]); err != nil {
			return err
		}
	}
	if w.group != nil {
		var count atomic.Int64
		if err := ownership.Apply(ctx, w.disk.FS, w.Path(), *w.group, true, &count); err != nil {
			return err
		}
	}
	if err := w.disk.FS.RemoveAll(w.at(newDataLink)); err != nil {
		return err
	}
	return w.disk.FS.Symlink(w.content, w.at(newDataLink))
}

// newDirectory creates a directory that is named by the time.
//
// Upstream: pkg/volume/util AtomicWriter.newTimestampDir (v1.36).
func (w *writer) newDirectory() (name string, err error) {
	prefix := w.disk.Process.Now().UTC().Format("..2006_01_02_15_04_05.")
	for i := 0; ; i++ {
		name = prefix + strconv.Itoa(i)
		if there, err := w.disk.FS.Exists(w.at(name)); err != nil || !there {
			return name, errors.Join(err, makeDir(w.disk.FS, w.at(name), contentMode))
		}
	}
}

func (w *writer) writeFile(name string, file File) error {
	if err := makeDirs(w.disk.FS, w.at(w.content), path.Dir(name), contentMode); err != nil {
		return err
	}
	if err := w.disk.FS.WriteFile(name, file.Data); err != nil {
		return err
	}
	if err := w.disk.FS.Chmod(name, file.Mode); err != nil {
		return err
	}
	return w.own(name, file.User)
}

// own gives a file or link to a user.
func (w *writer) own(name string, user *int64) error {
	if user == nil {
		return nil
	}
	return w.disk.FS.Chown(name, int(*user), -1)
}

// replace makes the new content the current one.
func (w *writer) replace() error {
	err := w.disk.FS.Rename(w.at(newDataLink), w.at(dataLink))
	if err != nil {
		return errors.Join(err, w.disk.FS.RemoveAll(w.at(newDataLink)), w.disk.FS.RemoveAll(w.at(w.content)))
	}
	return nil
}

// link creates the links of new names, and removes those of old names and the old content.
//
// Upstream: pkg/volume/util AtomicWriter.createUserVisibleFiles, removeUserVisiblePaths (v1.36).
func (w *writer) link() error {
	for _, name := range w.names() {
		_, err := w.disk.FS.Readlink(w.at(name))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			continue // also a directory of that name
		}
		if err := w.disk.FS.Symlink(path.Join(dataLink, name), w.at(name)); err != nil {
			return err
		}
		if err := w.own(w.at(name), w.userOf(name)); err != nil {
			return err
		}
	}
	var failed error
	for _, name := range sets.List(w.obsolete) {
		if !strings.Contains(name, "/") {
			failed = errors.Join(failed, w.disk.FS.Remove(w.at(name)))
		}
	}
	if failed != nil || w.old == "" {
		return failed
	}
	return w.disk.FS.RemoveAll(w.at(w.old))
}

// userOf returns the owner of the first file of a name.
func (w *writer) userOf(name string) *int64 {
	for _, file := range slices.Sorted(maps.Keys(w.files)) {
		if file == name || strings.HasPrefix(file, name+"/") {
			return w.files[file].User
		}
	}
	return nil
}
