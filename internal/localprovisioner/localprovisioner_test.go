package localprovisioner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// TestVolumeNames has the hashes of upstream's discovery tests.
func TestVolumeNames(t *testing.T) {
	for _, test := range []struct{ file, class, want string }{
		{"mount1", "sc1", "local-pv-aaaafef5"},
		{"mount2", "sc1", "local-pv-79412c38"},
		{"mount3", "sc1", "local-pv-f34b8003"},
		{"symlink2", "sc1", "local-pv-23645a36"},
		{"symlink3", "sc1", "local-pv-4d24d329"},
		{"mount1", "sc2", "local-pv-a7aafa3c"},
		{"symlink1", "sc2", "local-pv-55d5adba"},
		{"symlink2", "sc2", "local-pv-226458a3"},
	} {
		if got := volumeName(test.file, "test-node", test.class); got != test.want {
			t.Errorf("%s of %s: %s, want %s", test.file, test.class, got, test.want)
		}
	}
}

// TestRoundedDown has the cases of upstream's TestRoundDownCapacityPretty.
func TestRoundedDown(t *testing.T) {
	const (
		mib = 1 << 20
		gib = 1 << 30
	)
	for _, test := range [][2]int64{
		{0, 0},
		{100 << 10, 100 << 10},
		{10 * mib, 10 * mib},
		{10*mib - 1, 10*mib - 1},
		{10*mib + 1, 10 * mib},
		{100*mib + 1, 100 * mib},
		{10*gib - 1, 10239 * mib},
		{10 * gib, 10 * gib},
		{10*gib + 1, 10 * gib},
		{100*gib + mib, 100 * gib},
	} {
		if got := roundedDown(test[0]); got != test[1] {
			t.Errorf("%d is rounded to %d, want %d", test[0], got, test[1])
		}
	}
}

// world is a node with its provisioner.
type world struct {
	*testworld.World
	disk        *nodefs.Memory
	provisioner *Controller
}

func newWorld(t *testing.T, change ...func(*Config)) *world {
	t.Helper()
	w := &world{World: testworld.New(t, sim.SteppedConfig{StepsMax: 5000}), disk: nodefs.NewMemory("/node")}
	process := w.Host.Process("localprovisioner")
	cfg := Config{
		Process: process, Client: w.Server.Client(process), Informers: w.Server.Informers(process), Node: "test-node",
		Recorder: events.New(events.Config{Process: process, Client: w.Server.Client(process), Source: "local"}),
		Machine:  hostpath.Machine{FS: w.disk, Root: "/node"},
		Classes: []Class{
			{Name: "sc1", Dir: "/mnt/dir1"},
			{Name: "sc2", Dir: "/mnt/dir2", VolumeMode: corev1.PersistentVolumeBlock},
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	w.provisioner = New(cfg)
	w.NoError(w.Server.Add(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "test-node", UID: "node-uid", Labels: map[string]string{
			corev1.LabelHostname: "host", "zone": "west-1", "other": "foo",
		}}},
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "sc1"}, Provisioner: "kubernetes.io/no-provisioner", MountOptions: []string{"ro"},
			ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimDelete),
		},
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "sc2"}, Provisioner: "kubernetes.io/no-provisioner",
			ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimDelete),
		}))
	for _, dir := range []string{"dir1", "dir2"} {
		w.NoError(w.disk.MkdirAll("/node/mnt/" + dir))
	}
	return w
}

// mount mounts a file system at a path below /mnt.
func (w *world) mount(name string, size int64) {
	w.Helper()
	w.NoError(w.disk.MkdirAll("/node/mnt/"+name), w.disk.MountTmpfs("/node/mnt/"+name, size))
}

// device creates a block device at a path below /mnt.
func (w *world) device(name string, size int64) {
	w.Helper()
	w.disk.SetDeviceSize(name, size)
	w.NoError(w.disk.WriteFile("/node/mnt/"+name, nil), w.disk.MountDevice(name, "/node/mnt/"+name, false))
}

// look lets the provisioner look at the node.
func (w *world) look() {
	w.Helper()
	w.provisioner.Notify()
	w.Run()
}

// volumes returns the volumes, as "path mode capacity".
func (w *world) volumes() []string {
	var all []string
	for _, obj := range w.Server.List("persistentvolumes") {
		v := obj.(*corev1.PersistentVolume)
		size := v.Spec.Capacity[corev1.ResourceStorage]
		all = append(all, fmt.Sprintf("%s %s %s", v.Spec.Local.Path, *v.Spec.VolumeMode, &size))
	}
	slices.Sort(all)
	return all
}

func (w *world) want(what string, want ...string) {
	w.Helper()
	if diff := cmp.Diff(want, w.volumes()); diff != "" {
		w.Errorf("%s: volumes (-want +got):\n%s", what, diff)
	}
}

