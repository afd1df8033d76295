package attacher_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sidecars/attacher"
	"github.com/volsim/volsim/sim"
)

// A VolumeAttachment asks for a volume on a node: the driver attaches it.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	disks := array.New(array.Config{}) // the driver
	disks.Node("node-1", nodefs.NewMemory("/"))
	conn := csi.Direct(func(r grpc.ServiceRegistrar) { csispec.RegisterControllerServer(r, disks.Controller()) })
	component := host.Process("attacher")
	attacher.New(attacher.Config{
		Process: component, Client: server.Client(component), Informers: server.Informers(component),
		DriverName: array.DriverName, Conn: csi.Suspend(component, array.DriverName, conn),
	})

	made, err := disks.Controller().CreateVolume(context.Background(), &csispec.CreateVolumeRequest{
		Name: "disk", VolumeCapabilities: []*csispec.VolumeCapability{{
			AccessMode: &csispec.VolumeCapability_AccessMode{Mode: csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
			AccessType: &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{}},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	node := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	node.Spec.Drivers = []storagev1.CSINodeDriver{{Name: array.DriverName, NodeID: "node-1"}}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	volume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: array.DriverName, VolumeHandle: made.GetVolume().GetVolumeId()}
	wish := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "disk-on-node-1"}}
	wish.Spec = storagev1.VolumeAttachmentSpec{
		Attacher: array.DriverName, NodeName: "node-1",
		Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume.Name},
	}
	if err := errors.Join(server.Add(node, volume, wish), host.Run()); err != nil {
		log.Fatal(err)
	}
	is, _ := server.Get("volumeattachments", "", "disk-on-node-1")
	fmt.Println(is.(*storagev1.VolumeAttachment).Status.Attached, disks.Volumes()[0].AttachedTo)
	// Output: true [node-1]
}
