package driver_test

import (
	"context"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sidecars/internal/driver"
	"github.com/volsim/volsim/sidecars/internal/scripted"
)

func TestAccessMode(t *testing.T) {
	const rwo, rox, rwx, rwop = corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod
	const (
		writer      = csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
		multiWriter = csispec.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
		single      = csispec.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
		readers     = csispec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
		writers     = csispec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
		refused     = csispec.VolumeCapability_AccessMode_UNKNOWN
	)
	for _, test := range []struct {
		modes         []corev1.PersistentVolumeAccessMode
		plain, better csispec.VolumeCapability_AccessMode_Mode
	}{
		{nil, refused, refused},
		{[]corev1.PersistentVolumeAccessMode{rwo}, writer, multiWriter},
		{[]corev1.PersistentVolumeAccessMode{rwop}, writer, single},
		{[]corev1.PersistentVolumeAccessMode{rwop, rwop}, writer, single},
		{[]corev1.PersistentVolumeAccessMode{rwop, rwo}, refused, refused},
		{[]corev1.PersistentVolumeAccessMode{rox}, readers, readers},
		{[]corev1.PersistentVolumeAccessMode{rox, rwo}, refused, refused},
		{[]corev1.PersistentVolumeAccessMode{rwx}, writers, writers},
		{[]corev1.PersistentVolumeAccessMode{rox, rwo, rwx}, writers, writers},
	} {
		for can, want := range map[bool]csispec.VolumeCapability_AccessMode_Mode{false: test.plain, true: test.better} {
			got, err := driver.AccessMode(test.modes, can)
			if got != want || (err != nil) != (want == refused) {
				t.Errorf("AccessMode(%v, %v) = %v, %v; want %v", test.modes, can, got, err, want)
			}
		}
	}
}

type nothing struct {
	csispec.UnimplementedControllerServer
}

func TestCapabilitiesAreAskedOnceAndMayBeNone(t *testing.T) {
	conn := &scripted.Conn{
		ClientConnInterface: csi.Direct(func(r grpc.ServiceRegistrar) { csispec.RegisterControllerServer(r, nothing{}) }),
		Faults:              []scripted.Fault{{Method: "ControllerGetCapabilities", Code: codes.Unavailable}},
	}
	d := driver.New("d", conn)
	if _, err := d.Capabilities(context.Background()); err == nil {
		t.Error("no error though the driver was not available")
	}
	for range 2 {
		if got, err := d.Capabilities(context.Background()); err != nil || len(got) != 0 {
			t.Errorf("capabilities %v, %v; want none", got, err)
		}
	}
	if n := conn.Count("ControllerGetCapabilities"); n != 2 {
		t.Errorf("asked %d times, want 2", n)
	}
}
