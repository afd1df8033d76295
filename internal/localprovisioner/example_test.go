package localprovisioner_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/localprovisioner"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// A RAM disk of a node becomes a volume.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server, disk := fake.NewServer(fake.Config{Now: host.Now}), nodefs.NewMemory("/node-1")
	process := host.Process("localprovisioner(node-1)")
	localprovisioner.New(localprovisioner.Config{
		Process: process, Client: server.Client(process), Informers: server.Informers(process),
		Recorder: record.NewFakeRecorder(10), Node: "node-1", Machine: hostpath.Machine{FS: disk, Root: "/node-1"},
		Classes: []localprovisioner.Class{{Name: "fast", Dir: "/mnt/fast"}},
	})
	for _, err := range []error{
		disk.MkdirAll("/node-1/mnt/fast/ram"), disk.MountTmpfs("/node-1/mnt/fast/ram", 64<<20),
		server.Add(
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{corev1.LabelHostname: "node-1"}}},
			&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "kubernetes.io/no-provisioner"}),
		host.Run(),
	} {
		if err != nil {
			fmt.Println(err)
		}
	}
	for _, obj := range server.List("persistentvolumes") {
		volume := obj.(*corev1.PersistentVolume)
		fmt.Println(volume.Name, volume.Spec.Local.Path, volume.Spec.Capacity.Storage())
	}
	// Output:
	// local-pv-829135ab /mnt/fast/ram 64Mi
}
