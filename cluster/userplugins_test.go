package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A targets plugin serves iSCSI volumes, which have no plugin otherwise: a target is a directory of
// the node to which it is attached. One value serves one process.
type targets struct {
	host  cluster.PluginHost
	calls *calls // of all processes
}

// calls are the calls of a plugin, in order.
type calls struct {
	mu   sync.Mutex
	list []string // guarded by mu
}

func (c *calls) add(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, call)
}

func (c *calls) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.list)
}

var (
	_ plugins.Attacher      = targets{}
	_ plugins.Mounter       = targets{}
	_ plugins.Reconstructor = targets{}
)

func (t targets) Name() string { return "example.com/targets" }

func (t targets) CanSupport(spec *plugins.Spec) bool {
	return spec.PersistentVolume != nil && spec.PersistentVolume.Spec.ISCSI != nil
}

func (t targets) VolumeName(spec *plugins.Spec) (string, error) { return spec.Name(), nil }

func (t targets) CanAttach(*plugins.Spec) (bool, error) { return true, nil }

func (t targets) Attach(_ context.Context, spec *plugins.Spec, node types.NodeName) (string, error) {
	return "/dev/" + spec.Name(), t.call("attach", spec.Name(), string(node), nil)
}

func (t targets) Detach(_ context.Context, volume string, node types.NodeName) error {
	return t.call("detach", volume, string(node), nil)
}

func (t targets) MountPath(spec *plugins.Spec, pod types.UID) string {
	return t.mountPath(spec.Name(), pod)
}

func (t targets) mountPath(volume string, pod types.UID) string {
	return path.Join(t.host.Root, "pods", string(pod), "volumes", "example.com~targets", volume)
}

func (t targets) SetUp(_ context.Context, spec *plugins.Spec, pod *corev1.Pod, _ plugins.MountOptions) error {
	disk, from, to := t.host.Disk, path.Join(t.host.Root, "targets", spec.Name()), t.MountPath(spec, pod.UID)
	if mounted, err := disk.IsMountPoint(to); mounted || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return t.call("mount", spec.Name(), t.host.Node, func() error {
		return errors.Join(disk.MkdirAll(from), disk.MkdirAll(to), disk.BindMount(from, to, spec.ReadOnly))
	})
}

func (t targets) TearDown(_ context.Context, volume string, pod types.UID) error {
	disk, at := t.host.Disk, t.mountPath(volume, pod)
	if there, err := disk.Exists(at); err != nil || !there {
		return err
	}
	return t.call("unmount", volume, t.host.Node, func() error {
		if err := disk.Unmount(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return disk.Remove(at)
	})
}

func (t targets) Reconstruct(volume string, pod types.UID) (plugins.Reconstructed, error) {
	if there, err := t.host.Disk.Exists(t.mountPath(volume, pod)); err != nil || !there {
		return plugins.Reconstructed{}, errors.Join(err, fs.ErrNotExist)
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume}}
	pv.Spec.ISCSI = &corev1.ISCSIPersistentVolumeSource{}
	return plugins.Reconstructed{Spec: &plugins.Spec{PersistentVolume: pv}}, nil
}

// call leaves the process for an effect.
func (t targets) call(verb, volume, node string, do func() error) error {
	action := trace.Action{Kind: trace.KindDriver, Verb: verb, Object: t.Name() + "/" + volume}
	return t.host.Process.Call(action, func() trace.Outcome {
		t.calls.add(verb + " " + node)
		if do == nil {
			return trace.Outcome{}
		}
		return trace.Outcome{Err: do()}
	}).Err
}

// targetPod is a pod with an iSCSI volume.
const targetPod = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: target}
spec:
  storageClassName: ""
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  iscsi: {targetPortal: 10.0.0.1, iqn: iqn.2001-04.com.example:a, lun: 0}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  storageClassName: ""
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
  containers: [{name: main, image: image, volumeMounts: [{name: data, mountPath: /data}]}]
