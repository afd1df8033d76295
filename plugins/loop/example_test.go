package loop_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/nodefs"
)

// Create a volume, attach it to a node of this machine and mount it there. The example needs root
// and loop devices, so it is only compiled.
func Example() {
	if err := loop.Probe(); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	disk, err := nodefs.NewReal(filepath.Join(dir, "node-1"))
	if err != nil {
		log.Fatal(err)
	}
	driver, err := loop.New(loop.Config{Dir: filepath.Join(dir, "images")})
	if err != nil {
		log.Fatal(err)
	}
	controller, node := driver.Controller(), driver.Node("node-1", disk)

	writer := &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4"}},
	}
	made, err := controller.CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name: "pvc-1", CapacityRange: &csi.CapacityRange{RequiredBytes: 64 << 20},
		VolumeCapabilities: []*csi.VolumeCapability{writer},
	})
	if err != nil {
		log.Fatal(err)
	}
	id := made.GetVolume().GetVolumeId()
	attached, err := controller.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
		VolumeId: id, NodeId: "node-1", VolumeCapability: writer,
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = node.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: filepath.Join(dir, "node-1", "staging"),
		VolumeCapability: writer, PublishContext: attached.GetPublishContext(),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(id, "is", attached.GetPublishContext()[blockcsi.DeviceKey])

	// Everything is removed. Without Close, a recreated driver continues.
	if err := errors.Join(disk.UnmountAll(), driver.Close(), os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
}
