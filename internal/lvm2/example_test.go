package lvm2_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/volsim/volsim/internal/lvm2"
)

// Create a volume group on a file, and a volume that is active for a while. The example needs root
// and lvm, so it is only compiled.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	system, err := lvm2.Open(lvm2.Config{Directory: filepath.Join(dir, "lvm"), SystemID: "example"})
	if err != nil {
		log.Fatal(err)
	}
	disk, err := system.AddFile(ctx, filepath.Join(dir, "disk"), 1<<30)
	if err != nil {
		log.Fatal(err)
	}
	group, err := system.CreateVolumeGroup(ctx, lvm2.GroupSpec{Name: "example", Disks: []string{disk.Name}})
	if err != nil {
		log.Fatal(err)
	}

	volume, err := group.Create(ctx, lvm2.Spec{Name: "data", Size: 100 << 20, Tags: []string{"of=alice"}})
	if err != nil {
		log.Fatal(err) // ErrNoSpace, ErrExists and others
	}
	device, err := group.Activate(ctx, volume.Name)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(volume.Name, volume.Size, device)

	// Everything is removed. A process that continues later only closes the system and opens it
	// again.
	err = errors.Join(group.Deactivate(ctx, "data"), group.Remove(ctx, "data"), group.RemoveGroup(ctx),
		system.Detach(ctx), system.Close())
	if err != nil {
		log.Fatal(err)
	}
}
