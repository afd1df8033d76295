package local_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/local"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/plugintest"
	"github.com/volsim/volsim/sim"
)

// Paths of upstream's tests.
const (
	podMount    = "/node/pods/poduid/volumes/kubernetes.io~local-volume/pvA"
	globalMount = "/node/plugins/kubernetes.io/local-volume/mounts/pvA"
	globalMap   = "/node/plugins/kubernetes.io~local-volume/volumeDevices/pvA"
	podMap      = "/node/pods/poduid/volumeDevices/kubernetes.io~local-volume"
)

// fixture is the plugin of a node with a directory, a block device and a file.
type fixture struct {
	t      *testing.T
	host   *sim.Stepped
	disk   *nodefs.Memory
	plugin *local.Plugin
	events *record.FakeRecorder
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, host: sim.NewStepped(sim.SteppedConfig{}), disk: nodefs.NewMemory("/node"), events: record.NewFakeRecorder(10)}
	t.Cleanup(f.host.Close)
	f.plugin = local.New(local.Config{Process: f.host.Process("kubelet"), Machine: hostpath.Machine{FS: f.disk, Root: "/node"}})
	f.disk.SetDeviceSize("sdb", 1<<20)
	testcheck.NoError(t, f.disk.MkdirAll("/node/mnt/dir"), f.disk.MkdirAll("/node/dev"), f.disk.WriteFile("/node/mnt/file", nil),
		f.disk.WriteFile("/node/dev/sdb", nil), f.disk.MountDevice("sdb", "/node/dev/sdb", false), f.disk.Symlink("../dev/sdb", "/node/mnt/link"))
	return f
}

// run runs something in a task of the kubelet.
func (f *fixture) run(do func(ctx context.Context) error) (err error) {
	f.t.Helper()
	f.host.Process("kubelet tasks").Spawn("task", func(ctx context.Context) { err = do(ctx) })
	testcheck.NoError(f.t, f.host.Run())
	return err
}

func volumeAt(path string, change ...func(*plugins.Spec)) *plugins.Spec {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvA"}}
	mode := corev1.PersistentVolumeFilesystem
	v.Spec.Local, v.Spec.VolumeMode = &corev1.LocalVolumeSource{Path: path}, &mode
	spec := &plugins.Spec{PersistentVolume: v}
	for _, each := range change {
		each(spec)
	}
	return spec
}

func podOf(uid types.UID) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: string(uid), UID: uid}}
}

// mount mounts a volume for the node and for a pod.
func (f *fixture) mount(spec *plugins.Spec, pod types.UID, use plugins.MountOptions) error {
	f.t.Helper()
	use.Recorder = f.events
	return f.run(func(ctx context.Context) error {
		at, err := f.plugin.DeviceMountPath(spec)
		if err == nil {
			err = f.plugin.MountDevice(ctx, spec, at, use)
		}
		if err == nil {
			err = f.plugin.SetUp(ctx, spec, podOf(pod), use)
		}
		return err
	})
}

// mounts returns the mounts of volumes, as "path source options".
func (f *fixture) mounts() []string {
	f.t.Helper()
	all, err := f.disk.Mounts()
	testcheck.NoError(f.t, err)
	var rows []string
	for _, m := range all {
		if m.Path != "/node/dev/sdb" {
			rows = append(rows, fmt.Sprintf("%s %s ro=%v", m.Path, m.Source, m.ReadOnly))
		}
	}
	return rows
}

func (f *fixture) wantMounts(what string, want ...string) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.mounts()); diff != "" {
		f.t.Errorf("%s: mounts (-want +got):\n%s", what, diff)
	}
}

