package csi_test

import (
	"errors"
	"io/fs"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/csi"
)

// TestReconstruct determines in a restarted process what was mounted, also after an uncertain call.
func TestReconstruct(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		d := arrayDisk(t)
		d.NoError(d.mountDevice())
		if _, err := d.plugin.Reconstruct("pv", podUID); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("before it is set up: %v, want %v", err, fs.ErrNotExist)
		}
		if fails {
			d.conn.faults = []fault{{"NodePublishVolume", coded(codes.DeadlineExceeded), false}}
		}
		if err := d.setUp(); (err != nil) != fails {
			t.Fatal(err)
		}
		again := csi.New(csi.Config{
			Process: d.process, CSIDrivers: d.Server.Informers(d.process).Storage().V1().CSIDrivers(), Root: root, FS: d.disk,
		})
		made, err := again.Reconstruct("pv", podUID)
		d.NoError(err)
		spec := made.Spec
		name, err := again.VolumeName(spec)
		d.NoError(err)
		path, err := again.DeviceMountPath(spec)
		d.NoError(err)
		testcheck.Equal(d, "name of the volume", d.driver+"^"+d.handle, name)
		testcheck.Equal(d, "where its device is mounted", d.globalMount(), path)
		testcheck.Equal(d, "name of the spec", "pv", spec.Name())
		d.NoError(d.tearDown())
		if _, err := again.Reconstruct("pv", podUID); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after it is torn down: %v, want %v", err, fs.ErrNotExist)
		}
	}
}