// TestDiscovery has the cases of upstream's TestDiscoverVolumes.
func TestDiscovery(t *testing.T) {
	w := newWorld(t)
	w.look()
	w.want("empty directories")
	w.mount("dir1/mount1", 100<<10)
	w.device("dir1/symlink2", 100<<20)
	w.device("dir2/symlink1", 1<<20)
	w.mount("dir2/mount1", 1<<20)                                 // a mount point cannot be a block volume
	w.NoError(w.disk.MkdirAll("/node/mnt/dir1/directory"))        // no mount point
	w.NoError(w.disk.WriteFile("/node/mnt/dir1/unknown", nil))    // neither
	w.NoError(w.disk.Symlink("missing", "/node/mnt/dir1/broken")) // nothing
	w.look()
	found := []string{"/mnt/dir1/mount1 Filesystem 100Ki", "/mnt/dir1/symlink2 Filesystem 100Mi", "/mnt/dir2/symlink1 Block 1Mi"}
	w.want("disks", found...)
	w.look()
	w.want("again", found...)
	w.mount("dir1/mount3", 12<<30+5)
	w.look()
	w.want("a new disk", append(found[:1:1], append([]string{"/mnt/dir1/mount3 Filesystem 12Gi"}, found[1:]...)...)...)

	obj, ok := w.Server.Get("persistentvolumes", "", "local-pv-aaaafef5")
	if !ok {
		t.Fatal("no volume")
	}
	v := obj.(*corev1.PersistentVolume)
	if got := v.Annotations["pv.kubernetes.io/provisioned-by"]; got != "local-volume-provisioner-test-node-node-uid" {
		t.Errorf("provisioned by %q", got)
	}
	affinity := &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"host"},
		}},
	}}}}
	if diff := cmp.Diff(affinity, v.Spec.NodeAffinity); diff != "" {
		t.Errorf("affinity (-want +got):\n%s", diff)
	}
	if v.Spec.StorageClassName != "sc1" || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete ||
		!slices.Equal(v.Spec.MountOptions, []string{"ro"}) || v.Spec.Local.FSType != nil || len(v.Labels) > 0 || len(v.OwnerReferences) > 0 {
		t.Errorf("volume %+v", v)
	}
}