// TestPlugin has upstream's TestCanSupport, TestGetVolumeName and TestUnsupportedPlugins.
func TestPlugin(t *testing.T) {
	f := newFixture(t)
	spec := volumeAt("/mnt/dir")
	if !f.plugin.CanSupport(spec) || f.plugin.CanSupport(&plugins.Spec{Volume: &corev1.Volume{}}) {
		t.Error("the plugin supports the wrong volumes")
	}
	if name, err := f.plugin.VolumeName(spec); name != "pvA" || err != nil {
		t.Errorf("name %q, %v", name, err)
	}
	var all plugins.Manager
	testcheck.NoError(t, all.Register(f.plugin))
	caps, err := all.FindBySpec(spec)
	testcheck.NoError(t, err)
	if caps.Recycler != nil || caps.Deleter != nil || caps.Provisioner != nil || caps.Attacher != nil {
		t.Error("the plugin recycles, deletes, provisions or attaches")
	}
}

// TestPaths has the rows of upstream's TestInvalidLocalPath, TestBlockDeviceGlobalPathAndMountDevice and
// TestFSGlobalPathAndMountDevice, and of its errors.
func TestPaths(t *testing.T) {
	for _, test := range []struct{ path, at, err string }{
		{"/mnt/dir", "/node/mnt/dir", ""},
		{"/dev/sdb", globalMount, ""},
		{"/mnt/link", globalMount, ""},
		{"/mnt/file", "", "only directory and block device are supported"},
		{"/mnt/missing", "", `path "/mnt/missing" does not exist`},
		{"/mnt/dir/..", "/node/mnt", "invalid path: /mnt/dir/.. must not contain '..'"},
	} {
		f := newFixture(t)
		spec := volumeAt(test.path)
		at, _ := f.plugin.DeviceMountPath(spec)
		text := ""
		if err := f.mount(spec, "poduid", plugins.MountOptions{}); err != nil {
			text = err.Error()
		}
		if at != test.at || text != test.err {
			t.Errorf("%s: %q, %q, want %q, %q", test.path, at, text, test.at, test.err)
		}
		if text != "" {
			f.wantMounts(test.path)
		}
	}
	f := newFixture(t)
	none := volumeAt("")
	if err := f.plugin.CheckMount(none); err == nil || err.Error() != "local volume source is nil or local path is not set" {
		t.Errorf("no path: %v", err)
	}
}

// TestMountUnmount has upstream's TestMountUnmount, and the same for a block device.
func TestMountUnmount(t *testing.T) {
	for path, want := range map[string][]string{
		"/mnt/dir": {podMount + " node-disk ro=false"},
		"/dev/sdb": {globalMount + " /node/dev/sdb ro=false", podMount + " /node/dev/sdb ro=false"},
	} {
		f := newFixture(t)
		spec := volumeAt(path)
		for range 2 {
			testcheck.NoError(t, f.mount(spec, "poduid", plugins.MountOptions{}))
			f.wantMounts(path, want...)
		}
		for range 2 {
			testcheck.NoError(t, f.run(func(ctx context.Context) error { return f.plugin.TearDown(ctx, "pvA", "poduid") }))
		}
		at, err := f.plugin.DeviceMountPath(spec)
		testcheck.NoError(t, err)
		for range 2 {
			testcheck.NoError(t, f.run(func(ctx context.Context) error { return f.plugin.UnmountDevice(ctx, at) }))
		}
		f.wantMounts(path + " unmounted")
		for _, gone := range []string{podMount, globalMount} {
			if there, err := f.disk.Exists(gone); there || err != nil {
				t.Errorf("%s: %s remains, %v", path, gone, err)
			}
		}
		if there, err := f.disk.Exists("/node" + path); !there || err != nil {
			t.Errorf("%s is gone, %v", path, err)
		}
	}
}

