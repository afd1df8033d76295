//go:build amd64 || arm64

package goroutine

// ID returns a number that no other running goroutine has. A later goroutine may have it again.
func ID() uintptr
