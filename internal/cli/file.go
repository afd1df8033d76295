package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile writes a file, or leaves an existing one unchanged on error. An existing file keeps its
// owner, and a symbolic link to it remains one.
func WriteFile(name string, content []byte, mode fs.FileMode) error {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-")
	if err != nil {
		return err
	}
	if before, err := os.Stat(name); err == nil {
		setOwner(f, before)
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
