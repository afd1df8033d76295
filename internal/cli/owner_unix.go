//go:build unix

package cli

import (
	"io/fs"
	"os"
	"syscall"
)

// setOwner gives f the owner of another file. Without the right to do so, which only root needs to
// have, f keeps its owner.
func setOwner(f *os.File, of fs.FileInfo) {
	if stat, ok := of.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(stat.Uid), int(stat.Gid))
	}
}
