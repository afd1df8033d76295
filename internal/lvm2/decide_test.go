package lvm2

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Messages of LVM 2.03.16 and their classes.
func TestErrorClasses(t *testing.T) {
	for text, want := range map[string]error{
		`Volume group "vg0" has insufficient free space (53 extents): 256 required.`:                          ErrNoSpace,
		`Insufficient free space: 97 extents needed, but only 51 available`:                                   ErrNoSpace,
		`Insufficient suitable allocatable extents for logical volume a: 3 more required`:                     ErrNoSpace,
		`Insufficient suitable contiguous allocatable extents for logical volume a: 2 more required`:          ErrNotContiguous,
		`Logical Volume "a" already exists in volume group "vg0"`:                                             ErrExists,
		`A volume group called vg0 already exists.`:                                                           ErrExists,
		`Logical volume name "a b" is invalid.`:                                                               ErrInvalidArgument,
		`Names starting "snapshot" are reserved. Please choose a different LV name.`:                          ErrInvalidArgument,
		`Invalid argument for --addtag: a b`:                                                                  ErrInvalidArgument,
		`Logical volume zz not found in volume group vg0.`:                                                    ErrNotFound,
		`Failed to find logical volume "vg0/zz"`:                                                              ErrNotFound,
		`Existing logical volume "zz" not found in volume group "vg0"`:                                        ErrNotFound,
		`Volume group "nope" not found; Cannot process volume group nope`:                                     ErrNoGroup,
		`Physical volume '/d/pv0' is already in volume group 'vg0'; Unable to add physical volume`:            ErrInUse,
		`Logical volume vg0/a in use.`:                                                                        ErrInUse,
		`Logical volume vg0/a contains a filesystem in use.`:                                                  ErrInUse,
		`device-mapper: create ioctl on g-v LVM-abc failed: Device or resource busy`:                          ErrInUse,
		`No device found for /d/pv9.`:                                                                         ErrMissingDevice,
		`Cannot change VG vg0 while PVs are missing.`:                                                         ErrMissingDevice,
		`Cannot update volume group vg0 with duplicate PV devices.`:                                           ErrDuplicateDevice,
		`Cannot access VG vg0 with system ID volsim-x with unknown local system ID.`:                          ErrForeign,
		`Aborted wiping of ext4.; 1 existing signature left on the device.`:                                   ErrNotEmpty,
		`Can't create thin-pool without using device-mapper kernel driver.`:                                   ErrUnsupported,
		`raid1: Required device-mapper target(s) not detected in your kernel.; Run lvcreate --help for more.`: ErrUnsupported,
		`Failed to write VG vg0.`:                                                                             nil,
	} {
		err := commandError([]string{"lvcreate", "-y"},
			"  WARNING: Activation disabled. No device-mapper interaction will be attempted.\n  "+text+
				"\n", errors.New("exit status 5"))
		if got := err.(*CommandError).class; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
		if got := err.Error(); got != "lvm lvcreate: "+text {
			t.Errorf("says %q", got)
		}
	}
	if err := commandError([]string{"vgs"}, "",
		errors.New("signal: killed")); err.Error() != "lvm vgs: signal: killed" {
		t.Error(err)
	}
}

// A volume with two segments, one of two adjacent runs, on two disks, one of them missing.
const reported = `{"report": [{
"vg": [{"vg_name":"g", "vg_uuid":"G", "vg_systemid":"me", "vg_seqno":"7", "vg_extent_size":"4194304", "vg_size":"528482304", "vg_free":"222298112", "vg_tags":"a,b"}],
"pv": [
 {"pv_name":"/x/dev/pv0", "pv_uuid":"P0", "pe_start":"1048576", "pv_size":"264241152", "pv_free":"222298112", "pv_missing":""},
 {"pv_name":"[unknown]", "pv_uuid":"P1", "pe_start":"1048576", "pv_size":"264241152", "pv_free":"0", "pv_missing":"missing"}],
"lv": [{"lv_name":"v", "lv_uuid":"V", "lv_size":"293601280", "lv_attr":"-wi-XX--p-", "lv_time":"2026-11-22 04:30:00 +0000", "lv_tags":"", "origin":"", "pool_lv":"",
 "data_percent":"", "metadata_percent":"", "lv_health_status":"partial", "lv_device_open":"unknown", "lv_dm_path":"/x/dev/mapper/g-v", "lv_kernel_major":"-1", "lv_kernel_minor":"-1"}],
"pvseg": [
 {"pv_uuid":"P0", "pvseg_start":"0", "pvseg_size":"3", "segtype":"linear"},
 {"pv_uuid":"P0", "pvseg_start":"10", "pvseg_size":"20", "segtype":"free"},
 {"pv_uuid":"P0", "pvseg_start":"30", "pvseg_size":"33", "segtype":"free"},
 {"pv_uuid":"P1", "pvseg_start":"0", "pvseg_size":"63", "segtype":"linear"}],
"seg": [
 {"lv_uuid":"V", "segtype":"linear", "seg_start_pe":"5", "seg_size_pe":"60", "seg_pe_ranges":"[unknown]:3-62"},
 {"lv_uuid":"V", "segtype":"linear", "seg_start_pe":"0", "seg_size_pe":"3", "seg_pe_ranges":"/x/dev/pv0:0-2"},
 {"lv_uuid":"V", "segtype":"linear", "seg_start_pe":"3", "seg_size_pe":"2", "seg_pe_ranges":"/x/dev/pv0:3-4"}]
}]}`

