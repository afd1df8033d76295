package loopdev_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/volsim/volsim/internal/loopdev"
)

// A file becomes a device, and is let go again. This needs root and loop devices, so that it is compiled and not run.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "disk")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		log.Fatal(err)
	}

	device, err := loopdev.Bind(ctx, file, "mine", false)
	if err != nil {
		log.Fatal(err) // ErrNone: no device is free
	}
	bound, err := loopdev.At(device)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(bound.Device, "is", bound.BackingFile, "marked as", bound.Mark)

	// What was seen is said again, so that no other's device is unbound.
	if err := loopdev.Unbind(ctx, bound); err != nil {
		log.Fatal(err) // ErrInUse, ErrLingers: somebody uses it
	}
}
