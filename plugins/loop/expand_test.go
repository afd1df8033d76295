package loop_test

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/testcheck"
)

func (w *world) bytesAt(nodeID, id string) int64 {
	w.Helper()
	n := w.nodes[nodeID]
	stats, err := n.NodeGetVolumeStats(w.Context(), &csi.NodeGetVolumeStatsRequest{
		VolumeId: id, VolumePath: n.target(id),
	})
	testcheck.NoError(w, err)
	return stats.GetUsage()[0].GetTotal()
}

// expand requests a size from the controller.
func (w *world) expand(id string, size int64) (*csi.ControllerExpandVolumeResponse, error) {
	return w.controller.ControllerExpandVolume(w.Context(), &csi.ControllerExpandVolumeRequest{
		VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: size}, VolumeCapability: writer(),
	})
}

func (w *world) expandOn(nodeID, id string, size int64) error {
	n := w.nodes[nodeID]
	_, err := n.NodeExpandVolume(w.Context(), &csi.NodeExpandVolumeRequest{
		VolumeId: id, VolumePath: n.target(id), CapacityRange: &csi.CapacityRange{RequiredBytes: size},
	})
	return err
}

// TestVolumeGrowsInUse grows the file system while it is mounted if this process may, and otherwise
// when it is staged again.
func TestVolumeGrowsInUse(t *testing.T) {
	w := newWorld(t)
	const size = 48 << 20
	id := w.create("growing")
	device, err := w.attach(id, "one")
	testcheck.NoError(w, err)
	testcheck.NoError(w, w.stage(id, "one", device))
	testcheck.NoError(w, w.publish(id, "one", false))
	n := w.nodes["one"]
	testcheck.NoError(w, n.fs.WriteFile(n.target(id)+"/file", []byte("data")))
	before := w.bytesAt("one", id)
	w.wantCode(w.expandOn("one", id, size), codes.OutOfRange) // not before the volume itself
	for range 2 {
		response, err := w.expand(id, size)
		testcheck.NoError(w, err)
		if got := response.GetCapacityBytes(); got != size || !response.GetNodeExpansionRequired() {
			t.Errorf("grown to %d, on the node: %v", got, response.GetNodeExpansionRequired())
		}
	}
	err = w.expandOn("one", id, size)
	if status.Code(err) == codes.FailedPrecondition { // no CAP_SYS_RESOURCE
		if now := w.bytesAt("one", id); now != before {
			t.Errorf("%d bytes after an error, %d before", now, before)
		}
		testcheck.NoError(w, w.unpublish(id, "one"))
		testcheck.NoError(w, w.unstage(id, "one"))
		testcheck.NoError(w, w.stage(id, "one", device))
		testcheck.NoError(w, w.publish(id, "one", false))
		err = w.expandOn("one", id, size)
	}
	testcheck.NoError(w, err)
	if now := w.bytesAt("one", id); now < 2*before {
		t.Errorf("%d bytes at the end, %d before", now, before)
	}
	if data, err := n.fs.ReadFile(n.target(id) + "/file"); err != nil || string(data) != "data" {
		t.Errorf("the file holds %q (%v)", data, err)
	}
	_, err = w.expand(id, 1<<60)
	w.wantCode(err, codes.OutOfRange)
	_, err = w.expand("vol-0000000000000000", size)
	w.wantCode(err, codes.NotFound)
}
