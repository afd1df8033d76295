//go:build !linux

package notebook

import "os"

// unread is not known here; the round trip that [screen.settle] makes in any case has to do.
func unread(*os.File) int { return 0 }
