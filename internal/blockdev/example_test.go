package blockdev_test

import (
	"fmt"
	"log"

	"github.com/volsim/volsim/internal/blockdev"
)

// What there is to know of a device, and its file system held still for a moment. This needs root and a device, so that it is
// compiled and not run.
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
		log.Fatal(err) // ErrFrozen: somebody else has frozen it
	}
	// Here the device can be copied: nobody writes to it.
	if err := frozen.Thaw(); err != nil {
		log.Fatal(err)
	}
}

func ExampleNumber_String() {
	fmt.Println(blockdev.Number{Major: 7, Minor: 3})
	// Output: 7:3
}
