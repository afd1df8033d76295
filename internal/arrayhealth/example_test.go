package arrayhealth_test

import (
	"context"
	"fmt"
	"log"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/volsim/volsim/internal/arrayhealth"
	"github.com/volsim/volsim/plugins/array"
)

// A volume whose disk fails.
func Example() {
	ctx, disks := context.Background(), array.New(array.Config{})
	controller := arrayhealth.New(disks).Controller()
	created, err := controller.CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name: "pvc-1", VolumeCapabilities: []*csi.VolumeCapability{writer(false)},
	})
	if err != nil {
		log.Fatal(err)
	}
	id := created.GetVolume().GetVolumeId()
	if err := disks.SetCondition(id, "DEGRADED", "DiskFailed", "disk 3 is missing"); err != nil {
		log.Fatal(err)
	}
	answer, err := controller.ControllerGetVolumeHealth(ctx, &csi.ControllerGetVolumeHealthRequest{VolumeId: id})
	if err != nil {
		log.Fatal(err)
	}
	for _, each := range answer.GetVolumeHealth().GetHealthStatuses() {
		fmt.Println(each.GetStatus(), each.GetReason()+":", each.GetMessage())
	}
	// Output: DEGRADED DiskFailed: disk 3 is missing
}
