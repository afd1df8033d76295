package healthmonitor_test

import (
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sidecars/internal/scripted"
	"github.com/volsim/volsim/sim"
)

const (
	isIll     = "x1 Warning VolumeConditionAbnormal claim-b: INACCESSIBLE Gone: Volume not found"
	isIllOld  = "x1 Warning VolumeConditionAbnormal claim-b: Volume not found"
	recovered = "x1 Normal VolumeConditionNormal claim-b: The Volume returns to the healthy state"
)

// methods are the ways in which a driver reports health, and how often it is asked.
var methods = []struct {
	name         string
	capabilities []csispec.ControllerServiceCapability_RPC_Type
	calls        string // the method that is called
	perCheck     int    // calls of it, with one of three volumes abnormal
	interval     time.Duration
	isIll        string
}{
	{"lists health", []csispec.ControllerServiceCapability_RPC_Type{listHealth, getHealth, listVolumes}, "ControllerListVolumeHealth", 1, 5 * time.Minute, isIll},
	{"health of one volume", []csispec.ControllerServiceCapability_RPC_Type{getHealth}, "ControllerGetVolumeHealth", 3, time.Minute, isIll},
	{"lists conditions", []csispec.ControllerServiceCapability_RPC_Type{condition, listVolumes, getVolume}, "ListVolumes", 3, 5 * time.Minute, isIllOld},
	{"condition of one volume", []csispec.ControllerServiceCapability_RPC_Type{condition, getVolume}, "ControllerGetVolume", 3, time.Minute, isIllOld},
}

// TestAbnormalVolume reports a volume at each check while it is abnormal, and once when it has
// recovered.
func TestAbnormalVolume(t *testing.T) {
	t.Parallel()
	for _, m := range methods {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, m.capabilities...)
			for _, name := range []string{"a", "b", "c"} {
				w.add(name)
			}
			w.driver.ill["h-b"] = true
			w.start()
			w.Run()
			w.wantEvents("at the beginning", m.isIll)
			testcheck.Equal(t, "calls", m.perCheck, w.conn.Count(m.calls))
			w.Run()
			testcheck.Equal(t, "calls at rest", m.perCheck, w.conn.Count(m.calls))
			w.pass(m.interval - time.Second)
			w.wantEvents("just before the next check", m.isIll)
			w.pass(time.Second)
			twice := "x2" + m.isIll[2:]
			w.wantEvents("after the interval", twice)
			w.driver.ill["h-b"] = false
			w.pass(m.interval)
			w.wantEvents("when it has recovered", twice, recovered)
			w.pass(m.interval)
			w.wantEvents("later", twice, recovered)
			w.driver.ill["h-b"] = true
			w.pass(m.interval)
			w.driver.ill["h-b"] = false
			w.pass(m.interval)
			w.wantEvents("after another time", "x3"+m.isIll[2:], "x2"+recovered[2:])
		})
	}
}

// TestHealthyVolume reports nothing about volumes that have never been abnormal.
func TestHealthyVolume(t *testing.T) {
	t.Parallel()
	for _, m := range methods {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, m.capabilities...)
			w.add("b")
			w.start()
			w.Run()
			w.pass(m.interval)
			w.wantEvents("of a healthy volume")
		})
	}
}

// TestNoHealth asks a driver that does not report health for nothing but its capabilities.
func TestNoHealth(t *testing.T) {
	t.Parallel()
	for _, capabilities := range [][]csispec.ControllerServiceCapability_RPC_Type{
		nil, {listVolumes, getVolume}, {condition},
	} {
		w := newWorld(t, nil, capabilities...)
		w.add("b")
		w.driver.ill["h-b"] = true
		w.start()
		w.Run()
		w.pass(time.Hour)
		testcheck.Equal(t, "calls", 1, len(w.conn.Calls))
		w.wantEvents("without health")
	}
}

// TestUnmonitoredVolumes reports no volume of another driver or plugin, and none that is not bound.
func TestUnmonitoredVolumes(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*corev1.PersistentVolume, *corev1.PersistentVolumeClaim){
		"another driver": func(v *corev1.PersistentVolume, _ *corev1.PersistentVolumeClaim) { v.Spec.CSI.Driver = "other" },
		"no CSI": func(v *corev1.PersistentVolume, _ *corev1.PersistentVolumeClaim) {
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/a"}}
		},
		"not bound": func(v *corev1.PersistentVolume, _ *corev1.PersistentVolumeClaim) {
			v.Status.Phase = corev1.VolumePending
		},
		"released": func(v *corev1.PersistentVolume, _ *corev1.PersistentVolumeClaim) {
			v.Status.Phase = corev1.VolumeReleased
		},
		"no handle":         func(v *corev1.PersistentVolume, _ *corev1.PersistentVolumeClaim) { v.Spec.CSI.VolumeHandle = "" },
		"a different claim": func(_ *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) { c.UID = "uid-c" },
	}
	for name, change := range changes {
		for _, m := range methods {
			t.Run(name+", "+m.name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, nil, m.capabilities...)
				w.add("b", change)
				w.driver.ill["h-b"] = true
				w.start()
				w.Run()
				w.wantEvents("of an unmonitored volume")
			})
		}
	}
}

// TestFailedCheck repeats a check that failed at the next interval, and says nothing meanwhile.
func TestFailedCheck(t *testing.T) {
	t.Parallel()
	for _, m := range methods {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, m.capabilities...)
			w.conn.Faults = []scripted.Fault{
				{Method: "ControllerGetCapabilities", Code: codes.Unavailable}, {Method: m.calls, Code: codes.Internal},
			}
			w.add("b")
			w.driver.ill["h-b"] = true
			w.start()
			w.Run()
			w.pass(time.Second) // the capabilities are asked for again
			testcheck.Equal(t, "failed calls", 1, w.conn.Count(m.calls))
			w.wantEvents("of a check that failed")
			w.pass(m.interval)
			w.wantEvents("of the next check", m.isIll)
		})
	}
}

// TestRestartedMonitor reports the recovery from what an earlier process has reported.
func TestRestartedMonitor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, listHealth)
	w.add("b")
	w.driver.ill["h-b"] = true
	w.start()
	w.Run()
	w.wantEvents("of the first process", isIll)
	w.Host.Crash(w.process)
	w.driver.ill["h-b"] = false
	w.Host.SetTime(w.Host.Now().Add(time.Minute))
	w.start()
	w.Run()
	w.wantEvents("of the second process", isIll, recovered)
}

// TestUnderSchedules reports a volume that becomes abnormal and recovers, whatever the order of the
// deliveries and checks.
func TestUnderSchedules(t *testing.T) {
	t.Parallel()
	for _, m := range methods {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(50) {
				w := newWorld(t, sim.NewSeeded(seed), m.capabilities...)
				w.start()
				w.add("a")
				w.add("b")
				w.driver.ill["h-b"] = true
				w.Run()
				w.pass(m.interval)
				w.driver.ill["h-b"] = false
				w.pass(m.interval)
				got := w.events()
				for i := range got {
					got[i] = "x1" + got[i][2:] // one check or several
				}
				testcheck.Equal(t, "events", []string{m.isIll, recovered}, got)
			}
		})
	}
}
