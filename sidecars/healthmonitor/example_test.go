package healthmonitor_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sidecars/healthmonitor"
	"github.com/volsim/volsim/sim"
)

// torn is a driver that has lost data of its only volume.
type torn struct {
	csispec.UnimplementedControllerServer
}

func (torn) ControllerGetCapabilities(
	context.Context, *csispec.ControllerGetCapabilitiesRequest,
) (*csispec.ControllerGetCapabilitiesResponse, error) {
	return csireq.ControllerCapabilities(csispec.ControllerServiceCapability_RPC_LIST_VOLUME_HEALTH), nil
}

func (torn) ControllerListVolumeHealth(
	context.Context, *csispec.ControllerListVolumeHealthRequest,
) (*csispec.ControllerListVolumeHealthResponse, error) {
	return &csispec.ControllerListVolumeHealthResponse{Entries: []*csispec.VolumeHealth{{
		VolumeId: "vol-1", HealthStatuses: []*csispec.VolumeHealth_VolumeHealthEntry{{
			Status: csispec.VolumeHealthErrorType_DATA_LOSS, Reason: "Torn", Message: "two disks of the mirror failed",
		}},
	}}}, nil
}

// A driver reports that a volume is abnormal: its claim has an event.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	conn := csi.Direct(func(r grpc.ServiceRegistrar) { csispec.RegisterControllerServer(r, torn{}) })
	process := host.Process("healthmonitor")
	healthmonitor.New(healthmonitor.Config{
		Process: process, Informers: server.Informers(process), DriverName: "disk.example.com",
		Conn: csi.Suspend(process, "disk.example.com", conn),
		Recorder: events.New(events.Config{
			Process: process, Client: server.Client(process), Source: "healthmonitor", Periodic: true,
		}),
	})
	claim := cluster.NewClaim("data", "1Gi")
	claim.Namespace, claim.UID, claim.Spec.VolumeName, claim.Status.Phase = "default", "1", "pv", corev1.ClaimBound
	volume := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
		Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes,
		ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "1"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: "vol-1"}},
	}}
	volume.Name, volume.Status.Phase = "pv", corev1.VolumeBound
	if err := errors.Join(server.Add(claim, volume), host.Run()); err != nil {
		log.Fatal(err)
	}
	for _, obj := range server.List("events") {
		e := obj.(*corev1.Event)
		fmt.Printf("%s %s %s: %s\n", e.Type, e.Reason, e.InvolvedObject.Name, e.Message)
	}
	// Output: Warning VolumeConditionAbnormal data: DATA_LOSS Torn: two disks of the mirror failed
}
