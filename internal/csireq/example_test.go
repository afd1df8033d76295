package csireq_test

import (
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/volsim/volsim/internal/csireq"
)

// A driver checks a request for a volume; it can return the errors as they are.
func Example() {
	offer := csireq.Features{FSTypes: []string{"ext4", "xfs"}}
	sizes := csireq.Sizes{Default: 1 << 30, Step: 1 << 20}
	request := func(fsType string, bytes int64) *csi.CreateVolumeRequest {
		return &csi.CreateVolumeRequest{
			Name: "pvc-1", CapacityRange: &csi.CapacityRange{RequiredBytes: bytes},
			VolumeCapabilities: []*csi.VolumeCapability{{
				AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
				AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType}},
			}},
		}
	}
	for _, r := range []*csi.CreateVolumeRequest{request("ext4", 1_500_000), request("vfat", 0)} {
		if err := offer.CheckCreate(r); err != nil {
			fmt.Println(err)
			continue
		}
		size, err := sizes.Choose(r.GetCapacityRange())
		fmt.Println(csireq.VolumeID(r.GetName()), size, err)
	}
	// Output:
	// vol-f2868e1aa7cab669 2097152 <nil>
	// rpc error: code = InvalidArgument desc = file system "vfat" is not supported, only ext4, xfs
}
