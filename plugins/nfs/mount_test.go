package nfs_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nfs"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/plugintest"
	"github.com/volsim/volsim/sim"
)

const root = "/var/lib/kubelet"

// A world is a node with the plugin of its kubelet, and the servers.
type world struct {
	*testing.T
	host    *sim.Stepped
	disk    *nodefs.Memory
	servers *nfs.Servers
	plugin  *nfs.Plugin
	process *sim.Process
}

func newWorld(t *testing.T) *world {
	host := sim.NewStepped(sim.SteppedConfig{})
	t.Cleanup(host.Close)
	w := &world{
		T: t, host: host, disk: nodefs.NewMemory(root), process: host.Process("kubelet"),
		servers: nfs.NewServers(hostpath.Machine{FS: nodefs.NewMemory("/"), Root: "/"}),
	}
	w.plugin = nfs.New(nfs.Config{Process: w.process, FS: w.disk, Root: root, Servers: w.servers})
	return w
}

// do calls the plugin in a task, and returns how long it took.
func (w *world) do(call func(ctx context.Context) error) (time.Duration, error) {
	w.Helper()
	var err error
	begin, end := w.host.Now(), time.Time{}
	w.process.Spawn("call", func(ctx context.Context) {
		err = call(ctx)
		end = w.host.Now()
	})
	testcheck.NoError(w, w.host.Run())
	return end.Sub(begin), err
}

func (w *world) setUp(spec *plugins.Spec) (time.Duration, error) {
	return w.do(func(ctx context.Context) error {
		return w.plugin.SetUp(ctx, spec, podOf("uid-1"), plugins.MountOptions{})
	})
}

func (w *world) tearDown(specName string) (time.Duration, error) {
	return w.do(func(ctx context.Context) error { return w.plugin.TearDown(ctx, specName, "uid-1") })
}

func podOf(uid types.UID) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}} }

func inline(source corev1.NFSVolumeSource) *plugins.Spec {
	return &plugins.Spec{Volume: &corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{NFS: &source}}}
}

func persistent(source corev1.NFSVolumeSource) *plugins.Spec {
	return &plugins.Spec{PersistentVolume: volume(corev1.PersistentVolumeSource{NFS: &source})}
}

// TestMount mounts and unmounts, and checks the mount table in between.
//
// Upstream: pkg/volume/nfs TestPluginVolume, TestIPV6VolumeSource, TestIPV4VolumeSource,
// TestPluginPersistentVolume, TestPersistentClaimReadOnlyFlag (v1.36).
func TestMount(t *testing.T) {
	const at = root + "/pods/uid-1/volumes/kubernetes.io~nfs/v"
	readOnly := persistent(corev1.NFSVolumeSource{Server: "localhost", Path: "/somepath"})
	readOnly.ReadOnly = true
	for _, tt := range []struct {
		name     string
		spec     *plugins.Spec
		source   string
		readOnly bool
	}{
		{"a volume of a pod", inline(corev1.NFSVolumeSource{Server: "localhost", Path: "/somepath"}), "localhost:/somepath", false},
		{"an IPv6 address", inline(corev1.NFSVolumeSource{Server: "0:0:0:0:0:0:0:1", Path: "/somepath"}), "[0:0:0:0:0:0:0:1]:/somepath", false},
		{"an IPv4 address", inline(corev1.NFSVolumeSource{Server: "127.0.0.1", Path: "/somepath"}), "127.0.0.1:/somepath", false},
		{"a PersistentVolume", persistent(corev1.NFSVolumeSource{Server: "localhost", Path: "/somepath"}), "localhost:/somepath", false},
		{"a read-only claim", readOnly, "localhost:/somepath", true},
		{"a read-only volume of a pod", inline(corev1.NFSVolumeSource{Server: "a", Path: "/b", ReadOnly: true}), "a:/b", true},
		{"a PersistentVolume's readOnly has no effect", persistent(corev1.NFSVolumeSource{Server: "a", Path: "/b", ReadOnly: true}), "a:/b", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			for range 2 {
				_, err := w.setUp(tt.spec)
				testcheck.NoError(t, err)
			}
			mounts, err := w.disk.Mounts()
			testcheck.NoError(t, err)
			want := []nodefs.Mount{{Path: at, Source: tt.source, FSType: "nfs", ReadOnly: tt.readOnly}}
			if diff := cmp.Diff(want, mounts); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
			if got := w.plugin.MountPath(tt.spec, "uid-1"); got != at {
				t.Errorf("path %s", got)
			}
			again, err := w.plugin.Reconstruct("v", "uid-1")
			if err != nil || again.Spec.Name() != "v" || !w.plugin.CanSupport(again.Spec) {
				t.Errorf("reconstructed %v, %v", again, err)
			}
			for range 2 {
				_, err := w.tearDown("v")
				testcheck.NoError(t, err)
			}
			if there, err := w.disk.Exists(at); err != nil || there {
				t.Errorf("after the unmount the directory exists: %v, %v", there, err)
			}
			if _, err := w.plugin.Reconstruct("v", "uid-1"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("reconstructed after the unmount: %v", err)
			}
		})
	}
}

