package loop_test

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/volsim/volsim/plugins/loop"
)

func TestCreateVolumeSizes(t *testing.T) {
	const mebibyte = 1 << 20
	driver, err := loop.New(loop.Config{Dir: t.TempDir()}) // needs no root
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = driver.Close() })
	tests := []struct {
		name, volume    string
		fsType          string
		required, limit int64
		want            codes.Code
		wantBytes       int64
	}{
		{name: "no size requested", volume: "a", wantBytes: 64 * mebibyte},
		{name: "again", volume: "a", wantBytes: 64 * mebibyte},
		{name: "again, larger", volume: "a", required: 65 * mebibyte, want: codes.AlreadyExists},
		{name: "again, smaller", volume: "a", limit: 32 * mebibyte, want: codes.AlreadyExists},
		{name: "too small is rounded up", volume: "b", required: 1, wantBytes: 16 * mebibyte},
		{name: "whole pages", volume: "c", required: 20*mebibyte + 1, wantBytes: 20*mebibyte + 4096},
		{name: "the limit bounds the default", volume: "d", limit: 32*mebibyte + 1, wantBytes: 32 * mebibyte},
		{name: "limit below the smallest", volume: "e", limit: mebibyte, want: codes.OutOfRange},
		{name: "limit below required", volume: "e", required: 2, limit: 1, want: codes.InvalidArgument},
		{name: "negative", volume: "e", required: -1, want: codes.InvalidArgument},
		{name: "larger than a file can be", volume: "e", required: 1 << 62, want: codes.OutOfRange},
		{name: "larger than a number can be", volume: "e", required: 1<<63 - 1, want: codes.OutOfRange},
		{name: "larger than the disk, thin", volume: "f", required: 1 << 41, wantBytes: 1 << 41},
		{name: "xfs needs more", volume: "g", fsType: "xfs", wantBytes: 300 * mebibyte},
		{name: "unknown file system", volume: "h", fsType: "ntfs", want: codes.InvalidArgument},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			wanted := writer()
			wanted.GetMount().FsType = test.fsType
			response, err := driver.Controller().CreateVolume(t.Context(), &csi.CreateVolumeRequest{
				Name: test.volume, VolumeCapabilities: []*csi.VolumeCapability{wanted},
				CapacityRange: &csi.CapacityRange{RequiredBytes: test.required, LimitBytes: test.limit},
			})
			(&world{TB: t}).wantCode(err, test.want)
			if got := response.GetVolume().GetCapacityBytes(); got != test.wantBytes {
				t.Errorf("got %d bytes, want %d", got, test.wantBytes)
			}
		})
	}
}

func TestInvalidRequests(t *testing.T) {
	driver, err := loop.New(loop.Config{Dir: t.TempDir()}) // needs no root
	if err != nil {
		t.Fatal(err)
	}
	ctx, controller := t.Context(), driver.Controller()
	multi := capability(csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER)
	validate := func(id string, wanted ...*csi.VolumeCapability) func() error {
		return func() error {
			_, err := controller.ValidateVolumeCapabilities(ctx,
				&csi.ValidateVolumeCapabilitiesRequest{VolumeId: id, VolumeCapabilities: wanted})
			return err
		}
	}
	publish := func(id, node string, wanted *csi.VolumeCapability) func() error {
		return func() error {
			_, err := controller.ControllerPublishVolume(ctx,
				&csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: node, VolumeCapability: wanted})
			return err
		}
	}
	remove := func(id string) func() error {
		return func() error {
			_, err := controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
			return err
		}
	}
	tests := []struct {
		name string
		call func() error
		want codes.Code
	}{
		{"validate an unknown volume", validate("vol-0000000000000000", writer()), codes.NotFound},
		{"validate no capability", validate("vol-0000000000000000"), codes.InvalidArgument},
		{"publish an unknown volume", publish("vol-0000000000000000", "one", writer()), codes.NotFound},
		{"publish a path for an id", publish("../../etc/passwd", "one", writer()), codes.NotFound},
		{"publish to several nodes", publish("vol-0000000000000000", "one", multi), codes.InvalidArgument},
		{"publish to no node", publish("vol-0000000000000000", "", writer()), codes.InvalidArgument},
		{"delete nothing", remove(""), codes.InvalidArgument},
		{"delete an unknown volume", remove("vol-0000000000000000"), codes.OK},
		{"delete a path for an id", remove("../../etc/passwd"), codes.OK},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { (&world{TB: t}).wantCode(test.call(), test.want) })
	}
}
