package volumemanager_test

import (
	"testing"
	"time"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// TestFailingPodDoesNotDelayAnother has two pods that share a volume, which can never be mounted
// for the first one.
func TestFailingPodDoesNotDelayAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.disk("disk-1")
	w.attach("disk-1")
	for range 100 {
		w.backend.faults = append(w.backend.faults, fault{call: "SetUp disk-1 a", err: errFinal})
	}
	w.add("a", "disk-1")
	w.add("b", "disk-1")
	w.Until("b to be mounted", func() bool { return w.manager.Mounted("b") })
	w.calls("0s MountDevice disk-1", "0s SetUp disk-1 a: broken", "500ms SetUp disk-1 b")
	w.backend.faults = nil
	w.Run()
	w.pod("a", true, true)
	w.quiet()
}

// TestPodIsAddedAgainAfterItsUnmountFailed checks that the volume is mounted again, since the
// result of the unmount is unknown.
func TestPodIsAddedAgainAfterItsUnmountFailed(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.backend.faults = []fault{{"TearDown disk-1 a", errUncertain, true}}
	w.remove("a")
	w.pass(0)
	w.add("a", "disk-1")
	w.moveAll("volume populator")
	w.pod("a", false, true)
	w.Run()
	w.calls("0s TearDown disk-1 a: no answer", "0s SetUp disk-1 a")
	w.pod("a", true, true)
	w.quiet()
}

// TestFailedMounts fails each of the calls in each way.
func TestFailedMounts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		fault      fault
		hasVolumes bool     // of the pod, while unmounted
		left       []string // calls when the pod is removed
		event      string
	}{
		{
			"MountDevice, final",
			fault{"MountDevice disk-1", errFinal, false},
			false, nil,
			`x2 Warning FailedMount pod-a: MountVolume.MountDevice failed for volume "disk-1" : broken`,
		},
		{
			"MountDevice, transient",
			fault{"MountDevice disk-1", errTransient, false},
			false, nil,
			`x2 Warning FailedMount pod-a: MountVolume.MountDevice failed for volume "disk-1" : not yet`,
		},
		{
			"MountDevice, uncertain",
			fault{"MountDevice disk-1", errUncertain, false},
			false,
			[]string{"UnmountDevice disk-1"},
			`x2 Warning FailedMount pod-a: MountVolume.MountDevice failed for volume "disk-1" : no answer`,
		},
		{
			"MountDevice, uncertain, after its effect",
			fault{"MountDevice disk-1", errUncertain, true},
			false,
			[]string{"UnmountDevice disk-1"},
			`x2 Warning FailedMount pod-a: MountVolume.MountDevice failed for volume "disk-1" : no answer`,
		},
		{
			"SetUp, final",
			fault{"SetUp disk-1 a", errFinal, false},
			false,
			[]string{"UnmountDevice disk-1"},
			`x2 Warning FailedMount pod-a: MountVolume.SetUp failed for volume "disk-1" : broken`,
		},
		{
			"SetUp, transient",
			fault{"SetUp disk-1 a", errTransient, false},
			false,
			[]string{"UnmountDevice disk-1"},
			`x2 Warning FailedMount pod-a: MountVolume.SetUp failed for volume "disk-1" : not yet`,
		},
		{
			"SetUp, uncertain",
			fault{"SetUp disk-1 a", errUncertain, false},
			true,
			[]string{"TearDown disk-1 a", "UnmountDevice disk-1"},
			`x2 Warning FailedMount pod-a: MountVolume.SetUp failed for volume "disk-1" : no answer`,
		},
		{
			"SetUp, uncertain, after its effect",
			fault{"SetUp disk-1 a", errUncertain, true},
			true,
			[]string{"TearDown disk-1 a", "UnmountDevice disk-1"},
			`x2 Warning FailedMount pod-a: MountVolume.SetUp failed for volume "disk-1" : no answer`,
		},
	}
	for _, tt := range tests {
		failed := func(t *testing.T) *world {
			t.Helper()
			w := newWorld(t, nil)
			w.disk("disk-1")
			w.attach("disk-1")
			w.backend.faults = []fault{tt.fault, tt.fault}
			w.add("a", "disk-1")
			w.pass(time.Second) // two attempts: at 0 s and at 0.5 s
			testcheck.Equal(w, "faults left", 0, len(w.backend.faults))
			w.pod("a", false, tt.hasVolumes)
			testcheck.Equal(w, "events", []string{tt.event}, w.events())
			w.inUse("disk-1")
			w.backend.calls = nil
			return w
		}
		t.Run(tt.name+", and it heals", func(t *testing.T) {
			t.Parallel()
			w := failed(t)
			w.Run()
			testcheck.Equal(w, "mounts", []string{"disk-1", "disk-1 a"}, w.backend.mounts())
			w.pod("a", true, true)
			testcheck.Equal(w, "time", 1500*time.Millisecond, w.Host.Now().Sub(sim.Epoch)) // 0.5 s + 1 s
			w.quiet()
		})
		t.Run(tt.name+", and the pod goes", func(t *testing.T) {
			t.Parallel()
			w := failed(t)
			w.remove("a")
			w.Run()
			want := make([]string, len(tt.left))
			for i, call := range tt.left {
				want[i] = "1s " + call
			}
			w.calls(want...)
			testcheck.Equal(w, "mounts", nil, w.backend.mounts())
			w.pod("a", false, false)
			w.inUse()
			w.quiet()
		})
	}
}