// TestMountOptions has upstream's TestMountOptions and TestPersistentClaimReadOnlyFlag.
func TestMountOptions(t *testing.T) {
	options := func(all ...string) func(*plugins.Spec) {
		return func(s *plugins.Spec) { s.PersistentVolume.Spec.MountOptions = all }
	}
	readOnly := func(s *plugins.Spec) { s.ReadOnly = true }
	formatted := func(f *fixture) {
		testcheck.NoError(f.t, f.disk.FormatAndMount(f.t.Context(), "/node/dev/sdb", "/node/mnt/dir", "ext4", nil), f.disk.Unmount("/node/mnt/dir"))
	}
	for _, test := range []struct {
		name string
		spec *plugins.Spec
		want []string
	}{
		{"directory, read-only", volumeAt("/mnt/dir", readOnly), []string{podMount + " node-disk ro=true"}},
		{"directory, option ro", volumeAt("/mnt/dir", options("noatime", "ro")), []string{podMount + " node-disk ro=true"}},
		{"directory, other options", volumeAt("/mnt/dir", options("noatime")), []string{podMount + " node-disk ro=false"}},
		{"device, read-only", volumeAt("/dev/sdb", readOnly), []string{globalMount + " /node/dev/sdb ro=true", podMount + " /node/dev/sdb ro=true"}},
		{"device, annotation", volumeAt("/dev/sdb", func(s *plugins.Spec) {
			s.PersistentVolume.Annotations = map[string]string{corev1.MountOptionAnnotation: "noatime,,ro"}
		}), []string{globalMount + " /node/dev/sdb ro=true", podMount + " /node/dev/sdb ro=true"}},
	} {
		f := newFixture(t)
		formatted(f)
		testcheck.NoError(t, f.mount(test.spec, "poduid", plugins.MountOptions{}))
		f.wantMounts(test.name, test.want...)
	}
}

// TestMountDeviceFails leaves nothing behind, and names the device.
func TestMountDeviceFails(t *testing.T) {
	f := newFixture(t)
	err := f.mount(volumeAt("/dev/sdb", func(s *plugins.Spec) { s.ReadOnly = true }), "poduid", plugins.MountOptions{})
	if want := "local: failed to mount device /dev/sdb at " + globalMount + " (fstype: ext4), error "; err == nil ||
		!strings.HasPrefix(err.Error(), want) {
		t.Errorf("an empty device, read-only: %v", err)
	}
	testcheck.NoError(t, f.mount(volumeAt("/dev/sdb"), "poduid", plugins.MountOptions{}),
		f.disk.Unmount(podMount), f.disk.Unmount(globalMount))
	xfs := "xfs"
	err = f.mount(volumeAt("/dev/sdb", func(s *plugins.Spec) { s.PersistentVolume.Spec.Local.FSType = &xfs }), "poduid", plugins.MountOptions{})
	if err == nil || !strings.Contains(err.Error(), "(fstype: xfs)") {
		t.Errorf("another file system: %v", err)
	}
	if there, err := f.disk.Exists(globalMount); there || err != nil {
		t.Errorf("the mount point remains, %v", err)
	}
}

// TestFSGroup has upstream's TestFSGroupMount, for a directory and a block device: the group is that of
// the first pod, and the second gets an event.
func TestFSGroup(t *testing.T) {
	for _, path := range []string{"/mnt/dir", "/dev/sdb"} {
		f := newFixture(t)
		spec, first, second := volumeAt(path), int64(1000), int64(2000)
		testcheck.NoError(t, f.mount(spec, "poduid", plugins.MountOptions{FSGroup: &first}),
			f.mount(spec, "same", plugins.MountOptions{FSGroup: &first}))
		if len(f.events.Events) > 0 {
			t.Errorf("%s: event for the same group: %s", path, <-f.events.Events)
		}
		testcheck.NoError(t, f.mount(spec, "other", plugins.MountOptions{FSGroup: &second}))
		info, err := f.disk.Stat(podMount)
		if err != nil || info.GID != 1000 {
			t.Errorf("%s: group %d, %v, want 1000", path, info.GID, err)
		}
		want := "Warning AlreadyMountedVolume The requested fsGroup is 2000, but the volume pvA has GID 1000. The volume may not be shareable."
		select {
		case got := <-f.events.Events:
			if got != want {
				t.Errorf("%s: event %q", path, got)
			}
		default:
			t.Errorf("%s: no event", path)
		}
	}
}