func TestParseReport(t *testing.T) {
	raw, err := reportsOf([]byte(reported))
	if err != nil {
		t.Fatal(err)
	}
	report, err := (&System{directory: "/x"}).parse(raw[0])
	if err != nil {
		t.Fatal(err)
	}
	if want := []Extent{{"pv0", 0, 5}, {"", 3, 60}}; !cmp.Equal(report.LogicalVolumes[0].Extents, want) ||
		!report.LogicalVolumes[0].isPartial() {
		t.Errorf("the volume lies at %v, want %v", report.LogicalVolumes[0].Extents, want)
	}
	if want := []Extent{{"pv0", 10, 53}}; !cmp.Equal(report.PhysicalVolumes[0].Unused, want) ||
		report.LargestContiguous() != 53<<22 {
		t.Errorf("unused is %v, want %v", report.PhysicalVolumes[0].Unused, want)
	}
	if _, ok := report.disk(""); ok || !report.PhysicalVolumes[1].Missing || report.Sequence != 7 ||
		!slices.Equal(report.Tags, []string{"a", "b"}) {
		t.Errorf("report %+v", report)
	}
	raw[0]["vg"][0]["vg_size"] = "much"
	if _, err := (&System{directory: "/x"}).parse(raw[0]); err == nil {
		t.Error("an invalid size was parsed")
	}
}

// The largest volume of each layout, given the free extents of each disk.
func TestLargestVolumeOfLayout(t *testing.T) {
	for _, test := range []struct {
		free []int64
		spec Spec
		want int64
	}{
		{[]int64{3, 9, 5}, Spec{Layout: Linear}, 17},
		{[]int64{3, 9, 5}, Spec{Layout: Striped, Stripes: 2}, 10},
		{[]int64{3, 9, 5}, Spec{Layout: Striped, Stripes: 3}, 9},
		{[]int64{3, 9, 5}, Spec{Layout: Striped, Stripes: 4}, 0},
		{[]int64{3, 9, 5}, Spec{Layout: RAID1}, 4},
		{[]int64{3, 9, 5}, Spec{Layout: RAID1, Mirrors: 2}, 2},
		{[]int64{9}, Spec{Layout: RAID1}, 0},
	} {
		report := &Report{ExtentSize: 1}
		for _, free := range test.free {
			report.Free += free
			report.PhysicalVolumes = append(report.PhysicalVolumes, PhysicalVolume{Free: free})
		}
		if got, err := report.largest(test.spec); err != nil || got != test.want {
			t.Errorf("%v free, %+v: %d, %v, want %d", test.free, test.spec, got, err, test.want)
		}
	}
	if _, err := (&Report{}).largest(Spec{Layout: Thin, Pool: "p"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("missing pool: %v", err)
	}
}

// Locks are granted in order, and a canceled waiter does not delay the others.
func TestLocksAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held locks
		release, err := held.acquire(t.Context(), "b", "a", "a")
		if err != nil {
			t.Fatal(err)
		}
		impatient, cancel := context.WithCancel(t.Context())
		gaveUp, order := make(chan error, 1), make(chan int, 3)
		go func() {
			_, err := held.acquire(impatient, "b")
			gaveUp <- err
		}()
		synctest.Wait()
		for i := range 3 {
			go func() {
				leave, err := held.acquire(t.Context(), "b")
				if err == nil {
					order <- i
					leave()
				}
			}()
			synctest.Wait()
		}
		if leave, err := held.acquire(t.Context(), "c"); err != nil {
			t.Error(err)
		} else {
			leave()
		}
		if len(order) > 0 {
			t.Error("a waiter got the lock while it was held")
		}
		cancel()
		if err := <-gaveUp; !errors.Is(err, context.Canceled) {
			t.Errorf("canceled waiter: %v", err)
		}
		release()
		if got := fmt.Sprint(<-order, <-order, <-order); got != "0 1 2" {
			t.Errorf("served in the order %s", got)
		}
		synctest.Wait()
		if len(held.named) > 0 {
			t.Errorf("locks remain: %v", held.named)
		}
	})
}

// A command that hangs is killed in the end; a canceled one is killed at once.
func TestHangingCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &System{command: "/bin/sleep", directory: "/", grace: time.Millisecond}
	time.AfterFunc(time.Millisecond, cancel)
	if _, err := s.lvm(ctx, "1000"); err == nil {
		t.Error("the hanging command returned without an error")
	}
	s.grace = time.Minute
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	if _, err := s.lvm(ctx, "0.1"); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("command that ended in time: %v", err)
	}
}
