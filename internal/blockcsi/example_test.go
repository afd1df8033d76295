package blockcsi_test

import (
	"context"
	"fmt"
	"log"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/csireq"
)

// ledger is a pool that only keeps records of its volumes. For pools with devices see plugins/loop
// and plugins/lvm.
type ledger struct {
	blockcsi.Pool
	volumes map[string]blockcsi.Volume
}

func (*ledger) Node() string                                    { return "" }
func (*ledger) ValidateParameters(_, _ map[string]string) error { return nil }

func (*ledger) Capabilities() blockcsi.Capabilities {
	return blockcsi.Capabilities{FSTypes: []string{"ext4"}}
}

func (*ledger) Sizes(map[string]string) csireq.Sizes { return csireq.Sizes{Step: 1 << 20} }

func (l *ledger) Volume(_ context.Context, id string) (blockcsi.Volume, error) {
	volume, ok := l.volumes[id]
	if !ok {
		return blockcsi.Volume{}, status.Error(codes.NotFound, "no such volume")
	}
	return volume, nil
}

func (l *ledger) Create(_ context.Context, spec blockcsi.VolumeSpec) (blockcsi.Volume, error) {
	l.volumes[spec.ID] = blockcsi.Volume{ID: spec.ID, Name: spec.Name, SizeBytes: spec.SizeBytes}
	return l.volumes[spec.ID], nil
}

// A driver over a pool. The same volume is requested twice, and then another one of its name.
func Example() {
	pool := &ledger{volumes: map[string]blockcsi.Volume{}}
	driver, err := blockcsi.New(blockcsi.Config{Name: "ledger.example.com", Version: "1", Pools: []blockcsi.Pool{pool}})
	if err != nil {
		log.Fatal(err)
	}
	for _, bytes := range []int64{20<<20 + 1, 20<<20 + 1, 40 << 20} {
		made, err := driver.Controller().CreateVolume(context.Background(), &csi.CreateVolumeRequest{
			Name: "pvc-1", CapacityRange: &csi.CapacityRange{RequiredBytes: bytes},
			VolumeCapabilities: []*csi.VolumeCapability{{
				AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
				AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4"}},
			}},
		})
		fmt.Println(status.Code(err), made.GetVolume().GetVolumeId(), made.GetVolume().GetCapacityBytes())
	}
	// Output:
	// OK vol-f2868e1aa7cab669 22020096
	// OK vol-f2868e1aa7cab669 22020096
	// AlreadyExists  0
}
