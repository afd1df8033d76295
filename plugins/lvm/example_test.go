package lvm_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/volsim/volsim/plugins/lvm"
	"github.com/volsim/volsim/plugins/nodefs"
)

// Create a volume in the volume group of a node, here on a file, and mount it on the node. The
// example needs root and lvm, so it is only compiled.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	disk, err := nodefs.NewReal(filepath.Join(dir, "node-1"))
	if err != nil {
		log.Fatal(err)
	}
	driver, err := lvm.New(ctx, lvm.Config{Nodes: []lvm.NodeConfig{{
		Name:  "node-1",
		LVM:   lvm.LVMConfig{Directory: filepath.Join(dir, "lvm"), SystemID: "example"},
		Files: []lvm.File{{Path: filepath.Join(dir, "disk"), SizeBytes: 1 << 30}}, // or Devices
	}}})
	if err != nil {
		log.Fatal(err)
	}
	controller, node := driver.Controller(), driver.Node("node-1", disk)

	writer := &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4"}},
	}
	here := &csi.Topology{Segments: map[string]string{lvm.TopologyKey: "node-1"}}
	made, err := controller.CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name: "pvc-1", CapacityRange: &csi.CapacityRange{RequiredBytes: 64 << 20},
		VolumeCapabilities:        []*csi.VolumeCapability{writer},
		AccessibilityRequirements: &csi.TopologyRequirement{Preferred: []*csi.Topology{here}},
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
	fmt.Println(id, "is", attached.GetPublishContext())

	// Everything is removed. With Close instead of Destroy, a recreated driver continues.
	if err := errors.Join(disk.UnmountAll(), driver.Destroy(ctx), os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
}
