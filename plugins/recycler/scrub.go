package recycler

import (
	"path"

	"github.com/volsim/volsim/plugins/nodefs"
)

// Scrub does what a recycler pod does: it removes all that is in a directory, and leaves the directory. A directory that is
// not there is an error; so is one in which something is mounted, of which the rest may be gone by then.
func Scrub(fs nodefs.FS, dir string) error {
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
