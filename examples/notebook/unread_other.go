//go:build !linux

package notebook

import "os"

// unreadBytes returns 0, because the number is unknown on this system. The unconditional round trip of
// [screen.settle] must suffice.
func unreadBytes(*os.File) int { return 0 }
