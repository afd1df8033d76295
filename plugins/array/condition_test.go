package array_test

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/volsim/volsim/internal/csireq"
)

func TestConditions(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		id, status, reason, message string
		ok                          bool
	}{
		{w.id, "DEGRADED", "DiskFailed", "disk 3", true},
		{w.id, "DATA_LOSS", "DisksFailed", "disks 3 and 4", true},
		{w.id, "DEGRADED", "DiskFailed", "disk 5", true}, // replaces
		{"", "STORAGE_DEGRADED", "PathDown", "path 1", true},
		{"", "DEGRADED", "PathDown", "", false},
		{w.id, "STORAGE_DEGRADED", "PathDown", "", false},
		{w.id, "DEGRADED", "", "no reason", false},
		{"vol-unknown", "DEGRADED", "DiskFailed", "", false},
	} {
		if err := w.array.SetCondition(c.id, c.status, c.reason, c.message); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
	want := []csireq.Condition{
		{Status: "DEGRADED", Reason: "DiskFailed", Message: "disk 5"},
		{Status: "DATA_LOSS", Reason: "DisksFailed", Message: "disks 3 and 4"},
	}
	if diff := cmp.Diff(want, w.array.Conditions(w.id)); diff != "" {
		t.Error(diff)
	}
	if got := w.array.Conditions("vol-unknown"); got != nil {
		t.Errorf("of an unknown volume: %v", got)
	}
	w.array.ClearConditions(w.id)
	w.array.ClearConditions("vol-unknown")
	if left := w.array.Conditions(w.id); len(left) > 0 || len(w.array.Conditions("")) != 1 {
		t.Errorf("left: %v, of the array: %v", left, w.array.Conditions(""))
	}
}

func TestGetVolume(t *testing.T) {
	w := newWorld(t)
	w.attach("two", readers, true, codes.OK)
	w.attach("one", readers, true, codes.OK)
	for id, code := range map[string]codes.Code{w.id: codes.OK, "": codes.InvalidArgument, "vol-unknown": codes.NotFound} {
		response, err := w.controller.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: id})
		w.want(err, code)
		if err != nil {
			continue
		}
		if diff := cmp.Diff([]string{"one", "two"}, response.GetStatus().GetPublishedNodeIds()); diff != "" {
			t.Error(diff)
		}
		if v := response.GetVolume(); v.GetVolumeId() != w.id || v.GetCapacityBytes() != gibibyte {
			t.Errorf("volume: %v", v)
		}
	}
}
