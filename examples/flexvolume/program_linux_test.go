package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/plugins/flexvolume"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/lvm"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/plugintest"
)

// TestMain runs the program itself if this binary has the name of a driver.
func TestMain(m *testing.M) {
	if _, ok := drivers[filepath.Base(os.Args[0])]; ok {
		main()
		return
	}
	os.Exit(m.Run())
}

func noError(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// install makes this binary the program of a driver in a directory.
func install(t *testing.T, dir, name string) {
	t.Helper()
	self, err := os.Executable()
	noError(t, err, os.MkdirAll(dir, 0o755))
	file := filepath.Join(dir, name)
	if os.Link(self, file) == nil {
		return
	}
	from, err := os.Open(self)
	noError(t, err)
	defer from.Close() //nolint:errcheck // only read
	to, err := os.OpenFile(file+".new", os.O_CREATE|os.O_WRONLY, 0o755)
	noError(t, err)
	_, err = io.Copy(to, from)
	noError(t, err, to.Close(), os.Rename(file+".new", file))
}

// configure writes the configuration of the lvm driver, and removes its volume group at the end.
func configure(t *testing.T, programDir, dir, group string) {
	t.Helper()
	d := lvmDriver{Directory: filepath.Join(dir, "lvm"), Group: group, Disk: filepath.Join(dir, "disk"), DiskBytes: 1 << 30}
	text, err := json.Marshal(d)
	noError(t, err, os.WriteFile(filepath.Join(programDir, "config.json"), text, 0o600))
	t.Cleanup(func() {
		ctx := context.Background()
		system, err := lvm2.Open(lvm2.Config{Directory: d.Directory, SystemID: group})
		noError(t, err)
		_, err = system.AddFile(ctx, d.Disk, d.DiskBytes)
		noError(t, err)
		g, err := system.VolumeGroup(ctx, group)
		noError(t, err)
		volumes, err := g.List(ctx)
		noError(t, err)
		for _, v := range volumes {
			noError(t, g.Remove(ctx, v.Name))
		}
		noError(t, g.RemoveGroup(ctx), system.Detach(ctx), system.Close())
	})
}

// problems returns the errors that were joined.
func problems(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return nil
}

// TestDrivers holds both programs to what kubelets and controllers expect.
func TestDrivers(t *testing.T) {
	if err := loop.Probe(); err != nil {
		t.Skipf("loop devices: %v", err)
	}
	root := filepath.Join(t.TempDir(), "node")
	disk, err := nodefs.NewReal(root)
	noError(t, err)
	t.Run("nfs", func(t *testing.T) {
		install(t, root+"/nfs", "nfs")
		noError(t, disk.MkdirAll(root+"/nfs/mnt"), disk.MkdirAll(root+"/exports/a"), disk.MkdirAll(root+"/exports/b"))
		noError(t, plugintest.CheckFlexDriver(t.Context(), plugintest.FlexDriver{
			FS: disk, Program: root + "/nfs/nfs", Dir: root + "/nfs/mnt", Node: "node-1",
			Volumes: [2]map[string]string{{"export": root + "/exports/a"}, {"export": root + "/exports/b"}},
			Missing: map[string]string{"export": root + "/exports/none"},
		}))
	})
	t.Run("lvm", func(t *testing.T) {
		if err := lvm.Probe(); err != nil {
			t.Skipf("lvm: %v", err)
		}
		install(t, root+"/lvm", "lvm")
		configure(t, root+"/lvm", t.TempDir(), "volsim-flex-check")
		noError(t, disk.MkdirAll(root+"/lvm/mnt"))
		err := plugintest.CheckFlexDriver(t.Context(), plugintest.FlexDriver{
			FS: disk, Program: root + "/lvm/lvm", Dir: root + "/lvm/mnt", Node: "node-1",
			Volumes: [2]map[string]string{{"size": "67108864"}, {"size": "67108864"}},
			Missing: map[string]string{"kubernetes.io/pvOrVolumeName": "none"},
		})
		for _, problem := range problems(err) {
			if !strings.Contains(problem.Error(), nodefs.ErrGrowMounted.Error()) { // in a container
				t.Error(problem)
			}
		}
	})
	if mounts, err := disk.Mounts(); err != nil || len(mounts) > 0 {
		t.Errorf("left: %v, %v", mounts, err)
	}
}

// TestNFSWithoutNFS names a server, where the kernel has no NFS.
func TestNFSWithoutNFS(t *testing.T) {
	for options, want := range map[string]string{
		`{"server": "127.0.0.1"}`: "options server and share are required",
		`{"export": "exports"}`:   `option export: "exports" is not an absolute path`,
	} {
		if a := run("nfs", []string{"mount", t.TempDir(), options}); a.Status != "Failure" || a.Message != want {
			t.Errorf("%s: %+v, want %q", options, a, want)
		}
	}
}

// pod is a pod with a volume of each driver. EXPORT is the exported directory.
const pod = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  volumes:
  - {name: shared, flexVolume: {driver: volsim/nfs, options: {export: EXPORT}}}
  - {name: disk, flexVolume: {driver: volsim/lvm, fsType: ext4, options: {size: "67108864"}}}
  containers:
  - name: main
    image: image
    volumeMounts: [{mountPath: /shared, name: shared}, {mountPath: /disk, name: disk}]
`

// TestPod has a pod of a cluster use both drivers, twice: the data is kept.
func TestPod(t *testing.T) {
	if err := errors.Join(loop.Probe(), lvm.Probe()); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := cluster.New(cluster.Config{Nodes: 1, Devices: cluster.Loop, KubeletsAttach: true})
	noError(t, err)
	t.Cleanup(func() { noError(t, c.Close()) })
	noError(t, c.Start(ctx))
	machine, err := c.Machine("node-1")
	noError(t, err)
	exported := machine.Path("/exports/web")
	noError(t, os.MkdirAll(exported, 0o755))
	dir := machine.Path(flexvolume.Dir)
	noError(t, os.MkdirAll(dir+"/volsim~lvm", 0o755))
	configure(t, dir+"/volsim~lvm", t.TempDir(), "volsim-flex-pod")
	install(t, dir+"/volsim~nfs", "nfs")
	install(t, dir+"/volsim~lvm", "lvm")
	for _, first := range []bool{true, false} {
		noError(t, c.Apply(ctx, strings.ReplaceAll(pod, "EXPORT", exported)),
			c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
		for _, volume := range []string{"shared", "disk"} {
			if first {
				noError(t, c.WriteFile("default", "web", volume, "file", []byte(volume)))
			} else if data, err := c.ReadFile("default", "web", volume, "file"); err != nil || string(data) != volume {
				t.Errorf("volume %s: %q, %v", volume, data, err)
			}
		}
		noError(t, c.Client().CoreV1().Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}),
			c.WaitForGone(ctx, "pods", "default", "web"))
	}
	noError(t, c.Wait(ctx, "the detach", func() bool {
		node, ok := c.Server().Get("nodes", "", "node-1")
		return ok && len(node.(*corev1.Node).Status.VolumesInUse) == 0
	}))
}