// TestMapUnmap has upstream's TestMapUnmap, and what cannot be mapped.
func TestMapUnmap(t *testing.T) {
	f := newFixture(t)
	mode := corev1.PersistentVolumeBlock
	raw := func(s *plugins.Spec) { s.PersistentVolume.Spec.VolumeMode = &mode }
	spec := volumeAt("/dev/sdb", raw)
	global, err := f.plugin.GlobalMapPath(spec)
	dir, link := f.plugin.PodDeviceMapPath("pvA", "poduid")
	if global != globalMap || err != nil || dir != podMap || link != "pvA" {
		t.Errorf("paths %q, %v, %q, %q", global, err, dir, link)
	}
	for path, want := range map[string]string{
		"/dev/sdb": "/node/dev/sdb", "/mnt/link": "/node/mnt/link", "/mnt/dir": "", "/mnt/file": "", "/mnt/missing": "",
	} {
		var staging, device string
		err := f.run(func(ctx context.Context) (err error) {
			spec := volumeAt(path, raw)
			staging, err = f.plugin.SetUpDevice(ctx, spec, podOf("poduid"), plugins.MountOptions{})
			testcheck.NoError(t, err)
			device, err = f.plugin.MapPodDevice(ctx, spec, podOf("poduid"), plugins.MountOptions{})
			return err
		})
		if staging != "" || device != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %q, %v, want %q", path, staging, device, err, want)
		}
	}
	testcheck.NoError(t, f.plugin.UnmapPodDevice(t.Context(), "pvA", "poduid"), f.plugin.TearDownDevice(t.Context(), spec))
}

// TestReconstruct has the rows of upstream's TestConstructVolumeSpec and TestConstructBlockVolumeSpec,
// and what is found on the disk after a reboot.
func TestReconstruct(t *testing.T) {
	for path, want := range map[string]string{"/mnt/dir": "", "/dev/sdb": "/dev/sdb"} {
		f := newFixture(t)
		if _, err := f.plugin.Reconstruct("pvA", "poduid"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: before it is mounted: %v", path, err)
		}
		testcheck.NoError(t, f.mount(volumeAt(path), "poduid", plugins.MountOptions{}))
		for _, rebooted := range []bool{false, true} {
			if rebooted {
				f.disk.Reset()
				want = ""
			}
			made, err := f.plugin.Reconstruct("pvA", "poduid")
			testcheck.NoError(t, err)
			v := made.Spec.PersistentVolume
			if v.Name != "pvA" || *v.Spec.VolumeMode != corev1.PersistentVolumeFilesystem || v.Spec.Local.Path != want {
				t.Errorf("%s, rebooted %v: %+v, want path %q", path, rebooted, v.Spec, want)
			}
			devices, err := f.plugin.ReconstructDevices()
			testcheck.NoError(t, err)
			if path == "/dev/sdb" && (len(devices) != 1 || devices[0].Path != globalMount || devices[0].Block) ||
				path == "/mnt/dir" && len(devices) > 0 {
				t.Errorf("%s, rebooted %v: devices %+v", path, rebooted, devices)
			}
		}
	}
	f := newFixture(t)
	if _, err := f.plugin.ReconstructBlock("pvA", "poduid"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it is mapped: %v", err)
	}
	testcheck.NoError(t, f.disk.MkdirAll(globalMap), f.disk.WriteFile(globalMap+"/poduid", nil))
	made, err := f.plugin.ReconstructBlock("pvA", "poduid")
	testcheck.NoError(t, err)
	if v := made.Spec.PersistentVolume; v.Name != "pvA" || *v.Spec.VolumeMode != corev1.PersistentVolumeBlock || v.Spec.Local == nil {
		t.Errorf("block volume %+v", v)
	}
	devices, err := f.plugin.ReconstructDevices()
	if err != nil || len(devices) != 1 || devices[0].Path != globalMap || !devices[0].Block || !slices.Equal(devices[0].Pods, []types.UID{"poduid"}) {
		t.Errorf("devices %+v, %v", devices, err)
	}
}

