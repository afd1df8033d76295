package recycler

import (
	"path"

	"github.com/volsim/volsim/plugins/nodefs"
)

// Scrub does what a recycler pod does: it removes the contents of a directory, and keeps the
// directory. It fails if the directory does not exist. It also fails if something is mounted in it;
// then some contents may be gone.
func Scrub(fs nodefs.Files, dir string) error {
	names, err := fs.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := fs.RemoveAll(path.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
