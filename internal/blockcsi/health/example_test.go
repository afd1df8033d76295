package health_test

import (
	"context"
	"fmt"
	"log"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/blockcsi/health"
)

// worn is a pool that reports trouble of each volume.
type worn struct{ blockcsi.Pool }

func (worn) Node() string                        { return "" }
func (worn) Capabilities() blockcsi.Capabilities { return blockcsi.Capabilities{} }

func (worn) Volume(_ context.Context, id string) (blockcsi.Volume, error) {
	return blockcsi.Volume{ID: id, Trouble: "its disk is missing: plug it in again"}, nil
}

func (worn) Attachment(context.Context, blockcsi.Volume) (*blockcsi.Attachment, error) {
	return nil, nil
}

// Problems of a volume as CSI reports them. Drivers on devices (plugins/loop, plugins/lvm) also
// report problems of the kernel's devices.
func Example() {
	driver, err := blockcsi.New(blockcsi.Config{Name: "worn.example.com", Version: "1", Pools: []blockcsi.Pool{worn{}}})
	if err != nil {
		log.Fatal(err)
	}
	services := health.New(driver, health.Config{})
	answer, err := services.Controller().ControllerGetVolumeHealth(context.Background(),
		&csi.ControllerGetVolumeHealthRequest{VolumeId: "vol-1"})
	if err != nil {
		log.Fatal(err)
	}
	for _, each := range answer.GetVolumeHealth().GetHealthStatuses() {
		fmt.Println(each.GetStatus(), each.GetReason()+":", each.GetMessage())
	}
	// Output: INACCESSIBLE VolumeTrouble: its disk is missing: plug it in again
}
