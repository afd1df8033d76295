package hostpath_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// TestTypes sets volumes up on a machine with the directory /dir, the file /file and a link to the
// directory.
func TestTypes(t *testing.T) {
	const (
		exists = "" // nothing changes
		dir    = "drwxr-xr-x"
		file   = "-rw-r--r--"
		no     = "hostPath type check failed: "
	)
	for _, tt := range []struct {
		kind corev1.HostPathType
		path string
		want string // error, or the mode of what was created
	}{
		{corev1.HostPathUnset, "/dir", exists},
		{corev1.HostPathUnset, "/file", exists},
		{corev1.HostPathUnset, "/missing/deep", dir},
		{corev1.HostPathUnset, "/dir/../etc", "invalid HostPath `/dir/../etc`: must not contain '..'"},
		{corev1.HostPathDirectoryOrCreate, "/dir", exists},
		{corev1.HostPathDirectoryOrCreate, "/link", exists},
		{corev1.HostPathDirectoryOrCreate, "/missing/deep", dir},
		{corev1.HostPathDirectoryOrCreate, "/file", no + "/file is not a directory"},
		{corev1.HostPathDirectory, "/dir", exists},
		{corev1.HostPathDirectory, "/link", exists},
		{corev1.HostPathDirectory, "/file", no + "/file is not a directory"},
		{corev1.HostPathDirectory, "/missing", no + "/missing is not a directory"},
		{corev1.HostPathFileOrCreate, "/file", exists},
		{corev1.HostPathFileOrCreate, "/dir/missing", file},
		{corev1.HostPathFileOrCreate, "/missing/deep", "write /node/missing/deep: file does not exist"},
		{corev1.HostPathFileOrCreate, "/dir", no + "/dir is not a file"},
		{corev1.HostPathFile, "/file", exists},
		{corev1.HostPathFile, "/link", no + "/link is not a file"},
		{corev1.HostPathFile, "/missing", no + "/missing is not a file"},
		{corev1.HostPathSocket, "/file", no + "/file is not a socket file"},
		{corev1.HostPathCharDev, "/file", no + "/file is not a character device"},
		{corev1.HostPathBlockDev, "/file", no + "/file is not a block device"},
		{"Door", "/file", "Door is an invalid volume type"},
	} {
		t.Run(string(tt.kind)+tt.path, func(t *testing.T) {
			disk, got := setUp(t, tt.kind, tt.path)
			if got == "" {
				info, err := disk.Stat("/node" + tt.path)
				testcheck.NoError(t, err)
				if tt.path == "/missing/deep" || tt.path == "/dir/missing" {
					got = info.Mode.String()
				}
			}
			testcheck.Equal(t, "result", tt.want, got)
		})
	}
}

// setUp sets a volume up and returns the machine's disk and the text of the error.
func setUp(t *testing.T, kind corev1.HostPathType, path string) (*nodefs.Memory, string) {
	t.Helper()
	host := sim.NewStepped(sim.SteppedConfig{})
	t.Cleanup(host.Close)
	disk := nodefs.NewMemory("/node")
	testcheck.NoError(t, disk.MkdirAll("/node/dir"), disk.WriteFile("/node/file", nil), disk.Symlink("dir", "/node/link"))
	process := host.Process("kubelet")
	plugin := hostpath.New(hostpath.Config{Caller: process, Machine: hostpath.Machine{FS: disk, Root: "/node"}})
	spec := &plugins.Spec{Volume: &corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind},
	}}}
	var err error
	process.Spawn("task", func(ctx context.Context) { err = plugin.SetUp(ctx, spec, &corev1.Pod{}, plugins.MountOptions{}) })
	for host.Step() {
	}
	if err != nil {
		return disk, err.Error()
	}
	return disk, ""
}

// TestKubeletDirIsTheMachinesRoot reads what a kubelet keeps on its node, as driver pods do.
func TestKubeletDirIsTheMachinesRoot(t *testing.T) {
	plugin := hostpath.New(hostpath.Config{Machine: hostpath.Machine{FS: nodefs.NewMemory("/node"), Root: "/node"}})
	for path, want := range map[string]string{
		"/var/lib/kubelet/plugins": "/node/plugins", "/var/lib/kubelet": "/node", "/var/lib/kubelets": "/node/var/lib/kubelets",
		"/data": "/node/data", "/": "/node",
	} {
		spec := &plugins.Spec{Volume: &corev1.Volume{VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: path},
		}}}
		testcheck.Equal(t, path, want, plugin.MountPath(spec, "uid"))
	}
}
