package resizer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sidecars/internal/scripted"
	"github.com/volsim/volsim/sidecars/resizer"
	"github.com/volsim/volsim/sim"
)

// world is an API server, a disk array with one volume of 1Gi, its claim, and the resizer.
type world struct {
	*testworld.World
	conn *scripted.Conn
}

func newWorld(t *testing.T, secret *corev1.SecretReference, faults ...scripted.Fault) *world {
	t.Helper()
	w := &world{World: testworld.New(t, sim.SteppedConfig{StepsMax: 10_000})}
	disks := array.New(array.Config{})
	made, err := disks.Controller().CreateVolume(context.Background(), &csispec.CreateVolumeRequest{
		Name: "v", CapacityRange: &csispec.CapacityRange{RequiredBytes: 1 << 30},
		VolumeCapabilities: []*csispec.VolumeCapability{{
			AccessMode: &csispec.VolumeCapability_AccessMode{Mode: csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
			AccessType: &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{}},
		}},
	})
	w.NoError(err)
	one, modes := sizes("1Gi"), []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	w.NoError(w.Server.Add(
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
			Capacity: one, AccessModes: modes, ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "u"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: array.DriverName, VolumeHandle: made.GetVolume().GetVolumeId(), ControllerExpandSecretRef: secret,
			}},
		}},
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: types.UID("u")},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: modes, VolumeName: "v", Resources: corev1.VolumeResourceRequirements{Requests: sizes("2Gi")},
			},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: one, AccessModes: modes},
		},
	))
	w.conn = &scripted.Conn{Faults: faults, ClientConnInterface: csi.Direct(func(r grpc.ServiceRegistrar) {
		csispec.RegisterControllerServer(r, disks.Controller())
	})}
	c := w.Host.Process("resizer")
	resizer.New(resizer.Config{
		Process: c, Client: w.Server.Client(c), Informers: w.Server.Informers(c), DriverName: array.DriverName,
		Recorder: events.New(events.Config{Process: c, Client: w.Server.Client(c), Source: "external-resizer"}),
		Conn:     csi.Suspend(c, array.DriverName, w.conn),
	})
	return w
}

func sizes(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

// until lets the world go on for a time, or until something is so.
func (w *world) until(d time.Duration, so func() bool) {
	w.Helper()
	end := w.Host.Now().Add(d)
	c := w.Host.Process("time")
	c.User("passes", func(context.Context) { c.Sleep(d) })
	w.NoError(w.Host.Wait(context.Background(), "what is to come", func() bool { return so() || !w.Host.Now().Before(end) }))
}

func never() bool { return false }

// claim is what the claim says: its status of growing, and its conditions.
func (w *world) claim() string {
	object, _ := w.Server.Get("persistentvolumeclaims", "default", "data")
	claim := object.(*corev1.PersistentVolumeClaim)
	words := []string{string(claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage])}
	for _, c := range claim.Status.Conditions {
		words = append(words, strings.TrimSpace(fmt.Sprintf("%s %s", c.Type, c.Message)))
	}
	return strings.Join(words, "; ")
}

// told are the events: reason and message.
func (w *world) told() []string {
	var lines []string
	for _, object := range w.Server.List("events") {
		e := object.(*corev1.Event)
		lines = append(lines, e.Type+" "+e.Reason+": "+e.Message)
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// TestErrorsOfTheDriver: what is said of each, and when it is tried again. Of one that may still be at it nothing is said in the
// claim; what is not feasible is not tried again.
func TestErrorsOfTheDriver(t *testing.T) {
	t.Parallel()
	const (
		underWay = "ControllerResizeInProgress; Resizing"
		failed   = "ControllerResizeInProgress; Resizing; ControllerResizeError failed to expand pvc with rpc error: code = %s desc = scripted"
		never1   = "ControllerResizeInfeasible; Resizing; ControllerResizeError failed to expand pvc with rpc error: code = %s desc = scripted"
	)
	want := map[codes.Code]string{
		codes.OK:       underWay, // the connection is lost
		codes.Canceled: underWay, codes.DeadlineExceeded: underWay, codes.Unavailable: underWay, codes.ResourceExhausted: underWay,
		codes.Aborted:         underWay,
		codes.InvalidArgument: never1, codes.OutOfRange: never1, codes.NotFound: never1,
		codes.Unknown: failed, codes.AlreadyExists: failed, codes.PermissionDenied: failed, codes.FailedPrecondition: failed,
		codes.Unimplemented: failed, codes.Internal: failed, codes.DataLoss: failed, codes.Unauthenticated: failed,
	}
	for code, said := range want {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			fault := scripted.Fault{Method: "ControllerExpandVolume", Code: code}
			w := newWorld(t, nil, fault, fault) // the first, and when what was begun is seen in the claim
			w.until(500*time.Millisecond, never)
			if strings.Contains(said, "%s") {
				said = fmt.Sprintf(said, code)
			}
			if diff := cmp.Diff(said, w.claim()); diff != "" {
				t.Errorf("the claim says (-want +got):\n%s", diff)
			}
			text := "rpc error: code = " + code.String() + " desc = scripted"
			if code == codes.OK {
				text = "connection lost"
			}
			events := []string{
				"Normal Resizing: External resizer is resizing volume v",
				`Warning VolumeResizeFailed: resize volume "v" by resizer "` + array.DriverName + `" failed: ` + text,
			}
			if diff := cmp.Diff(events, w.told()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			w.until(20*time.Minute, never)
			calls, end := 3, "NodeResizePending; "
			if strings.Contains(said, "Infeasible") {
				calls, end = 1, said
			}
			if got := w.conn.Count("ControllerExpandVolume"); got != calls || !strings.HasPrefix(w.claim(), end) {
				t.Errorf("%d calls, and the claim says %q in the end; want %d, %q", got, w.claim(), calls, end)
			}
		})
	}
}

// TestSecretsForGrowing are read each time, and the driver is not asked without them.
func TestSecretsForGrowing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &corev1.SecretReference{Namespace: "vault", Name: "key"})
	w.until(10*time.Second, never)
	if n := w.conn.Count("ControllerExpandVolume"); n != 0 || w.claim() != "ControllerResizeInProgress; Resizing" {
		t.Errorf("%d calls without the secret, and the claim says %q", n, w.claim())
	}
	const failed = `Warning VolumeResizeFailed: resize volume "v" by resizer "` + array.DriverName +
		`" failed: error getting secret key in namespace vault: secrets "key" not found`
	if told := w.told(); !slices.Contains(told, failed) {
		t.Errorf("events %q, want %q", told, failed)
	}
	w.NoError(w.Server.Add(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "key"}, Data: map[string][]byte{"user": []byte("alice")}}))
	w.until(10*time.Minute, func() bool { return w.conn.Count("ControllerExpandVolume") > 0 })
	for _, call := range w.conn.Calls {
		if request, is := call.Request.(*csispec.ControllerExpandVolumeRequest); is {
			if diff := cmp.Diff(map[string]string{"user": "alice"}, request.GetSecrets()); diff != "" {
				t.Errorf("secrets (-want +got):\n%s", diff)
			}
			return
		}
	}
	t.Error("the driver was not asked")
}
