package snapshotter_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/definitions"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sidecars/snapshotter"
	"github.com/volsim/volsim/sim"
)

// A content asks for a snapshot of a volume: the driver takes it.
func Example() {
	ctx, host := context.Background(), sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	if err := definitions.InstallText(ctx, server, snapshotapi.Definitions()); err != nil {
		log.Fatal(err)
	}
	disks := array.New(array.Config{}) // the driver
	conn := csi.Direct(func(r grpc.ServiceRegistrar) { csispec.RegisterControllerServer(r, disks.Controller()) })
	process := host.Process("snapshotter")
	client := server.Client(process)
	_, err := snapshotter.New(snapshotter.Config{
		Process: process, Client: client, Dynamic: client.Dynamic(), DriverName: array.DriverName,
		Informers: server.Informers(process, snapshotter.Filters(array.DriverName)...),
		Recorder:  events.New(events.Config{Process: process, Client: client, Source: "csi-snapshotter"}),
		Conn:      csi.Suspend(process, array.DriverName, conn),
	})
	if err != nil {
		log.Fatal(err)
	}

	made, err := disks.Controller().CreateVolume(ctx, &csispec.CreateVolumeRequest{
		Name: "disk", CapacityRange: &csispec.CapacityRange{RequiredBytes: 1 << 30},
		VolumeCapabilities: []*csispec.VolumeCapability{{
			AccessMode: &csispec.VolumeCapability_AccessMode{Mode: csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
			AccessType: &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{}},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	user, name := server.Client(host.ExternalCaller()).Dynamic(), "gold"
	_, err = snapshotapi.Classes.Client(user).Create(ctx, &snapshotapi.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Driver: array.DriverName, DeletionPolicy: snapshotapi.Delete,
	})
	content := &snapshotapi.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: "content"}}
	content.Spec = snapshotapi.ContentSpec{
		VolumeSnapshotRef: corev1.ObjectReference{Namespace: "default", Name: "before", UID: "1"},
		DeletionPolicy:    snapshotapi.Delete, Driver: array.DriverName, VolumeSnapshotClassName: &name,
		Source: snapshotapi.ContentSource{VolumeHandle: &made.GetVolume().VolumeId},
	}
	_, failed := snapshotapi.Contents.Client(user).Create(ctx, content)
	if err := errors.Join(err, failed, host.Run()); err != nil {
		log.Fatal(err)
	}
	content, err = snapshotapi.Contents.Client(user).Get(ctx, "", "content")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready:", *content.Status.ReadyToUse, "GiB:", *content.Status.RestoreSize>>30)
	// Output:
	// ready: true GiB: 1
}
