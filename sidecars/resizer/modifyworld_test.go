package resizer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sidecars/internal/scripted"
	"github.com/volsim/volsim/sidecars/resizer"
	"github.com/volsim/volsim/sim"
)

// modifyDriver is the name of a driver whose volumes can be modified to anything.
const modifyDriver = "mock"

type modifiable struct {
	csispec.UnimplementedControllerServer
	capability csispec.ControllerServiceCapability_RPC_Type
}

func (d modifiable) ControllerGetCapabilities(
	context.Context, *csispec.ControllerGetCapabilitiesRequest,
) (*csispec.ControllerGetCapabilitiesResponse, error) {
	return &csispec.ControllerGetCapabilitiesResponse{Capabilities: []*csispec.ControllerServiceCapability{{
		Type: &csispec.ControllerServiceCapability_Rpc{Rpc: &csispec.ControllerServiceCapability_RPC{Type: d.capability}},
	}}}, nil
}

func (modifiable) ControllerModifyVolume(
	context.Context, *csispec.ControllerModifyVolumeRequest,
) (*csispec.ControllerModifyVolumeResponse, error) {
	return &csispec.ControllerModifyVolumeResponse{}, nil
}

// modifyWorld is an API server, a driver that modifies volumes, and the resizer.
type modifyWorld struct {
	*world
	process *sim.Process
	start   func() // starts the resizer again, after a crash
}

func newModifyWorld(t *testing.T, cfg resizer.Config, chooser sim.Chooser) *modifyWorld {
	t.Helper()
	return newModifyWorldOf(t, cfg, chooser, csispec.ControllerServiceCapability_RPC_MODIFY_VOLUME)
}

func newModifyWorldOf(
	t *testing.T, cfg resizer.Config, chooser sim.Chooser, capability csispec.ControllerServiceCapability_RPC_Type,
) *modifyWorld {
	t.Helper()
	w := &modifyWorld{world: &world{World: testworld.New(t, sim.SteppedConfig{StepsMax: 20_000, Chooser: chooser})}}
	w.conn = &scripted.Conn{ClientConnInterface: csi.Direct(func(r grpc.ServiceRegistrar) {
		csispec.RegisterControllerServer(r, modifiable{capability: capability})
	})}
	w.start = func() {
		c := w.Host.Process("resizer")
		w.process = c
		cfg.Process, cfg.Client, cfg.Informers, cfg.DriverName = c, w.Server.Client(c), w.Server.Informers(c), modifyDriver
		cfg.Recorder = events.New(events.Config{Process: c, Client: w.Server.Client(c), Source: "external-resizer " + modifyDriver})
		cfg.Conn = csi.Suspend(c, modifyDriver, w.conn)
		resizer.New(cfg)
	}
	w.start()
	return w
}

// newVolume returns a volume of the driver, of a class, that is bound to claim data.
func newVolume(class string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "testPV"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: sizes("1Gi"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		ClaimRef:                  &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "u"},
		VolumeAttributesClassName: named(class), StorageClassName: "fast",
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: modifyDriver, VolumeHandle: "foo"},
		},
	}}
}

// newClaim returns the claim, which requests a class and has another one.
func newClaim(wanted, current string) *corev1.PersistentVolumeClaim {
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: types.UID("u")},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, VolumeName: "testPV", StorageClassName: ptr.To("fast"),
			Resources: corev1.VolumeResourceRequirements{Requests: sizes("1Gi")}, VolumeAttributesClassName: named(wanted),
		},
		Status: corev1.PersistentVolumeClaimStatus{
			Phase: corev1.ClaimBound, Capacity: sizes("1Gi"), AccessModes: modes, CurrentVolumeAttributesClassName: named(current),
		},
	}
}

func named(class string) *string {
	if class == "" {
		return nil
	}
	return &class
}

// modified returns the claim with a state of its modification.
func modified(claim *corev1.PersistentVolumeClaim, target string, state corev1.PersistentVolumeClaimModifyVolumeStatus,
) *corev1.PersistentVolumeClaim {
	claim.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: target, Status: state}
	return claim
}

// newAttributes returns a class; its parameter is its name.
func newAttributes(name string) *storagev1.VolumeAttributesClass {
	return &storagev1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: modifyDriver, Parameters: map[string]string{"tier": name},
	}
}

// request changes the class that the claim requests.
func (w *modifyWorld) request(class string) {
	w.Helper()
	patch := `{"spec":{"volumeAttributesClassName":null}}`
	if class != "" {
		patch = fmt.Sprintf(`{"spec":{"volumeAttributesClassName":%q}}`, class)
	}
	testcheck.Must(w.User.CoreV1().PersistentVolumeClaims("default").
		Patch(context.Background(), "data", types.MergePatchType, []byte(patch), metav1.PatchOptions{}))
}

// fails makes the next calls fail.
func (w *modifyWorld) fails(all ...codes.Code) {
	for _, code := range all {
		w.conn.Faults = append(w.conn.Faults, scripted.Fault{Method: "ControllerModifyVolume", Code: code})
	}
}

// tiers returns the classes with which the driver was called.
func (w *modifyWorld) tiers() []string {
	var all []string
	for _, call := range w.conn.Calls {
		if r, ok := call.Request.(*csispec.ControllerModifyVolumeRequest); ok {
			all = append(all, r.GetMutableParameters()["tier"])
		}
	}
	return all
}

// state returns what the claim and the volume say: the volume's class, the current class, the state
// of the modification, and the conditions.
func (w *modifyWorld) state() string {
	w.Helper()
	object, _ := w.Server.Get("persistentvolumeclaims", "default", "data")
	claim := object.(*corev1.PersistentVolumeClaim)
	object, _ = w.Server.Get("persistentvolumes", "", "testPV")
	words := []string{fmt.Sprintf("volume %s, claim %s", ptr.Deref(object.(*corev1.PersistentVolume).Spec.VolumeAttributesClassName, "-"),
		ptr.Deref(claim.Status.CurrentVolumeAttributesClassName, "-"))}
	if s := claim.Status.ModifyVolumeStatus; s != nil {
		words = append(words, fmt.Sprintf("%s %s", s.Status, s.TargetVolumeAttributesClassName))
	}
	for _, c := range claim.Status.Conditions {
		words = append(words, strings.Join(slices.DeleteFunc([]string{string(c.Type), c.Reason, c.Message},
			func(word string) bool { return word == "" }), " "))
	}
	return strings.Join(words, "; ")
}
