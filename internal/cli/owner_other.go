//go:build !unix

package cli

import (
	"io/fs"
	"os"
)

func setOwner(*os.File, fs.FileInfo) {}
