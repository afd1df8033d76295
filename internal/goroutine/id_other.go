//go:build !amd64 && !arm64

package goroutine

// ID returns 0: goroutines are not distinguished on this architecture.
func ID() uintptr { return 0 }
