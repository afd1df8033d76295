package provisioner_test

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

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sidecars/provisioner"
	"github.com/volsim/volsim/sim"
)

// A claim of the driver's class gets a volume, and an object that tells of it.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	disks := array.New(array.Config{}) // the driver
	conn := csi.Direct(func(r grpc.ServiceRegistrar) { csispec.RegisterControllerServer(r, disks.Controller()) })
	component := host.Process("provisioner")
	client := server.Client(component)
	provisioner.New(provisioner.Config{
		Process: component, Client: client, Informers: server.Informers(component),
		DriverName: array.DriverName, Conn: csi.Suspend(component, array.DriverName, conn),
		Recorder: events.New(events.Config{Process: component, Client: client, Source: array.DriverName}),
	})

	fast := "fast"
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: fast}, Provisioner: array.DriverName}
	claim := cluster.NewClaim("data", "2Gi")
	claim.Spec.StorageClassName = &fast
	// The PersistentVolume controller asks for a provisioner by this annotation.
	claim.Annotations = map[string]string{"volume.kubernetes.io/storage-provisioner": array.DriverName}
	classAdded := server.Add(class)
	claims := server.Client(host.ExternalCaller()).CoreV1().PersistentVolumeClaims("default")
	_, made := claims.Create(context.Background(), claim, metav1.CreateOptions{})
	if err := errors.Join(classAdded, made, host.Run()); err != nil {
		log.Fatal(err)
	}
	for _, object := range server.List("persistentvolumes") {
		volume := object.(*corev1.PersistentVolume)
		fmt.Println(volume.Spec.Capacity.Storage(), "for claim", volume.Spec.ClaimRef.Name)
	}
	fmt.Println("volumes of the driver:", len(disks.Volumes()))
	// Output:
	// 2Gi for claim data
	// volumes of the driver: 1
}
