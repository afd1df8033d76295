package array_test

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/nodefs"
)

func Example() {
	ctx := context.Background()
	box := array.New(array.Config{})
	controller := box.Controller()
	box.Node("node-1", nodefs.NewMemory("/var/lib/kubelet"))

	created, _ := controller.CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name:               "pvc-1",
		VolumeCapabilities: []*csi.VolumeCapability{capability(singleNode)},
	})
	attach := func(node string) error {
		_, err := controller.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
			VolumeId: created.GetVolume().GetVolumeId(), NodeId: node, VolumeCapability: capability(singleNode),
		})
		return err
	}
	fmt.Println(attach("node-1"))
	box.Node("node-2", nodefs.NewMemory("/var/lib/kubelet"))
	fmt.Println(attach("node-2"))
	for _, volume := range box.Volumes() {
		fmt.Println(volume.ID, volume.Name, volume.SizeBytes, volume.AttachedTo)
	}
	// Output:
	// <nil>
	// rpc error: code = FailedPrecondition desc = volume vol-f2868e1aa7cab669 is for one node and attached to node-1
	// vol-f2868e1aa7cab669 pvc-1 1073741824 [node-1]
}
