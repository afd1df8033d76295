package plugintest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/volsim/volsim/plugins/plugintest"
	"github.com/volsim/volsim/sim"
)

func check(t *testing.T, broken string) error {
	t.Helper()
	return plugintest.Check(t.Context(), func() (*plugintest.World, error) {
		return world(sim.NewStepped(sim.SteppedConfig{StepsMax: 10_000}), broken), nil
	})
}

func TestCorrectPlugin(t *testing.T) {
	t.Parallel()
	for _, harmless := range []string{"", "cannot measure, and says so"} {
		if err := check(t, harmless); err != nil {
			t.Errorf("stepped: %v", err)
		}
	}
	err := plugintest.Check(t.Context(), func() (*plugintest.World, error) {
		host := sim.NewLive(sim.LiveConfig{})
		host.Start()
		return world(host, ""), nil
	})
	if err != nil {
		t.Errorf("live: %v", err)
	}
}

// TestViolationsAreFound breaks one at a time. The message names it first.
func TestViolationsAreFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ broken, want string }{
		{"name is not qualified", "Name: not a qualified name"},
		{"name changes", "Name: changes between calls"},
		{"supports all", "CanSupport: a volume of another kind is supported: an empty spec"},
		{"supports none", "CanSupport: a volume of its kind is not supported: pv-1"},
		{"panics at odd volumes", "CanSupport: panics"},
		{"changes what it is given", "Plugin: modifies its arguments"},
		{"volume name depends on the reader", `VolumeName: differs for the same volume: "v-ro", previously "v"`},
		{"volume name depends on the process", "VolumeName: changes after a restart"},
		{"volume name is that of all", `VolumeName: same for different volumes: "volume" is the name of pv-1 and pv-2`},
		{"volume name is empty", "VolumeName: empty: for pv-1"},
		{"volume name fails", "VolumeName: fails for a supported volume: pv-1: no name"},
		{"attaches only once", "Attach: fails when repeated: attached already"},
		{"never attaches", "Attach: does not return"},
		{"device path changes", `Attach: device path changes when repeated: "/dev/v-again", previously "/dev/v"`},
		{"two steps, not to be resumed", "Attach: fails after Attach with an injected fault (driver): attaching already"},
		{"two steps, and one is forgotten", "Detach: leaks resources after Attach with an injected fault (driver): extra half attached v node-1"},
		{"two steps, undone only when they fail", "Detach: leaks resources after Attach interrupted by a crash: extra half attached v node-1"},
		{"cannot tell whether it attaches", "CanAttach: fails for a supported volume: who knows"},
		{"cannot detach what is not attached", "Detach: fails when nothing was done: not attached"},
		{"does not detach", "Detach: leaks resources: extra attached v node-1"},
		{"detaches from all nodes", "Detach: affects another attachment (another node): missing attached v node-1"},
		{"detaches all of the node", "Detach: affects another attachment (another volume): missing attached v node-1"},
		{"sees nothing", "LastSeen: does not converge while attached: want attached"},
		{"takes all for attached", "Verify: wrong state before attaching: attached, want detached"},
		{"changes what it looks at", "Verify: has side effects: extra looked at"},
		{"one device path for all", `DeviceMountPath: same for different mounts: "/devices/volume" is the path of pv-1 and pv-2`},
		{"relative device path", `DeviceMountPath: not an absolute, cleaned path: "devices/v"`},
		{"unmounts only once", "UnmountDevice: fails when nothing was done: not mounted"},
		{"leaves the directory", "UnmountDevice: has side effects when nothing was done: extra directory /devices/v"},
		{"final error leaves the directory", "MountDevice: final error leaks resources: extra directory /devices/v"},
		{"timeouts are final", "MountDevice: final error leaks resources: extra mount /devices/v"},
		{"timeouts are transient", "MountDevice: transient error leaks resources: extra mount /devices/v"},
		{"one path for all pods", `MountPath: same for different mounts: "/pods/pod/pv-1" is the path of pv-1 for uid-a and pv-1 for uid-b`},
		{"not set up when the context has ended", "SetUp: final error leaks resources: extra waste"},
		{"set-up panics", "SetUp: panics: out of cheese"},
		{"tears down all pods", "TearDown: affects another pod's mount: missing mount /pods/uid-a/pv-1 v"},
		{"a failed remount unmounts", "SetUp: changes a volume in use (remount) after an injected fault (driver): missing mount /pods/uid-a/pv-1 v"},
		{"forgets what it once mounted", "SetUp: changes a volume in use (reconstructed) after an injected fault (driver): missing mount"},
		{"forgets a device it once mounted", "MountDevice: changes a volume in use (reconstructed) after an injected fault (driver)"},
		{"mounts anew beside", "SetUp: changes a volume in use (remount) after a canceled context: extra mount"},
		{"measures with a mark", "VolumeStats: has side effects: extra mark"},
		{"cannot measure", "VolumeStats: fails for a volume that is set up: no ruler"},
		{"measures nonsense", "VolumeStats: a number is below -1"},
		{"reconstructs another volume", `Reconstruct: wrong VolumeName: "other", want "v"`},
		{"reconstructs what is not there", "Reconstruct: does not return fs.ErrNotExist before SetUp"},
		{"reconstructs another name", `Reconstruct: wrong name: "other", want "pv-1"`},
		{"reconstructs another kind", "Reconstruct: returns an unsupported volume"},
		{"will not provision", "CanProvision: refuses a volume that can be provisioned: no"},
		{"provisions when asked whether it could", "CanProvision: has side effects: extra volume already"},
		{"will not delete", "CanDelete: refuses a provisioned volume: no"},
		{"makes a volume of another name", `Provision: wrong name: "mine", want "pvc-1"`},
		{"makes a volume that cannot be written to", "Provision: lacks an access mode: ReadWriteOnce"},
		{"makes a volume that stays", "Provision: wrong reclaim policy: Retain, want Delete"},
		{"makes a volume of another kind", "Delete: leaks resources: extra volume made-for-1"},
		{"makes a volume that is too small", "Provision: smaller than requested: 1, want 1Gi"},
		{"makes another volume each time", "Provision: not idempotent: extra volume made-for-1-1"},
		{"makes one volume for all", `Provision: returns one volume for two claims: "the-volume"`},
		{"cannot delete what is not there", "Delete: fails when repeated: no such volume"},
		{"deletes all volumes", "Delete: deletes another volume: missing volume made-for-1"},
		{"recycles without asking", "Recycle: does not call Acquire once before it removes anything: called 0 times"},
		{"recycles before it asks", "Recycle: does not call Acquire once before it removes anything: called 1 times"},
		{"recycles badly", "Recycle: fails: out of brushes"},
		{"recycles and leaves the brush", "Recycle: leaks resources: extra brush"},
		{"recycles what is somebody's", "Recycle: removes contents although Acquire failed: missing file"},
		{"takes what is somebody's for recycled", "Recycle: succeeds although Acquire failed"},
		{"recycles nothing", `Recycle: leaves contents in the volume: ["file"]`},
		{"recycles the volume away", "Recycle: the volume no longer exists"},
	} {
		t.Run(tt.broken, func(t *testing.T) {
			t.Parallel()
			err := check(t, tt.broken)
			if err == nil {
				t.Fatal("not found")
			}
			if first, _, _ := strings.Cut(err.Error(), "\n"); !strings.HasPrefix(first, tt.want) {
				t.Errorf("found\n%v\nwant first\n%s", err, tt.want)
			}
		})
	}
}

func TestWorldCannotBeCreated(t *testing.T) {
	t.Parallel()
	errNone := errors.New("none today")
	err := plugintest.Check(t.Context(), func() (*plugintest.World, error) { return nil, errNone })
	if !errors.Is(err, errNone) {
		t.Errorf("got %v, want %v", err, errNone)
	}
	err = plugintest.Check(t.Context(), func() (*plugintest.World, error) {
		w := world(sim.NewStepped(sim.SteppedConfig{}), "")
		w.Volumes = nil
		return w, nil
	})
	if err == nil {
		t.Error("a world without volumes is not refused")
	}
}