`

// A plugin of one's own serves volumes of a kind that has none.
func ExampleConfig_plugins() {
	ctx, calls := context.Background(), &calls{}
	c, err := cluster.New(cluster.Config{
		Nodes: 1, Stepped: &sim.SteppedConfig{},
		Plugins: func(host cluster.PluginHost) ([]plugins.Plugin, error) {
			return []plugins.Plugin{targets{host, calls}}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := errors.Join(c.Start(ctx), c.Apply(ctx, targetPod),
		c.WaitForPod(ctx, "default", "web", corev1.PodRunning)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(calls.all())
	// Output: [attach node-1 mount node-1]
}

// TestUserPlugin has a plugin of the user's own attach and mount the volume of a pod, and unmount
// and detach it after the kubelet has restarted.
func TestUserPlugin(t *testing.T) {
	for _, world := range []struct {
		name string
		cfg  cluster.Config
	}{
		{"stepped", cluster.Config{Stepped: &sim.SteppedConfig{}}},
		{"live", cluster.Config{Devices: cluster.Array}},
		{"kubelet attaches", cluster.Config{Stepped: &sim.SteppedConfig{}, KubeletsAttach: true}},
		{"loop devices", cluster.Config{Devices: cluster.Loop}},
	} {
		t.Run(world.name, func(t *testing.T) {
			ctx, calls := t.Context(), &calls{}
			var hosts []string
			world.cfg.Nodes = 1
			world.cfg.Plugins = func(host cluster.PluginHost) ([]plugins.Plugin, error) {
				hosts = append(hosts, host.Process.Name()+"@"+host.Node)
				return []plugins.Plugin{targets{host, calls}}, nil
			}
			c := start(t, world.cfg)
			want := []string{"pvcontroller@", "attachdetach@", "expand@", "kubelet(node-1)@node-1"}
			if !slices.Equal(hosts, want) {
				t.Errorf("plugins for %v, want %v", hosts, want)
			}
			testcheck.NoError(t, c.Apply(ctx, targetPod), c.WaitForPod(ctx, "default", "web", corev1.PodRunning),
				c.WriteFile("default", "web", "data", "file", []byte("1")))
			node, err := c.Machine("node-1")
			testcheck.NoError(t, err)
			if got, err := node.FS.ReadFile(node.Path("/targets/target/file")); err != nil || string(got) != "1" {
				t.Errorf("the file of the target: %q, %v", got, err)
			}
			if world.cfg.Stepped != nil {
				testcheck.NoError(t, c.Stop("kubelet(node-1)"))
			}
			testcheck.NoError(t, c.Client().CoreV1().Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}))
			c.Repair()
			want = []string{"attach node-1", "mount node-1", "unmount node-1", "detach node-1"}
			testcheck.NoError(t, c.WaitForGone(ctx, "pods", "default", "web"),
				c.Wait(ctx, "the detach", func() bool { return len(calls.all()) >= len(want) }))
			if got := calls.all(); !slices.Equal(got, want) {
				t.Errorf("calls %v, want %v", got, want)
			}
		})
	}
}

// A named plugin has a name and supports nothing.
type named string

func (n named) Name() string                           { return string(n) }
func (named) CanSupport(*plugins.Spec) bool            { return false }
func (named) VolumeName(*plugins.Spec) (string, error) { return "", errors.ErrUnsupported }

func TestInvalidUserPlugins(t *testing.T) {
	for _, tt := range []struct {
		plugins []plugins.Plugin
		err     error
		want    string
	}{
		{plugins: []plugins.Plugin{named("kubernetes.io/empty-dir")}, want: `register volume plugin "kubernetes.io/empty-dir": already registered`},
		{plugins: []plugins.Plugin{named("x/a"), named("x/a")}, want: `register volume plugin "x/a": already registered`},
		{plugins: []plugins.Plugin{named("a/b/c")}, want: `register volume plugin "a/b/c": invalid name`},
		{err: errors.New("no license"), want: "Config.Plugins: no license"},
	} {
		c, err := cluster.New(cluster.Config{
			Stepped: &sim.SteppedConfig{},
			Plugins: func(cluster.PluginHost) ([]plugins.Plugin, error) { return tt.plugins, tt.err },
		})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v, want %q", err, tt.want)
		}
		if err == nil {
			testcheck.NoError(t, c.Close())
		}
	}
}