// TestFinalErrorAfterAnUncertainOne checks that the volume is not mounted then (I24).
func TestFinalErrorAfterAnUncertainOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.disk("disk-1")
	w.attach("disk-1")
	w.backend.faults = []fault{
		{call: "SetUp disk-1 a", err: errUncertain},
		{call: "SetUp disk-1 a", err: errTransient},
		{call: "SetUp disk-1 a", err: errFinal},
	}
	w.add("a", "disk-1")
	w.pass(0)
	w.pod("a", false, true)
	w.pass(500 * time.Millisecond)
	w.pod("a", false, true) // transient: unchanged
	w.pass(time.Second)
	w.pod("a", false, false)
	w.Run()
	w.pod("a", true, true)
	w.quiet()
}

func TestBackoffOfAMount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.disk("disk-1")
	w.attach("disk-1")
	for range 10 {
		w.backend.faults = append(w.backend.faults, fault{call: "MountDevice disk-1", err: errFinal})
	}
	w.add("a", "disk-1")
	w.Run()
	w.calls(
		"0s MountDevice disk-1: broken", "500ms MountDevice disk-1: broken", "1.5s MountDevice disk-1: broken",
		"3.5s MountDevice disk-1: broken", "7.5s MountDevice disk-1: broken", "15.5s MountDevice disk-1: broken",
		"31.5s MountDevice disk-1: broken", "1m3.5s MountDevice disk-1: broken", "2m7.5s MountDevice disk-1: broken",
		"4m9.5s MountDevice disk-1: broken", // the maximum is 2m2s
		"6m11.5s MountDevice disk-1", "6m11.5s SetUp disk-1 a",
	)
	testcheck.Equal(w, "events", []string{`x10 Warning FailedMount pod-a: MountVolume.MountDevice failed for volume "disk-1" : broken`}, w.events())
	w.quiet()
}

// TestFailedUnmounts checks that they are retried, and that until then the pod has volumes and the
// volume is in use.
func TestFailedUnmounts(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errFinal, errTransient, errUncertain} {
		for _, after := range []bool{false, true} {
			w := mounted(t)
			w.backend.faults = []fault{
				{"TearDown disk-1 a", err, after},
				{"TearDown disk-1 a", err, after},
				{"UnmountDevice disk-1", err, after},
			}
			w.remove("a")
			w.pass(time.Second)
			w.pod("a", false, true)
			w.inUse("disk-1")
			testcheck.Equal(w, "quiet", false, w.manager.Quiescent())
			w.Until("pod a to have no volumes", func() bool { return !w.manager.HasVolumes("a") })
			w.pass(0)
			w.inUse("disk-1")
			testcheck.Equal(w, "quiet", false, w.manager.Quiescent())
			w.Run()
			text := ": " + err.Error()
			w.calls(
				"0s TearDown disk-1 a"+text, "500ms TearDown disk-1 a"+text, "1.5s TearDown disk-1 a",
				"1.5s UnmountDevice disk-1"+text, "2s UnmountDevice disk-1",
			)
			w.inUse()
			w.quiet()
		}
	}
}

// TestFailedUnmountNextToAnotherPod is retried until it succeeds.
func TestFailedUnmountNextToAnotherPod(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.add("b", "disk-1")
	w.Run()
	w.backend.calls = nil
	w.backend.faults = []fault{{"TearDown disk-1 a", errUncertain, false}}
	w.remove("a")
	w.pass(0)
	testcheck.Equal(w, "quiet", false, w.manager.Quiescent())
	w.pod("a", false, true)
	w.pod("b", true, true)
	w.Run()
	w.calls("0s TearDown disk-1 a: no answer", "500ms TearDown disk-1 a")
	w.quiet()
}

// TestVolumeIsWantedAgainAfterAFailedUnmount mounts the volume again.
func TestVolumeIsWantedAgainAfterAFailedUnmount(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.backend.faults = []fault{{"UnmountDevice disk-1", errUncertain, true}}
	w.remove("a")
	w.pass(0)
	w.add("b", "disk-1")
	w.Run()
	w.calls("0s TearDown disk-1 a", "0s UnmountDevice disk-1: no answer", "0s MountDevice disk-1", "0s SetUp disk-1 b")
	w.pod("b", true, true)
	w.quiet()
}

// TestUnmountThatDidNotBegin: a device whose unmount failed because the driver was missing stays as
// it was, and is not mounted again for the next pod. One that may have been unmounted is uncertain.
func TestUnmountThatDidNotBegin(t *testing.T) {
	t.Parallel()
	for err, want := range map[error][]string{
		errTransient: {"0s SetUp disk-1 b"},
		errUncertain: {"0s MountDevice disk-1", "0s SetUp disk-1 b"},
	} {
		w := mounted(t)
		w.backend.faults = []fault{{"UnmountDevice disk-1", err, false}}
		w.remove("a")
		w.Until("the device not to be unmounted", func() bool { return len(w.backend.faults) == 0 })
		w.add("b", "disk-1")
		w.Run()
		w.pod("b", true, true)
		w.calls(append([]string{"0s TearDown disk-1 a", "0s UnmountDevice disk-1: " + err.Error()}, want...)...)
	}
}
