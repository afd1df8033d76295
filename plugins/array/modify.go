package array

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/csireq"
)

// settingsMax holds the settings of a volume, which are the mutable parameters of a
// VolumeAttributesClass, with their largest values. Each is a whole number from 1 on. The array
// remembers them; it does not limit I/O.
var settingsMax = map[string]int{
	"iops":       1_000_000,
	"throughput": 100_000, // MiB/s
}

// ControllerModifyVolume changes settings of a volume; other settings stay unchanged. An unknown
// setting, or an invalid value, is InvalidArgument and changes nothing.
func (c *controller) ControllerModifyVolume(
	_ context.Context, request *csi.ControllerModifyVolumeRequest,
) (*csi.ControllerModifyVolumeResponse, error) {
	a := c.array
	if err := csireq.RequireVolumeID(request); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	v, err := a.find(request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if err := checkSettings(request.GetMutableParameters()); err != nil {
		return nil, err
	}
	settings := map[string]string{}
	maps.Copy(settings, v.settings)
	maps.Copy(settings, request.GetMutableParameters())
	v.settings = settings
	return &csi.ControllerModifyVolumeResponse{}, nil
}

// checkSettings returns InvalidArgument for the first unknown key or invalid value.
func checkSettings(settings map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		largest, known := settingsMax[key]
		number, err := strconv.Atoi(settings[key])
		switch {
		case !known:
			return status.Errorf(codes.InvalidArgument, "mutable_parameters: unknown key %q (have %s)",
				key, strings.Join(slices.Sorted(maps.Keys(settingsMax)), ", "))
		case err != nil || number < 1 || number > largest:
			return status.Errorf(codes.InvalidArgument, "mutable_parameters: %s is %q, want a number from 1 to %d",
				key, settings[key], largest)
		}
	}
	return nil
}
