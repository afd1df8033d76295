package provisioner_test

import (
	"context"
	"slices"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// modifiable returns a world whose driver has MODIFY_VOLUME.
func modifiable(t *testing.T) *world {
	t.Helper()
	return modifiableWith(t, nil)
}

// modifiableWith is modifiable under a chooser.
func modifiableWith(t *testing.T, chooser sim.Chooser) *world {
	t.Helper()
	w := newWorld(t, chooser)
	w.class(newClass("fast", storagev1.VolumeBindingImmediate))
	return w
}

func (w *world) attributesClass(driver string) {
	w.Helper()
	testcheck.Must(w.User.StorageV1().VolumeAttributesClasses().Create(context.Background(), &storagev1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gold"}, DriverName: driver, Parameters: map[string]string{"iops": "1000"},
	}, metav1.CreateOptions{}))
}

func withAttributes(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	claim.Spec.VolumeAttributesClassName = ptr("gold")
	return claim
}

// created returns the requests to create a volume.
func (w *world) created() []*csispec.CreateVolumeRequest {
	var all []*csispec.CreateVolumeRequest
	for _, call := range w.conn.Calls {
		if r, ok := call.Request.(*csispec.CreateVolumeRequest); ok {
			all = append(all, r)
		}
	}
	return all
}

// TestAttributesClassIsPassedToTheDriver creates the attributes class after the claim.
func TestAttributesClassIsPassedToTheDriver(t *testing.T) {
	w := modifiable(t)
	w.create(withAttributes(newClaim("data", "fast")))
	w.Until("the event", func() bool { return slices.Contains(w.events(), missingAttributes) })
	if len(w.created()) != 0 {
		t.Error("the driver was called without the class")
	}
	w.attributesClass(driverName)
	w.Run()
	requests := w.created()
	if len(requests) != 1 {
		t.Fatalf("%d requests; events %v", len(requests), w.events())
	}
	if diff := cmp.Diff(map[string]string{"iops": "1000"}, requests[0].GetMutableParameters()); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
	if volumes := w.volumes(); len(volumes) != 1 || *volumes[0].Spec.VolumeAttributesClassName != "gold" {
		t.Errorf("volumes %v", volumes)
	}
}

const missingAttributes = `ProvisioningFailed: volumeattributesclasses.storage.k8s.io "gold" not found`

func TestAttributesClassOfAnotherDriverIsRefused(t *testing.T) {
	w := modifiable(t)
	w.attributesClass("other.example.com")
	w.create(withAttributes(newClaim("data", "fast")))
	want := `ProvisioningFailed: VAC gold referenced in PVC is for driver other.example.com which does not match driver name ` + driverName
	w.Until("the event", func() bool { return slices.Contains(w.events(), want) })
	if len(w.created()) != 0 {
		t.Error("the driver was called")
	}
}

// TestAttributesClassNeedsTheCapability uses a driver without MODIFY_VOLUME.
func TestAttributesClassNeedsTheCapability(t *testing.T) {
	w := newWorld(t, nil)
	w.conn.Answer = func(_ string, reply any) {
		if r, ok := reply.(*csispec.ControllerGetCapabilitiesResponse); ok {
			r.Capabilities = slices.DeleteFunc(slices.Clone(r.Capabilities), func(c *csispec.ControllerServiceCapability) bool {
				return c.GetRpc().GetType() == csispec.ControllerServiceCapability_RPC_MODIFY_VOLUME
			})
		}
	}
	w.class(newClass("fast", storagev1.VolumeBindingImmediate))
	w.attributesClass(driverName)
	w.create(withAttributes(newClaim("data", "fast")))
	w.Run()
	want := `ProvisioningFailed: CSI driver does not support VolumeAttributesClass: controller MODIFY_VOLUME capability is not reported`
	if !slices.Contains(w.events(), want) || len(w.created()) != 0 {
		t.Errorf("events %q, %d requests; want %q", w.events(), len(w.created()), want)
	}
}
