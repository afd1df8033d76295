package nodefs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// safePath is a path inside a directory: base, then one element at a time. None of the elements was
// a symbolic link when it was resolved. An element that has become a link is not followed.
type safePath struct {
	base     string
	elements []string
	missing  []string // the missing elements after those
}

// StatWithin implements FS.
func (r *Real) StatWithin(base, inner string) (Info, error) {
	file, err := r.openWithin(base, inner)
	if err != nil {
		return Info{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return Info{}, err
	}
	return infoOf(info), nil
}

// MkdirWithin implements FS.
//
// Differs: an existing directory is refused if it lies outside base; upstream accepts it.
//
// Upstream: pkg/volume/util/subpath doSafeMakeDir (v1.36).
func (r *Real) MkdirWithin(base, inner string, mode fs.FileMode) error {
	w, err := r.pathWithin(base, inner)
	if err != nil {
		return err
	}
	at, err := w.open()
	if err != nil {
		return err
	}
	defer func() { at.Close() }()
	if len(w.missing) == 0 {
		info, err := at.Stat()
		if err == nil && !info.IsDir() {
			err = pathError("mkdir", inner, syscall.ENOTDIR)
		}
		return err
	}
	for _, element := range w.missing {
		made, err := makeAt(at, element, mode)
		if err != nil {
			return classify(pathError("mkdir", inner, err))
		}
		at.Close()
		at = made
	}
	return nil
}

// makeAt creates a directory in an open one and opens it. The umask does not apply.
func makeAt(parent *os.File, name string, mode fs.FileMode) (*os.File, error) {
	at := int(parent.Fd())
	if err := unix.Mkdirat(at, name, uint32(mode.Perm())); err != nil {
		return nil, err
	}
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	made := os.NewFile(uintptr(fd), name)
	if err := made.Chmod(mode & attributeBits); err != nil {
		return nil, errors.Join(err, made.Close())
	}
	return made, nil
}

// BindWithin implements FS. It binds the opened file, so the kernel does not resolve the path
// again.
//
// Upstream: pkg/volume/util/subpath doBindSubPath, safeOpenSubPath (v1.36).
func (r *Real) BindWithin(base, inner, target string) error {
	source, err := r.openWithin(base, inner)
	if err != nil {
		return err
	}
	defer source.Close()
	from, err := source.Stat()
	if err != nil {
		return err
	}
	to, _, err := r.resolveExisting(target)
	if err != nil {
		return err
	}
	switch bound, err := isBound(from, to); {
	case err != nil:
		return pathError("bind", target, err)
	case bound:
		return nil
	}
	if to, err = r.resolveMountTarget(target, from.IsDir()); err != nil {
		return err
	}
	path := fmt.Sprintf("/proc/self/fd/%d", source.Fd())
	return classify(pathError("bind", target, unix.Mount(path, to, "", unix.MS_BIND, "")))
}

// isBound reports whether file is mounted at path. It returns ErrMounted if something else is.
func isBound(file fs.FileInfo, path string) (bool, error) {
	mounted, err := mountinfo.Mounted(path)
	if err != nil || !mounted {
		return false, err
	}
	current, err := os.Lstat(path)
	if err == nil && !os.SameFile(file, current) {
		err = ErrMounted
	}
	return err == nil, err
}

// openWithin opens the target of inner with O_PATH.
func (r *Real) openWithin(base, inner string) (*os.File, error) {
	w, err := r.pathWithin(base, inner)
	if err != nil {
		return nil, err
	}
	if len(w.missing) > 0 {
		return nil, pathError("enter", inner, fs.ErrNotExist)
	}
	return w.open()
}

// pathWithin resolves inner as far as it exists.
//
// Upstream: pkg/volume/util/subpath findExistingPrefix (v1.36).
func (r *Real) pathWithin(base, inner string) (safePath, error) {
	top, err := r.resolve(base)
	if err != nil {
		return safePath{}, err
	}
	elements, err := innerElements(inner)
	if err != nil {
		return safePath{}, err
	}
	w, at := safePath{base: top}, top
	for i, element := range elements {
		next := filepath.Join(at, element)
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			w.missing = elements[i:]
			break
		}
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			next, err = filepath.EvalSymlinks(next)
		}
		if err != nil {
			return safePath{}, pathError("enter", inner, err)
		}
		at = next
	}
	rest, below := strings.CutPrefix(at+"/", top+"/")
	if !below {
		return safePath{}, pathError("enter", inner, ErrNotWithin)
	}
	if rest = strings.TrimSuffix(rest, "/"); rest != "" {
		w.elements = strings.Split(rest, "/")
	}
	return w, nil
}

// open opens each element in turn and returns the last, opened with O_PATH.
//
// Upstream: pkg/volume/util/subpath doSafeOpen (v1.36).
func (w safePath) open() (*os.File, error) {
	fd, err := unix.Open(w.base, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, pathError("open", w.base, err)
	}
	at, name := os.NewFile(uintptr(fd), w.base), w.base
	for _, element := range w.elements {
		name = filepath.Join(name, element)
		next, err := enterAt(at, element)
		at.Close()
		if err != nil {
			return nil, pathError("open", name, err)
		}
		at = next
	}
	return at, nil
}

// enterAt opens an entry of an open directory with O_PATH. It returns ErrNotWithin for a symbolic
// link.
func enterAt(directory *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(directory.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), name)
	info, err := file.Stat()
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		err = fmt.Errorf("%w: it has become a symbolic link", ErrNotWithin)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
