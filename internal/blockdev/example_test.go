package blockdev_test

import (
	"fmt"
	"log"

	"github.com/volsim/volsim/internal/blockdev"
)

// Inspect a device and freeze its file system. The example needs root and a device, so it is only
// compiled.
func Example() {
	const device = "/dev/loop0"
	number, err := blockdev.NumberOf(device) // ErrNoDevice for anything else
	if err != nil {
		log.Fatal(err)
	}
	size, err := blockdev.Size(device)
	if err != nil {
		log.Fatal(err)
	}
	places, err := blockdev.MountPoints(device)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(number, size, places)

	frozen, err := blockdev.Freeze(device)
	if err != nil {
		log.Fatal(err) // ErrFrozen: frozen by another process
	}
	// The device can be copied here; writers are blocked.
	if err := frozen.Thaw(); err != nil {
		log.Fatal(err)
	}
}

func ExampleNumber_String() {
	fmt.Println(blockdev.Number{Major: 7, Minor: 3})
	// Output: 7:3
}
