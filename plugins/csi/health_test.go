package csi_test

import (
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/volumehealth"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
)

const (
	statsCapability  = csispec.NodeServiceCapability_RPC_GET_VOLUME_STATS
	healthCapability = csispec.NodeServiceCapability_RPC_GET_VOLUME_HEALTH
	stageCapability  = csispec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME
)

// TestVolumeHealth asks drivers of CSI 1.13 by a call of its own, and finds the condition of earlier
// drivers in the statistics.
func TestVolumeHealth(t *testing.T) {
	t.Parallel()
	usage := []*csispec.VolumeUsage{{Unit: csispec.VolumeUsage_BYTES, Total: 10, Used: 3, Available: 7}}
	measured := plugins.Usage{CapacityBytes: 10, UsedBytes: 3, AvailableBytes: 7, Inodes: -1, InodesUsed: -1, InodesFree: -1}
	unknown := plugins.Usage{CapacityBytes: -1, UsedBytes: -1, AvailableBytes: -1, Inodes: -1, InodesUsed: -1, InodesFree: -1}
	with := func(u plugins.Usage, abnormal bool, message string) plugins.Usage {
		u.ReportsHealth, u.Abnormal, u.Message = true, abnormal, message
		return u
	}
	degraded := &csispec.VolumeHealth{HealthStatuses: []*csispec.VolumeHealth_VolumeHealthEntry{{
		Status: csispec.VolumeHealthErrorType_DEGRADED, Reason: "Slow", Message: "a disk is slow",
	}}}
	sick := volumehealth.Condition{Abnormal: true, Message: "Volume not found"}
	tests := []struct {
		name      string
		off       bool // the kubelet does not ask
		can       []csispec.NodeServiceCapability_RPC_Type
		usage     []*csispec.VolumeUsage
		condition *volumehealth.Condition
		health    *csispec.VolumeHealth
		fault     string
		want      plugins.Usage
		fails     bool
	}{
		{"off", true, []csispec.NodeServiceCapability_RPC_Type{statsCapability, healthCapability, volumehealth.NodeCapability}, usage, &sick, degraded, "", measured, false},
		{"no capability", false, []csispec.NodeServiceCapability_RPC_Type{statsCapability}, usage, &sick, degraded, "", measured, false},
		{"condition, abnormal", false, []csispec.NodeServiceCapability_RPC_Type{statsCapability, volumehealth.NodeCapability}, usage, &sick, nil, "", with(measured, true, "Volume not found"), false},
		{"condition, normal", false, []csispec.NodeServiceCapability_RPC_Type{statsCapability, volumehealth.NodeCapability}, usage, &volumehealth.Condition{Message: "fine"}, nil, "", with(measured, false, "fine"), false},
		{"condition, missing", false, []csispec.NodeServiceCapability_RPC_Type{statsCapability, volumehealth.NodeCapability}, usage, nil, nil, "", with(measured, false, ""), false},
		{"condition without usage", false, []csispec.NodeServiceCapability_RPC_Type{statsCapability, volumehealth.NodeCapability}, nil, &sick, nil, "", with(unknown, true, "Volume not found"), false},
		{"health, abnormal", false, []csispec.NodeServiceCapability_RPC_Type{statsCapability, healthCapability}, usage, nil, degraded, "", with(measured, true, "DEGRADED Slow: a disk is slow"), false},
		{"health, normal", false, []csispec.NodeServiceCapability_RPC_Type{statsCapability, healthCapability}, usage, nil, &csispec.VolumeHealth{}, "", with(measured, false, ""), false},
		{"health fails", false, []csispec.NodeServiceCapability_RPC_Type{statsCapability, healthCapability}, usage, nil, degraded, "NodeGetVolumeHealth", measured, false},
		{"statistics fail", false, []csispec.NodeServiceCapability_RPC_Type{statsCapability, healthCapability}, usage, nil, degraded, "NodeGetVolumeStats", plugins.Usage{}, true},
		{"neither usage nor condition", false, []csispec.NodeServiceCapability_RPC_Type{statsCapability}, nil, nil, nil, "", plugins.Usage{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, d := newWorld(t, func(cfg *csi.Config) { cfg.VolumeHealth = !tt.off }).stubDisk(tt.can...)
			s.stats, s.health = &csispec.NodeGetVolumeStatsResponse{Usage: tt.usage}, tt.health
			if tt.condition != nil {
				volumehealth.SetRetired(s.stats, *tt.condition)
			}
			if tt.fault != "" {
				d.conn.faults = []fault{{method: tt.fault, err: coded(codes.Internal)}}
			}
			d.NoError(d.setUp())
			got, err := d.measure()
			if (err != nil) != tt.fails {
				t.Errorf("error %v, want one: %v", err, tt.fails)
			}
			testcheck.Equal(d, "usage", tt.want, got)
		})
	}
}

// TestHealthRequest has the paths at which the volume is staged and published.
func TestHealthRequest(t *testing.T) {
	t.Parallel()
	block := corev1.PersistentVolumeBlock
	tests := []struct {
		name string
		can  []csispec.NodeServiceCapability_RPC_Type
		mode *corev1.PersistentVolumeMode
		want func(d *disk) *csispec.NodeGetVolumeHealthRequest
	}{
		{"staged", []csispec.NodeServiceCapability_RPC_Type{stageCapability}, nil, func(d *disk) *csispec.NodeGetVolumeHealthRequest {
			return &csispec.NodeGetVolumeHealthRequest{
				VolumeId: "h-1", VolumePublishPath: d.mountPath("pv"), StagingTargetPath: d.globalMount(),
			}
		}},
		{"not staged", nil, nil, func(d *disk) *csispec.NodeGetVolumeHealthRequest {
			return &csispec.NodeGetVolumeHealthRequest{VolumeId: "h-1", VolumePublishPath: d.mountPath("pv")}
		}},
		{"block", []csispec.NodeServiceCapability_RPC_Type{stageCapability}, &block, func(*disk) *csispec.NodeGetVolumeHealthRequest {
			const devices = root + "/plugins/kubernetes.io/csi/volumeDevices"
			return &csispec.NodeGetVolumeHealthRequest{
				VolumeId: "h-1", VolumePublishPath: devices + "/publish/pv/uid-1", StagingTargetPath: devices + "/staging/pv",
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, d := newWorld(t, func(cfg *csi.Config) { cfg.VolumeHealth = true }).
				stubDisk(append(tt.can, statsCapability, healthCapability)...)
			s.stats = &csispec.NodeGetVolumeStatsResponse{Usage: []*csispec.VolumeUsage{{Unit: csispec.VolumeUsage_BYTES}}}
			d.spec.PersistentVolume.Spec.VolumeMode = tt.mode
			if tt.mode == nil {
				d.NoError(d.mountDevice(), d.setUp())
			} else {
				testcheck.Must(d.mapPodDevice())
			}
			_, err := d.measure()
			d.NoError(err)
			if got := last[*csispec.NodeGetVolumeHealthRequest](s); !proto.Equal(tt.want(d), got) {
				t.Errorf("request %v, want %v", got, tt.want(d))
			}
		})
	}
}
