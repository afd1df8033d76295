package loopdev_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/volsim/volsim/internal/loopdev"
)

// Bind a file to a device and unbind it. The example needs root and loop devices, so it is only
// compiled.
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

	// Unbind compares the binding, so a device that was bound again stays.
	if err := loopdev.Unbind(ctx, bound); err != nil {
		log.Fatal(err) // ErrInUse, ErrStillOpen: the device has a user
	}
}