// TestMountOptions are those that mount(8) gets from a volume: those of the annotation, or else of
// the volume, without repetition, sorted.
func TestMountOptions(t *testing.T) {
	spec := persistent(corev1.NFSVolumeSource{Server: "files", Path: "/v"})
	spec.PersistentVolume.Spec.MountOptions = []string{"nfsvers=4.1", "hard", "hard"}
	for _, tt := range []struct {
		annotation string
		readOnly   bool
		want       string
	}{
		{want: "-o hard,nfsvers=4.1 "},
		{readOnly: true, want: "-o hard,nfsvers=4.1,ro "},
		{annotation: "soft,ro", want: "-o ro,soft "},
	} {
		if tt.annotation != "" {
			metav1.SetMetaDataAnnotation(&spec.PersistentVolume.ObjectMeta, corev1.MountOptionAnnotation, tt.annotation)
		}
		spec.ReadOnly = tt.readOnly
		w := newWorld(t)
		w.servers.Stop("files")
		if _, err := w.setUp(spec); err == nil || !strings.Contains(err.Error(), "Mounting arguments: -t nfs "+tt.want+"files:/v ") {
			t.Errorf("%+v: error %v", tt, err)
		}
	}
}

// TestServerDown has calls wait for a server that does not answer.
func TestServerDown(t *testing.T) {
	w := newWorld(t)
	down, up := inline(corev1.NFSVolumeSource{Server: "down", Path: "/v"}), inline(corev1.NFSVolumeSource{Server: "up", Path: "/v"})
	w.servers.Stop("down")
	const text = "mount failed: exit status 32\nMounting command: mount\nMounting arguments: -t nfs down:/v " +
		root + "/pods/uid-1/volumes/kubernetes.io~nfs/v\nOutput: mount.nfs: Connection timed out\n"
	if took, err := w.setUp(down); took != 2*time.Minute || err == nil || err.Error() != text {
		t.Errorf("mount from it: %v, %v", took, err)
	}
	if there, err := w.disk.Exists(w.plugin.MountPath(down, "uid-1")); err != nil || there {
		t.Errorf("the directory exists after the failure: %v, %v", there, err)
	}
	if took, err := w.setUp(up); took != 0 || err != nil {
		t.Errorf("mount from another: %v, %v", took, err)
	}
	if took, err := w.tearDown("v"); took != 0 || err != nil {
		t.Errorf("unmount from another: %v, %v", took, err)
	}
	w.process.Spawn("repair", func(context.Context) {
		w.process.Sleep(15 * time.Second)
		w.servers.Start("down")
	})
	if took, err := w.setUp(down); took != 20*time.Second || err != nil {
		t.Errorf("mount while it comes back: %v, %v", took, err)
	}
	w.servers.Stop("down")
	if took, err := w.tearDown("v"); took != time.Minute || err != nil {
		t.Errorf("forced unmount: %v, %v", took, err)
	}
	if mounts, err := w.disk.Mounts(); err != nil || len(mounts) > 0 {
		t.Errorf("left: %v, %v", mounts, err)
	}
}

// TestWrongExport exports a file.
func TestWrongExport(t *testing.T) {
	w := newWorld(t)
	exports := w.servers.Machine()
	testcheck.NoError(t, exports.FS.MkdirAll("/files"), exports.FS.WriteFile("/files/v", nil))
	spec := inline(corev1.NFSVolumeSource{Server: "files", Path: "/v"})
	if _, err := w.setUp(spec); err == nil || !strings.Contains(err.Error(), "Output: mount.nfs: ") {
		t.Errorf("error %v", err)
	}
	if there, err := w.disk.Exists(w.plugin.MountPath(spec, "uid-1")); err != nil || there {
		t.Errorf("the directory exists after the failure: %v, %v", there, err)
	}
}

// mounter is the plugin of a kubelet: it does not recycle.
type mounter struct {
	plugins.Plugin
	plugins.Mounter
	plugins.MountOptioner
	plugins.Reconstructor
}

func TestMountContract(t *testing.T) {
	err := plugintest.Check(t.Context(), func() (*plugintest.World, error) {
		host, disk := sim.NewStepped(sim.SteppedConfig{}), nodefs.NewMemory(root)
		servers := nfs.NewServers(hostpath.Machine{FS: nodefs.NewMemory("/"), Root: "/"})
		begin := func(process *sim.Process) plugins.Plugin {
			p := nfs.New(nfs.Config{Process: process, FS: disk, Root: root, Servers: servers})
			return mounter{p, p, p, p}
		}
		w := &plugintest.World{
			Host: host, Process: host.Process("kubelet"), Nodes: []types.NodeName{"node-1"},
			Pods: []*corev1.Pod{podOf("uid-1"), podOf("uid-2")},
			Resources: func() ([]string, error) {
				var all []string
				mounts, err := disk.Mounts()
				for _, m := range mounts {
					all = append(all, "mount "+m.Path)
				}
				for _, uid := range []string{"uid-1", "uid-2"} {
					names, e := disk.ReadDir(root + "/pods/" + uid + "/volumes/kubernetes.io~nfs")
					if e != nil && !errors.Is(e, fs.ErrNotExist) {
						err = e
					}
					for _, name := range names {
						all = append(all, "directory "+uid+"/"+name)
					}
				}
				slices.Sort(all)
				return all, err
			},
		}
		for _, name := range []string{"a", "b"} {
			spec := persistent(corev1.NFSVolumeSource{Server: "files", Path: "/" + name})
			spec.PersistentVolume.Name = name
			w.Volumes = append(w.Volumes, spec)
		}
		w.Plugin = begin(w.Process)
		w.Restart = func() (*sim.Process, plugins.Plugin, error) {
			host.Crash(w.Process)
			process := host.Process("kubelet")
			return process, begin(process), nil
		}
		return w, nil
	})
	testcheck.NoError(t, err)
}
