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
	for _, harmless := range []string{"", "stats are unsupported"} {
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

// TestViolationsAreFound violates one rule at a time. The message names it first.
func TestViolationsAreFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ broken, want string }{
		{"name is not qualified", "Name: not a qualified name"},
		{"name changes", "Name: changes between calls"},
		{"supports all", "CanSupport: a volume of another kind is supported: an empty spec"},
		{"supports none", "CanSupport: a volume of its kind is not supported: pv-1"},
		{"panics at odd volumes", "CanSupport: panics"},
		{"modifies its arguments", "Plugin: modifies its arguments"},
		{"volume name depends on read-only", `VolumeName: differs for the same volume: "v-ro", previously "v"`},
		{"volume name depends on the process", "VolumeName: changes after a restart"},
		{"one volume name for all", `VolumeName: same for different volumes: "volume" is the name of pv-1 and pv-2`},
		{"volume name is empty", "VolumeName: empty: for pv-1"},
		{"volume name fails", "VolumeName: fails for a supported volume: pv-1: no name"},
		{"attaches only once", "Attach: fails when repeated: attached already"},
		{"never attaches", "Attach: does not return"},
		{"device path changes", `Attach: device path changes when repeated: "/dev/v-again", previously "/dev/v"`},
		{"two steps, not to be resumed", "Attach: fails after Attach with an injected fault (driver): attaching already"},
		{"two steps, one never undone", "Detach: leaks resources after Attach with an injected fault (driver): extra half attached v node-1"},
		{"two steps, undone only when they fail", "Detach: leaks resources after Attach interrupted by a crash: extra half attached v node-1"},
		{"CanAttach fails", "CanAttach: fails for a supported volume: unknown"},
		{"cannot detach a detached volume", "Detach: fails when nothing was done: not attached"},
		{"does not detach", "Detach: leaks resources: extra attached v node-1"},
		{"detaches from all nodes", "Detach: affects another attachment (another node): missing attached v node-1"},
		{"detaches everything from the node", "Detach: affects another attachment (another volume): missing attached v node-1"},
		{"LastSeen is always detached", "LastSeen: does not converge while attached: want attached"},
		{"Verify is always attached", "Verify: wrong state before attaching: attached, want detached"},
		{"Verify has side effects", "Verify: has side effects: extra verified"},
		{"one device path for all", `DeviceMountPath: same for different mounts: "/devices/volume" is the path of pv-1 and pv-2`},
		{"relative device path", `DeviceMountPath: not an absolute, cleaned path: "devices/v"`},
		{"unmounts only once", "UnmountDevice: fails when nothing was done: not mounted"},
		{"leaves the directory", "UnmountDevice: has side effects when nothing was done: extra directory /devices/v"},
		{"final error leaves the directory", "MountDevice: final error leaks resources: extra directory /devices/v"},
		{"timeouts are final", "MountDevice: final error leaks resources: extra mount /devices/v"},
		{"timeouts are transient", "MountDevice: transient error leaks resources: extra mount /devices/v"},
		{"one path for all pods", `MountPath: same for different mounts: "/pods/pod/pv-1" is the path of pv-1 for uid-a and pv-1 for uid-b`},
		{"leaks resources if the context is canceled", "SetUp: final error leaks resources: extra waste"},
		{"SetUp panics", "SetUp: panics: scripted panic"},
		{"tears down all pods", "TearDown: affects another pod's mount: missing mount /pods/uid-a/pv-1 v"},
		{"a failed remount unmounts", "SetUp: changes a volume in use (remount) after an injected fault (driver): missing mount /pods/uid-a/pv-1 v"},
		{"unmounts a reconstructed volume", "SetUp: changes a volume in use (reconstructed) after an injected fault (driver): missing mount"},
		{"unmounts a reconstructed device", "MountDevice: changes a volume in use (reconstructed) after an injected fault (driver)"},
		{"remount adds a mount", "SetUp: changes a volume in use (remount) after a canceled context: extra mount"},
		{"stats have side effects", "VolumeStats: has side effects: extra mark"},
		{"stats fail", "VolumeStats: fails for a volume that is set up: no stats"},
		{"stats are invalid", "VolumeStats: a number is below -1"},
		{"reconstructs another volume", `Reconstruct: wrong VolumeName: "other", want "v"`},
		{"reconstructs a volume that does not exist", "Reconstruct: does not return fs.ErrNotExist before SetUp"},
		{"reconstructs another name", `Reconstruct: wrong name: "other", want "pv-1"`},
		{"reconstructs another kind", "Reconstruct: returns an unsupported volume"},
		{"will not provision", "CanProvision: refuses a volume that can be provisioned: no"},
		{"CanProvision provisions", "CanProvision: has side effects: extra volume already"},
		{"will not delete", "CanDelete: refuses a provisioned volume: no"},
		{"provisions a volume of another name", `Provision: wrong name: "mine", want "pvc-1"`},
		{"provisions a volume that cannot be written to", "Provision: lacks an access mode: ReadWriteOnce"},
		{"provisions a volume that stays", "Provision: wrong reclaim policy: Retain, want Delete"},
		{"provisions a volume of another kind", "Delete: leaks resources: extra volume made-for-1"},
		{"provisions a volume that is too small", "Provision: smaller than requested: 1, want 1Gi"},
		{"provisions another volume each time", "Provision: not idempotent: extra volume made-for-1-1"},
		{"provisions one volume for all", `Provision: returns one volume for two claims: "the-volume"`},
		{"cannot delete a volume that does not exist", "Delete: fails when repeated: no such volume"},
		{"deletes all volumes", "Delete: deletes another volume: missing volume made-for-1"},
		{"recycles without Acquire", "Recycle: does not call Acquire once before it removes anything: called 0 times"},
		{"recycles before Acquire", "Recycle: does not call Acquire once before it removes anything: called 1 times"},
		{"recycling fails", "Recycle: fails: no pods"},
		{"recycling leaks resources", "Recycle: leaks resources: extra pod"},
		{"recycles after a failed Acquire", "Recycle: removes contents although Acquire failed: missing file"},
		{"ignores a failed Acquire", "Recycle: succeeds although Acquire failed"},
		{"recycles nothing", `Recycle: leaves contents in the volume: ["file"]`},
		{"recycling deletes the volume", "Recycle: the volume no longer exists"},
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
