package resizer_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sidecars/resizer"
	"github.com/volsim/volsim/sim"
)

// A claim asks for more than its volume has: the driver grows the volume.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	disks := array.New(array.Config{}) // the driver
	conn := csi.Direct(func(r grpc.ServiceRegistrar) { csispec.RegisterControllerServer(r, disks.Controller()) })
	component := host.Process("resizer")
	client := server.Client(component)
	resizer.New(resizer.Config{
		Process: component, Client: client, Informers: server.Informers(component),
		DriverName: array.DriverName, Conn: csi.Suspend(component, array.DriverName, conn),
		Recorder: events.New(events.Config{Process: component, Client: client, Source: "external-resizer"}),
	})

	made, err := disks.Controller().CreateVolume(context.Background(), &csispec.CreateVolumeRequest{
		Name: "disk", CapacityRange: &csispec.CapacityRange{RequiredBytes: 1 << 30},
		VolumeCapabilities: []*csispec.VolumeCapability{{
			AccessMode: &csispec.VolumeCapability_AccessMode{Mode: csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
			AccessType: &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{}},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	has := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	volume.Spec.Capacity, volume.Spec.ClaimRef = has, &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "1"}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: array.DriverName, VolumeHandle: made.GetVolume().GetVolumeId()}
	claim := cluster.NewClaim("data", "3Gi")
	volume.Spec.AccessModes = claim.Spec.AccessModes
	claim.Namespace, claim.UID, claim.Spec.VolumeName = "default", "1", "disk"
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, has
	if err := errors.Join(server.Add(volume, claim), host.Run()); err != nil {
		log.Fatal(err)
	}
	grown, _ := server.Get("persistentvolumes", "", "disk")
	fmt.Println(grown.(*corev1.PersistentVolume).Spec.Capacity.Storage(), disks.Volumes()[0].SizeBytes>>30)
	is, _ := server.Get("persistentvolumeclaims", "default", "data")
	fmt.Println("left to the kubelet:", is.(*corev1.PersistentVolumeClaim).Status.AllocatedResourceStatuses)
	// Output:
	// 3Gi 3
	// left to the kubelet: map[storage:NodeResizePending]
}
