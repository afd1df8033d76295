package local_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/local"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// A directory of a node is the volume of a pod.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	process := host.Process("kubelet")
	node := hostpath.Machine{FS: nodefs.NewMemory("/node-1"), Root: "/node-1"}
	plugin := local.New(local.Config{Process: process, Machine: node})
	volume := &plugins.Spec{PersistentVolume: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}}
	volume.PersistentVolume.Spec.Local = &corev1.LocalVolumeSource{Path: "/mnt/disks/a"}
	fmt.Println(plugin.CheckMount(volume))

	if err := node.FS.MkdirAll(node.Path("/mnt/disks/a")); err != nil {
		fmt.Println(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "uid-1"}}
	process.Spawn("mount", func(ctx context.Context) {
		if err := plugin.SetUp(ctx, volume, pod, plugins.MountOptions{}); err != nil {
			fmt.Println(err)
		}
	})
	if err := host.Run(); err != nil {
		fmt.Println(err)
	}
	mounts, err := node.FS.Mounts()
	fmt.Println(mounts[0].Path, err)
	// Output:
	// path "/mnt/disks/a" does not exist
	// /node-1/pods/uid-1/volumes/kubernetes.io~local-volume/disk <nil>
}
