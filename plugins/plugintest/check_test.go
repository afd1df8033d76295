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

func TestPluginThatKeepsItsPromises(t *testing.T) {
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

// TestBrokenPromisesAreFound breaks one at a time. The message names it first.
func TestBrokenPromisesAreFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ broken, want string }{
		{"name is not qualified", "Name: it is not a qualified name"},
		{"name changes", "Name: it is not the same each time"},
		{"supports all", "CanSupport: a volume of another kind is supported: an empty spec"},
		{"supports none", "CanSupport: a volume of its kind is not supported: pv-1"},
		{"panics at odd volumes", "CanSupport: it panics"},
		{"changes what it is given", "Plugin: it changes what it is given"},
		{"volume name depends on the reader", `VolumeName: it is not the same for the same volume: "v-ro", and before "v"`},
		{"volume name depends on the process", "VolumeName: it is another when the process begins anew"},
		{"volume name is that of all", `VolumeName: it is the same for different volumes: "volume" is that of pv-1 and pv-2`},
		{"volume name is empty", "VolumeName: it is empty: for pv-1"},
		{"volume name fails", "VolumeName: it fails for a volume that is supported: pv-1: no name"},
		{"attaches only once", "Attach: it fails the second time: attached already"},
		{"never attaches", "Attach: it does not end"},
		{"device path changes", `Attach: the device path is another the second time: "/dev/v-again", and before "/dev/v"`},
		{"two steps, not to be resumed", "Attach: it fails after Attach met a fault (driver): attaching already"},
		{"two steps, and one is forgotten", "Detach: it leaves something after Attach met a fault (driver): extra half attached v node-1"},
		{"two steps, undone only when they fail", "Detach: it leaves something after Attach was cut off: extra half attached v node-1"},
		{"cannot tell whether it attaches", "CanAttach: it fails for a volume that is supported: who knows"},
		{"cannot detach what is not attached", "Detach: it fails where nothing was done: not attached"},
		{"does not detach", "Detach: it leaves something: extra attached v node-1"},
		{"detaches from all nodes", "Detach: it is not what it was told that it takes away, of another node beside: missing attached v node-1"},
		{"detaches all of the node", "Detach: it is not what it was told that it takes away, of another volume beside: missing attached v node-1"},
		{"sees nothing", "LastSeen: it does not come to say what is when it is attached: want present"},
		{"takes all for attached", "Verify: it does not say what is before it is attached: present, want absent"},
		{"changes what it looks at", "Verify: it changes something: extra looked at"},
		{"one device path for all", `DeviceMountPath: it is the same for different mounts: "/devices/volume" is that of pv-1 and of pv-2`},
		{"relative device path", `DeviceMountPath: it is not an absolute path, tidied: "devices/v"`},
		{"unmounts only once", "UnmountDevice: it fails where nothing was done: not mounted"},
		{"leaves the directory", "UnmountDevice: it changes something where nothing was done: extra directory /devices/v"},
		{"final error leaves the directory", "MountDevice: an error that is final leaves something: extra directory /devices/v"},
		{"timeouts are final", "MountDevice: an error that is final leaves something: extra mount /devices/v"},
		{"timeouts are transient", "MountDevice: an error that is transient leaves something: extra mount /devices/v"},
		{"one path for all pods", `MountPath: it is the same for different mounts: "/pods/pod/pv-1" is that of pv-1 for uid-a and of pv-1 for uid-b`},
		{"not set up when the context has ended", "SetUp: an error that is final leaves something: extra waste"},
		{"set-up panics", "SetUp: it panics: out of cheese"},
		{"tears down all pods", "TearDown: it is not only its own pod's mount that it takes away: missing mount /pods/uid-a/pv-1 v"},
		{"a failed remount unmounts", "SetUp: it changes a volume that is mounted anew after it met a fault (driver): missing mount /pods/uid-a/pv-1 v"},
		{"forgets what it once mounted", "SetUp: it changes a volume that was mounted before the process began after it met a fault (driver): missing mount"},
		{"forgets a device it once mounted", "MountDevice: it changes a volume that was mounted before the process began after it met a fault (driver)"},
		{"mounts anew beside", "SetUp: it changes a volume that is mounted anew after it met a context that has ended: extra mount"},
		{"measures with a mark", "Measure: it changes something: extra mark"},
		{"cannot measure", "Measure: it fails for a volume that is set up: no ruler"},
		{"measures nonsense", "Measure: a number is below -1"},
		{"reconstructs another volume", `Reconstruct: the volume has another VolumeName: "other", want "v"`},
		{"reconstructs what is not there", "Reconstruct: its error does not say that there is nothing before SetUp"},
		{"reconstructs another name", `Reconstruct: the volume has another name: "other", want "pv-1"`},
		{"reconstructs another kind", "Reconstruct: the volume is not supported"},
		{"will not provision", "CanProvision: it refuses what can be made: no"},
		{"provisions when asked whether it could", "CanProvision: it leaves something: extra volume already"},
		{"will not delete", "CanDelete: it refuses what was made: no"},
		{"makes a volume of another name", `Provision: the volume has another name: "mine", want "pvc-1"`},
		{"makes a volume that cannot be written to", "Provision: the volume lacks an access mode: ReadWriteOnce"},
		{"makes a volume that stays", "Provision: the volume has another reclaim policy: Retain, want Delete"},
		{"makes a volume of another kind", "Delete: it leaves something: extra volume made-for-1"},
		{"makes a volume that is too small", "Provision: the volume is smaller than was asked for: 1, want 1Gi"},
		{"makes another volume each time", "Provision: it changes something the second time: extra volume made-for-1-1"},
		{"makes one volume for all", `Provision: it gives one volume to two claims: "the-volume"`},
		{"cannot delete what is not there", "Delete: it fails the second time: no such volume"},
		{"deletes all volumes", "Delete: it is not only its own volume that it takes away: missing volume made-for-1"},
		{"recycles without asking", "Recycle: it does not ask once before it removes anything: asked 0 times"},
		{"recycles before it asks", "Recycle: it does not ask once before it removes anything: asked 1 times"},
		{"recycles badly", "Recycle: it fails: out of brushes"},
		{"recycles and leaves the brush", "Recycle: it leaves something: extra brush"},
		{"recycles what is somebody's", "Recycle: it removes what is somebody's: missing file"},
		{"takes what is somebody's for recycled", "Recycle: it succeeds with a volume that is somebody's"},
		{"recycles nothing", `Recycle: it leaves what was in the volume: ["file"]`},
		{"recycles the volume away", "Recycle: the volume is not there"},
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

func TestWorldThatCannotBeMade(t *testing.T) {
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
