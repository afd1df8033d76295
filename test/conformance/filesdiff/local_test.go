package filesdiff

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/volume"
	upstreamlocal "k8s.io/kubernetes/pkg/volume/local"
	volumetesting "k8s.io/kubernetes/pkg/volume/testing"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/mount-utils"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/local"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// A localResult is what a plugin did with a local volume: the result of each call, and what is mounted
// where.
type localResult struct {
	Calls  []string
	Mounts []string
	Exists []string // the mount points that exist after the volume is torn down
}

// note adds the result of a call. What follows the plugin's own words in an error is not compared.
func (r *localResult) note(call string, err error) bool {
	text := "<nil>"
	if err != nil {
		text, _, _ = strings.Cut(err.Error(), ", error ")
	}
	r.Calls = append(r.Calls, call+": "+text)
	return err == nil
}

// TestLocalVolumes compares every combination of a local volume's source, options and use with
// upstream's plugin. Upstream's mounts are those of its fake mounter: only their paths and whether
// they are read-only are compared. It formats a file in place of a device. To its fake of the machine
// no path is missing.
func TestLocalVolumes(t *testing.T) {
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skip(err)
	}
	sources := []string{"/mnt/dir", "/dev/disk", "/mnt/file", "/mnt/dir/..", "/mnt/dir/../dir", ""}
	for _, source := range sources {
		for _, readOnly := range []bool{false, true} {
			for _, options := range [][]string{nil, {"noatime"}, {"ro", "noatime"}} {
				for _, fsType := range []string{"", "ext4"} {
					name := fmt.Sprintf("%q readOnly=%v %v %q", source, readOnly, options, fsType)
					spec := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
					mode := corev1.PersistentVolumeFilesystem
					spec.Spec.VolumeMode, spec.Spec.MountOptions = &mode, options
					spec.Spec.Local = &corev1.LocalVolumeSource{Path: source}
					if fsType != "" {
						spec.Spec.Local.FSType = &fsType
					}
					if diff := cmp.Diff(upstreamLocal(t, spec, readOnly), ourLocal(t, spec, readOnly)); diff != "" {
						t.Errorf("%s (-upstream +ours):\n%s", name, diff)
					}
				}
			}
		}
	}
}

// upstreamLocal uses a volume with upstream's plugin.
func upstreamLocal(t *testing.T, pv *corev1.PersistentVolume, readOnly bool) localResult {
	t.Helper()
	dir := t.TempDir()
	disk, machine := filepath.Join(dir, "dev/disk"), map[string]hostutil.FileType{}
	must(t, os.MkdirAll(filepath.Join(dir, "mnt/dir"), 0o750), os.MkdirAll(filepath.Join(dir, "dev"), 0o750),
		os.WriteFile(filepath.Join(dir, "mnt/file"), nil, 0o600), os.WriteFile(disk, nil, 0o600), os.Truncate(disk, 1<<20))
	if pv.Spec.Local.Path != "" {
		pv = pv.DeepCopy()
		pv.Spec.Local.Path = dir + pv.Spec.Local.Path
	}
	for path, kind := range map[string]hostutil.FileType{
		"/mnt/dir": hostutil.FileTypeDirectory, "/mnt/dir/..": hostutil.FileTypeDirectory,
		"/mnt/dir/../dir": hostutil.FileTypeDirectory, "/dev/disk": hostutil.FileTypeBlockDev, "/mnt/file": hostutil.FileTypeFile,
	} {
		machine[dir+path] = kind
	}
	host := volumetesting.NewFakeKubeletVolumeHostWithMounterFSType(t, dir, nil, upstreamlocal.ProbeVolumePlugins(), machine)
	spec := volume.NewSpecFromPersistentVolume(pv, readOnly)
	var r localResult
	r.use(func() (string, error) {
		plugin, err := host.GetPluginMgr().FindDeviceMountablePluginBySpec(spec)
		must(t, err)
		if _, err := plugin.NewMounter(spec, localPod()); err != nil {
			return "", err
		}
		mounter, err := plugin.NewDeviceMounter()
		must(t, err)
		return mounter.GetDeviceMountPath(spec)
	}, func(at string) error {
		plugin, err := host.GetPluginMgr().FindDeviceMountablePluginBySpec(spec)
		must(t, err)
		mounter, err := plugin.NewDeviceMounter()
		must(t, err)
		return mounter.MountDevice(spec, "", at, volume.DeviceMounterArgs{})
	}, func() error {
		plugin, err := host.GetPluginMgr().FindPluginBySpec(spec)
		must(t, err)
		mounter, err := plugin.NewMounter(spec, localPod())
		must(t, err)
		return mounter.SetUp(volume.MounterArgs{})
	}, func() []string {
		var rows []string
		for _, m := range host.GetMounter().(*mount.FakeMounter).MountPoints {
			rows = append(rows, fmt.Sprintf("%s ro=%v", m.Path, slices.Contains(m.Opts, "ro")))
		}
		return rows
	}, func() error {
		plugin, err := host.GetPluginMgr().FindPluginBySpec(spec)
		must(t, err)
		unmounter, err := plugin.NewUnmounter("pv", localPod().UID)
		must(t, err)
		return unmounter.TearDown()
	}, func(at string) error {
		plugin, err := host.GetPluginMgr().FindDeviceMountablePluginBySpec(spec)
		must(t, err)
		unmounter, err := plugin.NewDeviceUnmounter()
		must(t, err)
		return unmounter.UnmountDevice(at)
	}, func(path string) bool {
		_, err := os.Lstat(dir + path)
		return err == nil
	})
	return r.without(dir)
}

