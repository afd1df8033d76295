package explore_test

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim/trace"
)

// A photon plugin serves photonPersistentDisk volumes of pods: each disk is a directory of the node.
type photon struct {
	host     cluster.PluginHost
	careless bool // mounts what is mounted, and ignores that it cannot remove a directory
}

func (photon) Name() string { return "example.com/photon" }

func (photon) CanSupport(spec *plugins.Spec) bool {
	return spec.Volume != nil && spec.Volume.PhotonPersistentDisk != nil
}

func (photon) VolumeName(spec *plugins.Spec) (string, error) { return spec.Name(), nil }

func (p photon) MountPath(spec *plugins.Spec, pod types.UID) string {
	return p.mountPath(spec.Name(), pod)
}

func (p photon) mountPath(volume string, pod types.UID) string {
	return path.Join(p.host.Root, "pods", string(pod), "volumes", "example.com~photon", volume)
}

func (p photon) SetUp(_ context.Context, spec *plugins.Spec, pod *corev1.Pod, _ plugins.MountOptions) error {
	disk, from, to := p.host.Disk, path.Join(p.host.Root, "photon"), p.MountPath(spec, pod.UID)
	if mounted, err := disk.IsMountPoint(to); mounted && !p.careless || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return p.call("mount", spec.Name(), func() error {
		return errors.Join(disk.MkdirAll(from), disk.MkdirAll(to), disk.BindMount(from, to, false))
	})
}

func (p photon) TearDown(_ context.Context, volume string, pod types.UID) error {
	disk, at := p.host.Disk, p.mountPath(volume, pod)
	if there, err := disk.Exists(at); err != nil || !there {
		return err
	}
	return p.call("unmount", volume, func() error {
		mounted, err := disk.IsMountPoint(at)
		if err == nil && mounted {
			err = disk.Unmount(at)
		}
		if removed := disk.Remove(at); !p.careless {
			err = errors.Join(err, removed)
		}
		return err
	})
}

func (p photon) Reconstruct(volume string, pod types.UID) (plugins.Reconstructed, error) {
	if there, err := p.host.Disk.Exists(p.mountPath(volume, pod)); err != nil || !there {
		return plugins.Reconstructed{}, errors.Join(err, fs.ErrNotExist)
	}
	source := corev1.VolumeSource{PhotonPersistentDisk: &corev1.PhotonPersistentDiskVolumeSource{}}
	return plugins.Reconstructed{Spec: &plugins.Spec{Volume: &corev1.Volume{Name: volume, VolumeSource: source}}}, nil
}

func (p photon) call(verb, volume string, do func() error) error {
	action := trace.Action{Kind: trace.KindDriver, Verb: verb, Object: p.Name() + "/" + volume}
	return p.host.Process.Call(action, func() trace.Outcome { return trace.Outcome{Err: do()} }).Err
}

// TestOwnPlugins searches worlds with a volume plugin of the test's own under crashes of the kubelet.
// A plugin that leaves a mount is found.
func TestOwnPlugins(t *testing.T) {
	for _, careless := range []bool{false, true} {
		s, err := scenario.Parse("own plugin", `
components: kubelet
nodes: 1
user alice
  apply
    apiVersion: v1
    kind: Pod
    metadata: {name: web}
    spec:
      nodeName: node-1
      volumes: [{name: data, photonPersistentDisk: {pdID: a}}]
      containers: [{name: main, image: image, volumeMounts: [{name: data, mountPath: /data}]}]
  wait pod web Running
  delete pod web
`)
		testcheck.NoError(t, err)
		s.Plugins = func(host cluster.PluginHost) ([]plugins.Plugin, error) {
			return []plugins.Plugin{photon{host, careless}}, nil
		}
		report, err := explore.Search(t.Context(), s, explore.Config{Strategy: explore.Restarts, Count: 500})
		testcheck.NoError(t, err)
		if found := report.Failure != nil; found != careless {
			t.Errorf("careless %t: failure %v after %d schedules", careless, report.Failure, report.Schedules)
		}
		if careless && report.Failure != nil && report.Failure.Scenario.Violates != "I26" {
			t.Errorf("failure %v, want a mount that is left", report.Failure)
		}
	}
}
