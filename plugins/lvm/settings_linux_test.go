package lvm

import (
	"strconv"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/blockdev"
	"github.com/volsim/volsim/internal/testcheck"
)

// TestReadAhead changes the read-ahead of an attached volume, and attaches it again after the driver
// has restarted.
func TestReadAhead(t *testing.T) {
	needLVM(t)
	if !hasMapper() {
		t.Skip("no device-mapper on this machine")
	}
	m := newMachine(t)
	id, err := m.create("volume", nil)
	testcheck.NoError(m, err)
	attach := func() blockcsi.Attachment {
		t.Helper()
		pool := m.driver.pools[0]
		volume, err := pool.Volume(t.Context(), id)
		testcheck.NoError(m, err)
		attached, err := pool.Attach(t.Context(), volume, node, false)
		testcheck.NoError(m, err)
		return attached
	}
	// want sets the read-ahead that a device should have already.
	want := func(at blockcsi.Attachment, kibibytes int64) {
		t.Helper()
		if changed, err := blockdev.SetReadAhead(at.Device, kibibytes); changed || err != nil {
			t.Errorf("the read-ahead of %s was not %d KiB (%v)", at.Device, kibibytes, err)
		}
	}
	attached := attach()
	for _, kibibytes := range []int64{64, 2048} {
		_, err := m.driver.Controller().ControllerModifyVolume(t.Context(), &csi.ControllerModifyVolumeRequest{
			VolumeId: id, MutableParameters: map[string]string{readAheadKey: strconv.FormatInt(kibibytes, 10)},
		})
		testcheck.NoError(m, err)
		want(attached, kibibytes)
	}
	testcheck.NoError(m, m.driver.pools[0].Detach(t.Context(), attached))
	testcheck.NoError(m, m.driver.Close())
	m.open()
	want(attach(), 2048)
}