// ourLocal uses a volume with our plugin.
func ourLocal(t *testing.T, pv *corev1.PersistentVolume, readOnly bool) localResult {
	t.Helper()
	host, disk := sim.NewStepped(sim.SteppedConfig{}), nodefs.NewMemory("/node")
	defer host.Close()
	disk.SetDeviceSize("disk", 1<<20)
	must(t, disk.MkdirAll("/node/mnt/dir"), disk.MkdirAll("/node/dev"), disk.WriteFile("/node/mnt/file", nil), disk.WriteFile("/node/dev/disk", nil),
		disk.MountDevice("disk", "/node/dev/disk", false))
	plugin := local.New(local.Config{Process: host.Process("kubelet"), Machine: hostpath.Machine{FS: disk, Root: "/node"}})
	spec := &plugins.Spec{PersistentVolume: pv, ReadOnly: readOnly}
	run := func(do func(ctx context.Context) error) (err error) {
		host.Process("task").Spawn("task", func(ctx context.Context) { err = do(ctx) })
		must(t, host.Run())
		return err
	}
	var r localResult
	r.use(func() (string, error) {
		if err := plugin.CheckMount(spec); err != nil {
			return "", err
		}
		return plugin.DeviceMountPath(spec)
	}, func(at string) error {
		return run(func(ctx context.Context) error { return plugin.MountDevice(ctx, spec, at, plugins.MountOptions{}) })
	}, func() error {
		return run(func(ctx context.Context) error { return plugin.SetUp(ctx, spec, localPod(), plugins.MountOptions{}) })
	}, func() []string {
		mounts, err := disk.Mounts()
		must(t, err)
		var rows []string
		for _, m := range mounts {
			if m.Path != "/node/dev/disk" {
				rows = append(rows, fmt.Sprintf("%s ro=%v", m.Path, m.ReadOnly))
			}
		}
		return rows
	}, func() error {
		return run(func(ctx context.Context) error { return plugin.TearDown(ctx, "pv", localPod().UID) })
	}, func(at string) error {
		return run(func(ctx context.Context) error { return plugin.UnmountDevice(ctx, at) })
	}, func(path string) bool {
		there, err := disk.Exists("/node" + path)
		must(t, err)
		return there
	})
	return r.without("/node")
}

// use sets a volume up and tears it down, as a kubelet does.
func (r *localResult) use(check func() (string, error), mountDevice func(at string) error, setUp func() error, mounts func() []string,
	tearDown func() error, unmountDevice func(at string) error, exists func(path string) bool,
) {
	at, err := check()
	if !r.note("check "+at, err) {
		return
	}
	if r.note("mount device", mountDevice(at)) {
		r.note("set up", setUp())
	}
	r.Mounts = mounts()
	slices.Sort(r.Mounts)
	r.note("tear down", tearDown())
	r.note("unmount device", unmountDevice(at))
	for _, path := range []string{
		"/mnt/dir", "/dev/disk", "/plugins/kubernetes.io/local-volume/mounts/pv", "/pods/uid/volumes/kubernetes.io~local-volume/pv",
	} {
		if exists(path) {
			r.Exists = append(r.Exists, path)
		}
	}
}

// without returns the result without the directory of its node. Our paths of directories are clean, and
// have no name of the machine's path in errors about it.
func (r localResult) without(dir string) localResult {
	for _, all := range [][]string{r.Calls, r.Mounts, r.Exists} {
		for i := range all {
			all[i] = strings.ReplaceAll(all[i], dir, "")
			if at, is := strings.CutPrefix(all[i], "check /"); is {
				path, rest, _ := strings.Cut(at, ": ")
				all[i] = "check " + filepath.Clean("/"+path) + ": " + rest
			}
		}
	}
	return r
}

func localPod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default", UID: "uid"}}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}
