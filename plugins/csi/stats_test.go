package csi_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
)

func (d *disk) measure() (usage plugins.Usage, err error) {
	d.Helper()
	err = d.do(func(ctx context.Context) error {
		usage, err = d.plugin.VolumeStats(ctx, d.spec.Name(), podUID)
		return err
	})
	return usage, err
}

func TestVolumeStats(t *testing.T) {
	t.Parallel()
	bytes := &csispec.VolumeUsage{Unit: csispec.VolumeUsage_BYTES, Total: 10, Used: 3, Available: 6}
	inodes := &csispec.VolumeUsage{Unit: csispec.VolumeUsage_INODES, Total: 100, Used: 4, Available: 96}
	tests := []struct {
		name string
		told []*csispec.VolumeUsage
		want plugins.Usage
	}{
		{"bytes and inodes", []*csispec.VolumeUsage{bytes, inodes}, plugins.Usage{
			CapacityBytes: 10, UsedBytes: 3, AvailableBytes: 6, Inodes: 100, InodesUsed: 4, InodesFree: 96,
		}},
		{"bytes alone", []*csispec.VolumeUsage{bytes}, plugins.Usage{
			CapacityBytes: 10, UsedBytes: 3, AvailableBytes: 6, Inodes: -1, InodesUsed: -1, InodesFree: -1,
		}},
		{"another unit", []*csispec.VolumeUsage{nil, {Total: 1}}, plugins.Usage{
			CapacityBytes: -1, UsedBytes: -1, AvailableBytes: -1, Inodes: -1, InodesUsed: -1, InodesFree: -1,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, d := capableDisk(t, csispec.NodeServiceCapability_RPC_GET_VOLUME_STATS)
			s.stats = &csispec.NodeGetVolumeStatsResponse{Usage: tt.told}
			d.NoError(d.setUp())
			got, err := d.measure()
			d.NoError(err)
			testcheck.Equal(d, "usage", tt.want, got)
			asked := last[*csispec.NodeGetVolumeStatsRequest](s)
			testcheck.Equal(d, "asked about", []string{"h-1", d.mountPath("pv")},
				[]string{asked.GetVolumeId(), asked.GetVolumePath()})
		})
	}
}

// TestVolumeStatsOfArray measures the volume's contents.
func TestVolumeStatsOfArray(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	d.NoError(d.mountDevice())
	d.NoError(d.setUp())
	empty, err := d.measure()
	d.NoError(err)
	d.NoError(d.disk.WriteFile(d.mountPath("pv")+"/file", make([]byte, 1000)))
	full, err := d.measure()
	d.NoError(err)
	testcheck.Equal(d, "used, free", []int64{0, 1000, 1000}, []int64{
		empty.UsedBytes, full.UsedBytes,
		empty.AvailableBytes - full.AvailableBytes,
	})
	testcheck.Equal(d, "of", empty.UsedBytes+empty.AvailableBytes, full.CapacityBytes)
}

func TestVolumeStatsFails(t *testing.T) {
	t.Parallel()
	t.Run("the driver does not tell", func(t *testing.T) {
		t.Parallel()
		s, d := capableDisk(t)
		d.NoError(d.setUp())
		if _, err := d.measure(); !errors.Is(err, plugins.ErrUnsupported) {
			t.Errorf("%v, want %v", err, plugins.ErrUnsupported)
		}
		if asked := last[*csispec.NodeGetVolumeStatsRequest](s); asked != nil {
			t.Error("it is asked all the same")
		}
	})
	t.Run("the driver reports nothing", func(t *testing.T) {
		t.Parallel()
		s, d := capableDisk(t, csispec.NodeServiceCapability_RPC_GET_VOLUME_STATS)
		s.stats = &csispec.NodeGetVolumeStatsResponse{}
		d.NoError(d.setUp())
		if _, err := d.measure(); err == nil || errors.Is(err, plugins.ErrUnsupported) {
			t.Errorf("%v, want another error than %v", err, plugins.ErrUnsupported)
		}
	})
	t.Run("the driver fails", func(t *testing.T) {
		t.Parallel()
		_, d := capableDisk(t, csispec.NodeServiceCapability_RPC_GET_VOLUME_STATS)
		d.NoError(d.setUp())
		d.conn.faults = []fault{{method: "NodeGetVolumeStats", err: coded(codes.Internal)}}
		_, err := d.measure()
		d.class("Measure", err, plugins.Final)
	})
	t.Run("not set up", func(t *testing.T) {
		t.Parallel()
		_, d := capableDisk(t, csispec.NodeServiceCapability_RPC_GET_VOLUME_STATS)
		if _, err := d.measure(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v, want %v", err, fs.ErrNotExist)
		}
	})
	t.Run("the driver is not registered", func(t *testing.T) {
		t.Parallel()
		_, d := capableDisk(t, csispec.NodeServiceCapability_RPC_GET_VOLUME_STATS)
		d.spec.PersistentVolume.Spec.CSI.Driver = "other.example.com"
		dir := root + "/pods/uid-1/volumes/kubernetes.io~csi/pv"
		d.NoError(d.disk.MkdirAll(dir))
		d.NoError(d.disk.WriteFile(dir+"/vol_data.json", []byte(`{"volumeHandle":"h","driverName":"other.example.com"}`)))
		_, err := d.measure()
		d.class("Measure", err, plugins.Transient)
	})
}
