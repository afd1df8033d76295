package volumehealth_test

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/volumehealth"
)

func TestOfEntries(t *testing.T) {
	t.Parallel()
	entry := func(status csi.VolumeHealthErrorType, reason, message string) *csi.VolumeHealth_VolumeHealthEntry {
		return &csi.VolumeHealth_VolumeHealthEntry{Status: status, Reason: reason, Message: message}
	}
	tests := []struct {
		name    string
		entries []*csi.VolumeHealth_VolumeHealthEntry
		want    volumehealth.Condition
	}{
		{"none", nil, volumehealth.Condition{}},
		{
			"one",
			[]*csi.VolumeHealth_VolumeHealthEntry{entry(csi.VolumeHealthErrorType_DEGRADED, "Slow", "a disk is slow")},
			volumehealth.Condition{Abnormal: true, Message: "DEGRADED Slow: a disk is slow"},
		},
		{
			"several",
			[]*csi.VolumeHealth_VolumeHealthEntry{
				entry(csi.VolumeHealthErrorType_INACCESSIBLE, "Gone", ""),
				entry(csi.VolumeHealthErrorType_DATA_LOSS, "Torn", "half"),
			},
			volumehealth.Condition{Abnormal: true, Message: "INACCESSIBLE Gone; DATA_LOSS Torn: half"},
		},
		{
			"of unknown status",
			[]*csi.VolumeHealth_VolumeHealthEntry{
				entry(csi.VolumeHealthErrorType_UNKNOWN_VOLUME_HEALTH_TYPE, "What", ""), entry(99, "MultipathLoss", ""),
			},
			volumehealth.Condition{},
		},
		{
			"a newer status with a known one",
			[]*csi.VolumeHealth_VolumeHealthEntry{
				entry(99, "MultipathLoss", ""), entry(csi.VolumeHealthErrorType_DEGRADED, "Slow", ""),
			},
			volumehealth.Condition{Abnormal: true, Message: "DEGRADED Slow"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			testcheck.Equal(t, "condition", tt.want, volumehealth.Of(&csi.VolumeHealth{HealthStatuses: tt.entries}))
		})
	}
}

// TestRetired reads the condition from the bytes that a driver of CSI 1.12 sends.
func TestRetired(t *testing.T) {
	t.Parallel()
	usage := "\x0a\x02\x20\x01" // usage: {unit: BYTES}
	tests := []struct {
		name, sent string
		want       volumehealth.Condition
		reported   bool
	}{
		{"none", usage, volumehealth.Condition{}, false},
		{"normal", usage + "\x12\x00", volumehealth.Condition{}, true},
		{"normal, with a message", "\x12\x04\x12\x02ok", volumehealth.Condition{Message: "ok"}, true},
		{"abnormal", "\x12\x06\x08\x01\x12\x02no" + usage, volumehealth.Condition{Abnormal: true, Message: "no"}, true},
		{"with fields that are unknown too", "\x12\x09\x08\x01\x19\x01\x02\x03\x04\x05\x06", volumehealth.Condition{Abnormal: true}, true},
		{"of another type", "\x10\x01", volumehealth.Condition{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			response := &csi.NodeGetVolumeStatsResponse{}
			testcheck.NoError(t, proto.Unmarshal([]byte(tt.sent), response))
			got, reported := volumehealth.Retired(response)
			testcheck.Equal(t, "condition", tt.want, got)
			testcheck.Equal(t, "reported", tt.reported, reported)
		})
	}
}

// TestSetRetired sends a condition through the encoded form of each message that had one.
func TestSetRetired(t *testing.T) {
	t.Parallel()
	want := volumehealth.Condition{Abnormal: true, Message: "Volume not found"}
	for _, m := range []proto.Message{
		&csi.NodeGetVolumeStatsResponse{}, &csi.ListVolumesResponse_VolumeStatus{PublishedNodeIds: []string{"n"}},
		&csi.ControllerGetVolumeResponse_VolumeStatus{},
	} {
		volumehealth.SetRetired(m, want)
		received := proto.Clone(m)
		proto.Reset(received)
		testcheck.NoError(t, proto.Unmarshal(testcheck.Must(proto.Marshal(m)), received))
		got, reported := volumehealth.Retired(received)
		testcheck.Equal(t, "condition", want, got)
		testcheck.Equal(t, "reported", true, reported)
	}
}
