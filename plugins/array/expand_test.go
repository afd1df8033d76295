package array_test

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

func (w *world) expand(size, limit int64, code codes.Code) *csi.ControllerExpandVolumeResponse {
	w.t.Helper()
	response, err := w.controller.ControllerExpandVolume(w.t.Context(), &csi.ControllerExpandVolumeRequest{
		VolumeId: w.id, CapacityRange: &csi.CapacityRange{RequiredBytes: size, LimitBytes: limit},
		VolumeCapability: capability(singleNode),
	})
	w.want(err, code)
	return response
}

func (w *world) expandAt(path string, size int64, code codes.Code) {
	w.t.Helper()
	_, err := w.nodes["one"].NodeExpandVolume(w.t.Context(), &csi.NodeExpandVolumeRequest{
		VolumeId: w.id, VolumePath: path, CapacityRange: &csi.CapacityRange{RequiredBytes: size},
	})
	w.want(err, code)
}

// TestExpandVolume expands a volume at the array, and then where it is mounted.
func TestExpandVolume(t *testing.T) {
	w := newWorld(t)
	sizes := func(size, fs int64) {
		t.Helper()
		if v, _ := w.array.Volume(w.id); v.SizeBytes != size || v.FSBytes != fs {
			t.Errorf("%d bytes, a file system of %d; want %d, %d", v.SizeBytes, v.FSBytes, size, fs)
		}
	}
	sizes(gibibyte, 0)
	w.attach("one", singleNode, false, codes.OK)
	w.stage("one", codes.OK)
	w.publish("one", "/kubelet/pod", false, codes.OK)
	sizes(gibibyte, gibibyte)
	w.expandAt("/kubelet/pod", 2*gibibyte, codes.OutOfRange)
	for range 2 {
		if response := w.expand(2*gibibyte, 0, codes.OK); response.GetCapacityBytes() != 2*gibibyte || !response.GetNodeExpansionRequired() {
			t.Errorf("grown: %v", response)
		}
	}
	sizes(2*gibibyte, gibibyte)
	w.expand(gibibyte, gibibyte, codes.OutOfRange) // it does not shrink
	w.expand(10*gibibyte, 0, codes.OK)
	w.expand(11*gibibyte, 0, codes.OutOfRange)
	w.expandAt("/kubelet/elsewhere", gibibyte, codes.NotFound)
	w.expandAt("", gibibyte, codes.InvalidArgument)
	for range 2 {
		w.expandAt("/kubelet/pod", 10*gibibyte, codes.OK)
	}
	sizes(10*gibibyte, 10*gibibyte)
	if response := w.expand(10*gibibyte, 0, codes.OK); response.GetNodeExpansionRequired() {
		t.Error("the node has to follow though it has")
	}
	w.id = "vol-unknown"
	w.expand(gibibyte, 0, codes.NotFound)
	w.expandAt("/kubelet/pod", 0, codes.NotFound)
}

// TestExpandVolumeLimits exceeds the capacity of the array.
func TestExpandVolumeLimits(t *testing.T) {
	w := newWorld(t)
	w.create("other", 8*gibibyte, 0, codes.OK)
	w.expand(3*gibibyte, 0, codes.ResourceExhausted)
	w.expand(2*gibibyte, 0, codes.OK)
}