func TestOptions(t *testing.T) {
	w := newWorld(t, func(cfg *Config) {
		cfg.Classes[0].FSType, cfg.Classes[0].NamePattern = "xfs", "disk-*"
		cfg.Labels = map[string]string{"cr": "foobar"}
		cfg.NodeLabels = []string{"zone", "missing"}
		cfg.NodeOwns, cfg.NodeNameOnly = true, true
	})
	w.device("dir1/disk-1", 1<<20)
	w.device("dir1/other", 1<<20)
	w.look()
	w.want("by pattern", "/mnt/dir1/disk-1 Filesystem 1Mi")
	v := w.Server.List("persistentvolumes")[0].(*corev1.PersistentVolume)
	if diff := cmp.Diff(map[string]string{"cr": "foobar", "zone": "west-1"}, v.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if *v.Spec.Local.FSType != "xfs" || v.Annotations[provisionedBy] != "local-volume-provisioner-test-node" ||
		len(v.OwnerReferences) != 1 || v.OwnerReferences[0].Name != "test-node" {
		t.Errorf("volume %+v", v)
	}
}

func TestClassWithoutPolicyOrDirectory(t *testing.T) {
	w := newWorld(t, func(cfg *Config) {
		cfg.Classes = append([]Class{{Name: "missing", Dir: "/mnt/dir1"}, {Name: "sc2", Dir: "/mnt/nowhere"}}, cfg.Classes...)
	})
	w.device("dir1/disk", 1<<20)
	w.look()
	w.want("the classes that can be used", "/mnt/dir1/disk Filesystem 1Mi")
}

// release makes a volume Released, as the PersistentVolume controller does.
func (w *world) release(name string, change func(*corev1.PersistentVolume)) {
	w.Helper()
	ctx, volumes := context.Background(), w.User.CoreV1().PersistentVolumes()
	v, err := volumes.Get(ctx, name, metav1.GetOptions{})
	w.NoError(err)
	if change != nil {
		change(v)
		v, err = volumes.Update(ctx, v, metav1.UpdateOptions{})
		w.NoError(err)
	}
	v.Finalizers = nil // no controller removes it here
	v, err = volumes.Update(ctx, v, metav1.UpdateOptions{})
	w.NoError(err)
	v.Status.Phase = corev1.VolumeReleased
	_, err = volumes.UpdateStatus(ctx, v, metav1.UpdateOptions{})
	w.NoError(err)
}

// events returns the messages of events.
func (w *world) events() string {
	var all []string
	for _, obj := range w.Server.List("events") {
		e := obj.(*corev1.Event)
		all = append(all, fmt.Sprintf("%s %s x%d", e.Reason, e.Message, e.Count))
	}
	return strings.Join(all, "\n")
}

func uidOf(w *world, name string) string {
	obj, ok := w.Server.Get("persistentvolumes", "", name)
	if !ok {
		return ""
	}
	return string(obj.GetUID())
}

// TestReclaim has the cases of upstream's TestDeleteVolumes and TestDeleteBlock.
func TestReclaim(t *testing.T) {
	const directory, device = "local-pv-aaaafef5", "local-pv-55d5adba"
	for _, test := range []struct {
		name    string
		volume  string
		change  func(*corev1.PersistentVolume)
		before  func(w *world)
		deleted bool   // and found again
		events  string // contained in those that are recorded
	}{
		{name: "directory", volume: directory, deleted: true},
		{name: "device", volume: device, deleted: true, events: `VolumeDelete Starting cleanup of Block PV "local-pv-55d5adba", this may take a while x1`},
		{name: "retain", volume: directory, change: func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}},
		{name: "another provisioner's", volume: directory, change: func(v *corev1.PersistentVolume) {
			v.Annotations[provisionedBy] = "other"
		}},
		{
			name: "mounted device", volume: device, before: func(w *world) {
				w.NoError(w.disk.MkdirAll("/node/at"), w.disk.FormatAndMount(context.Background(), "/node/mnt/dir2/symlink1", "/node/at", "", nil))
			}, events: `VolumeFailedDelete Error cleaning PV "local-pv-55d5adba": wipe /node/mnt/dir2/symlink1: mount is busy x1`,
		},
		{
			name: "the disk is gone", volume: device, before: func(w *world) {
				w.NoError(w.disk.Unmount("/node/mnt/dir2/symlink1"), w.disk.Remove("/node/mnt/dir2/symlink1"))
			}, events: `VolumeFailedDelete Error cleaning PV "local-pv-55d5adba": failed to get volume mode of path "/mnt/dir2/symlink1"`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.mount("dir1/mount1", 1<<20)
			w.device("dir2/symlink1", 1<<20)
			w.look()
			w.NoError(w.disk.MkdirAll("/node/mnt/dir1/mount1/dir"), w.disk.WriteFile("/node/mnt/dir1/mount1/dir/secret", []byte("mine")))
			if test.before != nil {
				test.before(w)
			}
			uid := uidOf(w, test.volume)
			w.release(test.volume, test.change)
			w.look()
			w.look()
			if got := uidOf(w, test.volume); got == "" || (got != uid) != test.deleted {
				t.Errorf("UID before %q, after %q, want another one: %v\n%s", uid, got, test.deleted, w.events())
			}
			_, err := w.disk.ReadFile("/node/mnt/dir1/mount1/dir/secret")
			if cleaned := errors.Is(err, fs.ErrNotExist); cleaned != (test.deleted && test.volume == directory) {
				t.Errorf("directory cleaned: %v", cleaned)
			}
			if got := w.events(); !strings.Contains(got, test.events) || test.events == "" && got != "" {
				t.Errorf("events %q, want %q", got, test.events)
			}
		})
	}
}

// TestStaleCacheCleansNothing has the cache show a volume as released that was bound again.
func TestStaleCacheCleansNothing(t *testing.T) {
	w := newWorld(t)
	w.mount("dir1/mount1", 1<<20)
	w.look()
	w.NoError(w.disk.WriteFile("/node/mnt/dir1/mount1/data", []byte("of the next user")))
	obj, _ := w.Server.Get("persistentvolumes", "", "local-pv-aaaafef5")
	stale := obj.DeepCopyObject().(*corev1.PersistentVolume)
	stale.Status.Phase = corev1.VolumeReleased
	done := false
	w.provisioner.cfg.Process.Spawn("reclaim", func(ctx context.Context) {
		w.provisioner.reclaim(ctx, stale)
		done = true
	})
	w.Run()
	if _, err := w.disk.ReadFile("/node/mnt/dir1/mount1/data"); err != nil || !done {
		t.Errorf("data: %v, reclaimed: %v", err, done)
	}
}

func TestParseClasses(t *testing.T) {
	got, err := ParseClasses(`
slow: {hostDir: /mnt/slow, mountDir: /mnt/slow, blockCleanerCommand: [/scripts/shred.sh, "2"]}
fast: {hostDir: /mnt/fast, volumeMode: Block, fsType: xfs, namePattern: "nvme*"}
`)
	want := []Class{
		{Name: "fast", Dir: "/mnt/fast", VolumeMode: corev1.PersistentVolumeBlock, FSType: "xfs", NamePattern: "nvme*"},
		{Name: "slow", Dir: "/mnt/slow"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, classes (-want +got):\n%s", err, diff)
	}
	for _, wrong := range []string{
		"a: b", "a: {hostDir: relative}", "a: {}", "a: {hostDir: /a, volumeMode: Both}", "a: {hostDir: /a, namePattern: '['}", "a: {dir: /a}",
	} {
		if _, err := ParseClasses(wrong); err == nil {
			t.Errorf("%s: no error", wrong)
		}
	}
}