// TestNodeExpand has upstream's TestNodeExpand, and a block device that has grown.
func TestNodeExpand(t *testing.T) {
	f := newFixture(t)
	expand := func(spec *plugins.Spec) error {
		return f.run(func(ctx context.Context) error {
			return f.plugin.NodeExpand(ctx, plugins.ExpandOptions{Spec: spec, Pod: "poduid"})
		})
	}
	mode := corev1.PersistentVolumeBlock
	testcheck.NoError(t, expand(volumeAt("/mnt/dir")), expand(volumeAt("/dev/sdb", func(s *plugins.Spec) { s.PersistentVolume.Spec.VolumeMode = &mode })),
		f.mount(volumeAt("/dev/sdb"), "poduid", plugins.MountOptions{}))
	f.disk.SetDeviceSize("sdb", 2<<20)
	for _, want := range []int64{1 << 20, 2 << 20} {
		if size, err := f.disk.Capacity(podMount); size != want || err != nil {
			t.Errorf("capacity %d, %v, want %d", size, err, want)
		}
		testcheck.NoError(t, expand(volumeAt("/dev/sdb")))
	}
	if err := expand(volumeAt("/mnt/file")); err == nil {
		t.Error("a file was expanded")
	}
	if err := expand(volumeAt("/mnt/missing")); err == nil {
		t.Error("a missing path was expanded")
	}
}

// TestContract checks the contract of plugins for block devices, with faults and crashes.
func TestContract(t *testing.T) {
	err := plugintest.Check(t.Context(), func() (*plugintest.World, error) {
		host, disk := sim.NewStepped(sim.SteppedConfig{}), nodefs.NewMemory("/node")
		machine := hostpath.Machine{FS: disk, Root: "/node"}
		w := &plugintest.World{
			Host: host, Process: host.Process("kubelet"), Nodes: []types.NodeName{"node"}, Pods: []*corev1.Pod{podOf("uid-1"), podOf("uid-2")},
			Resources: func() ([]string, error) {
				var all []string
				mounts, err := disk.Mounts()
				for _, m := range mounts {
					if !strings.HasPrefix(m.Path, "/node/dev/") {
						all = append(all, "mount "+m.Path)
					}
				}
				for _, dir := range []string{"plugins/kubernetes.io/local-volume/mounts", "pods/uid-1/volumes/kubernetes.io~local-volume", "pods/uid-2/volumes/kubernetes.io~local-volume"} {
					names, e := disk.ReadDir("/node/" + dir)
					if e != nil && !errors.Is(e, fs.ErrNotExist) && !errors.Is(e, syscall.ENOTDIR) {
						err = e
					}
					for _, name := range names {
						all = append(all, "directory "+dir+"/"+name)
					}
				}
				slices.Sort(all)
				return all, err
			},
		}
		for _, name := range []string{"a", "b"} {
			if err := errors.Join(disk.MkdirAll("/node/dev"), disk.WriteFile("/node/dev/"+name, nil), disk.MountDevice(name, "/node/dev/"+name, false)); err != nil {
				return nil, err
			}
			spec := volumeAt("/dev/" + name)
			spec.PersistentVolume.Name = name
			w.Volumes = append(w.Volumes, spec)
		}
		w.Plugin = local.New(local.Config{Process: w.Process, Machine: machine})
		w.Restart = func() (*sim.Process, plugins.Plugin, error) {
			host.Crash(w.Process)
			process := host.Process("kubelet")
			return process, local.New(local.Config{Process: process, Machine: machine}), nil
		}
		return w, nil
	})
	testcheck.NoError(t, err)
}
