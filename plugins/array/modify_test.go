package array_test

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
)

// TestModifyVolume changes settings of a volume several times.
func TestModifyVolume(t *testing.T) {
	w := newWorld(t)
	steps := []struct {
		settings map[string]string
		code     codes.Code
		want     map[string]string
	}{
		{map[string]string{"iops": "3000"}, codes.OK, map[string]string{"iops": "3000"}},
		{map[string]string{"throughput": "250"}, codes.OK, map[string]string{"iops": "3000", "throughput": "250"}},
		{map[string]string{"throughput": "250"}, codes.OK, map[string]string{"iops": "3000", "throughput": "250"}},
		{map[string]string{"iops": "1", "tier": "gold"}, codes.InvalidArgument, map[string]string{"iops": "3000", "throughput": "250"}},
		{map[string]string{"iops": "0"}, codes.InvalidArgument, map[string]string{"iops": "3000", "throughput": "250"}},
		{map[string]string{"iops": "1000001"}, codes.InvalidArgument, map[string]string{"iops": "3000", "throughput": "250"}},
		{map[string]string{"iops": "lots"}, codes.InvalidArgument, map[string]string{"iops": "3000", "throughput": "250"}},
		{map[string]string{"iops": "100"}, codes.OK, map[string]string{"iops": "100", "throughput": "250"}},
		{nil, codes.OK, map[string]string{"iops": "100", "throughput": "250"}},
	}
	for _, step := range steps {
		_, err := w.controller.ControllerModifyVolume(t.Context(),
			&csi.ControllerModifyVolumeRequest{VolumeId: w.id, MutableParameters: step.settings})
		w.want(err, step.code)
		seen, _ := w.array.Volume(w.id)
		for _, got := range []map[string]string{w.array.Volumes()[0].Settings, seen.Settings} {
			if diff := cmp.Diff(step.want, got); diff != "" {
				t.Errorf("settings after %v (-want +got):\n%s", step.settings, diff)
			}
		}
	}
	for id, code := range map[string]codes.Code{"": codes.InvalidArgument, "vol-none": codes.NotFound} {
		_, err := w.controller.ControllerModifyVolume(t.Context(), &csi.ControllerModifyVolumeRequest{VolumeId: id})
		w.want(err, code)
	}
}

// TestCreateWithSettings creates a volume with settings, and with an unknown one.
func TestCreateWithSettings(t *testing.T) {
	w := newWorld(t)
	create := func(name string, settings map[string]string, code codes.Code) string {
		t.Helper()
		response, err := w.controller.CreateVolume(t.Context(), &csi.CreateVolumeRequest{
			Name: name, VolumeCapabilities: []*csi.VolumeCapability{capability(singleNode)}, MutableParameters: settings,
		})
		w.want(err, code)
		return response.GetVolume().GetVolumeId()
	}
	id := create("fast", map[string]string{"iops": "3000"}, codes.OK)
	if v, _ := w.array.Volume(id); v.Settings["iops"] != "3000" {
		t.Errorf("settings %v", v.Settings)
	}
	create("other", map[string]string{"tier": "gold"}, codes.InvalidArgument)
	if again := create("fast", nil, codes.OK); again != id {
		t.Errorf("created again as %s, want %s", again, id)
	}
}
