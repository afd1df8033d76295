package healthmonitor_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/internal/volumehealth"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sidecars/healthmonitor"
	"github.com/volsim/volsim/sidecars/internal/scripted"
	"github.com/volsim/volsim/sim"
)

const driverName = "disk.example.com"

// The capabilities of drivers.
const (
	listHealth  = csispec.ControllerServiceCapability_RPC_LIST_VOLUME_HEALTH
	getHealth   = csispec.ControllerServiceCapability_RPC_GET_VOLUME_HEALTH
	listVolumes = csispec.ControllerServiceCapability_RPC_LIST_VOLUMES
	getVolume   = csispec.ControllerServiceCapability_RPC_GET_VOLUME
	condition   = volumehealth.ControllerCapability
)

// ill is the message of an abnormal volume; the entries of CSI 1.13 have more words.
const ill = "Volume not found"

// driver reports the volumes in ill as abnormal, in each of CSI's ways, one volume a page.
type driver struct {
	csispec.UnimplementedControllerServer
	capabilities []csispec.ControllerServiceCapability_RPC_Type
	ids          []string // of all volumes
	ill          map[string]bool
}

func (d *driver) ControllerGetCapabilities(
	context.Context, *csispec.ControllerGetCapabilitiesRequest,
) (*csispec.ControllerGetCapabilitiesResponse, error) {
	return csireq.ControllerCapabilities(d.capabilities...), nil
}

func (d *driver) health(id string) *csispec.VolumeHealth {
	health := &csispec.VolumeHealth{VolumeId: id}
	if d.ill[id] {
		health.HealthStatuses = []*csispec.VolumeHealth_VolumeHealthEntry{{
			Status: csispec.VolumeHealthErrorType_INACCESSIBLE, Reason: "Gone", Message: ill,
		}}
	}
	return health
}

func (d *driver) condition(id string) volumehealth.Condition {
	if d.ill[id] {
		return volumehealth.Condition{Abnormal: true, Message: ill}
	}
	return volumehealth.Condition{}
}

// page returns the volume of a page, and the token of the next one.
func page(ids []string, token string) (id, next string) {
	at, _ := strconv.Atoi(token)
	if at >= len(ids) {
		return "", ""
	}
	if at+1 < len(ids) {
		next = strconv.Itoa(at + 1)
	}
	return ids[at], next
}

func (d *driver) ControllerListVolumeHealth(
	_ context.Context, r *csispec.ControllerListVolumeHealthRequest,
) (*csispec.ControllerListVolumeHealthResponse, error) {
	unhealthy := slices.DeleteFunc(slices.Clone(d.ids), func(id string) bool { return !d.ill[id] })
	id, next := page(unhealthy, r.GetStartingToken())
	if id == "" {
		return &csispec.ControllerListVolumeHealthResponse{}, nil
	}
	return &csispec.ControllerListVolumeHealthResponse{Entries: []*csispec.VolumeHealth{d.health(id)}, NextToken: next}, nil
}

func (d *driver) ControllerGetVolumeHealth(
	_ context.Context, r *csispec.ControllerGetVolumeHealthRequest,
) (*csispec.ControllerGetVolumeHealthResponse, error) {
	return &csispec.ControllerGetVolumeHealthResponse{VolumeHealth: d.health(r.GetVolumeId())}, nil
}

func (d *driver) ListVolumes(_ context.Context, r *csispec.ListVolumesRequest) (*csispec.ListVolumesResponse, error) {
	id, next := page(d.ids, r.GetStartingToken())
	if id == "" {
		return &csispec.ListVolumesResponse{}, nil
	}
	entry := &csispec.ListVolumesResponse_Entry{
		Volume: &csispec.Volume{VolumeId: id}, Status: &csispec.ListVolumesResponse_VolumeStatus{},
	}
	volumehealth.SetRetired(entry.GetStatus(), d.condition(id))
	return &csispec.ListVolumesResponse{Entries: []*csispec.ListVolumesResponse_Entry{entry}, NextToken: next}, nil
}

func (d *driver) ControllerGetVolume(
	_ context.Context, r *csispec.ControllerGetVolumeRequest,
) (*csispec.ControllerGetVolumeResponse, error) {
	response := &csispec.ControllerGetVolumeResponse{
		Volume: &csispec.Volume{VolumeId: r.GetVolumeId()}, Status: &csispec.ControllerGetVolumeResponse_VolumeStatus{},
	}
	volumehealth.SetRetired(response.GetStatus(), d.condition(r.GetVolumeId()))
	return response, nil
}

// world is an API server, a driver and its health monitor.
type world struct {
	*testworld.World
	driver *driver
	conn   *scripted.Conn

	process *sim.Process
	start   func() // starts the monitor again, after a crash
}

func newWorld(t *testing.T, chooser sim.Chooser, capabilities ...csispec.ControllerServiceCapability_RPC_Type) *world {
	t.Helper()
	w := &world{
		World:  testworld.New(t, sim.SteppedConfig{Chooser: chooser, StepsMax: 10_000}),
		driver: &driver{capabilities: capabilities, ill: map[string]bool{}},
	}
	w.conn = &scripted.Conn{ClientConnInterface: csi.Direct(func(r grpc.ServiceRegistrar) {
		csispec.RegisterControllerServer(r, w.driver)
	})}
	w.start = func() {
		w.process = w.Host.Process("healthmonitor")
		healthmonitor.New(healthmonitor.Config{
			Process: w.process, Informers: w.Server.Informers(w.process), DriverName: driverName, NodeWatcher: true,
			Recorder: events.New(events.Config{
				Process: w.process, Client: w.Server.Client(w.process), Source: "healthmonitor", Periodic: true,
			}),
			Conn: csi.Suspend(w.process, driverName, w.conn),
		})
	}
	return w
}

// add stores a volume of the driver, and the claim that is bound to it.
func (w *world) add(name string, change ...func(*corev1.PersistentVolume, *corev1.PersistentVolumeClaim)) {
	w.Helper()
	has := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim-" + name, UID: types.UID("uid-" + name)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, VolumeName: name, Resources: corev1.VolumeResourceRequirements{Requests: has},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: has, AccessModes: modes,
			ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: driverName, VolumeHandle: "h-" + name,
			}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	for _, f := range change {
		f(volume, claim)
	}
	w.NoError(w.Server.Add(volume, claim))
	w.driver.ids = append(w.driver.ids, "h-"+name)
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	w.Helper()
	w.Host.SetTime(w.Host.Now().Add(d))
	w.Run()
}

// events are the events by time and object: "xcount type reason object: message".
func (w *world) events() []string {
	var all []*corev1.Event
	for _, obj := range w.Server.List("events") {
		all = append(all, obj.(*corev1.Event))
	}
	slices.SortStableFunc(all, func(a, b *corev1.Event) int {
		return cmp.Or(a.FirstTimestamp.Compare(b.FirstTimestamp.Time), cmp.Compare(a.InvolvedObject.Name, b.InvolvedObject.Name))
	})
	var lines []string
	for _, e := range all {
		lines = append(lines, fmt.Sprintf("x%d %s %s %s: %s", e.Count, e.Type, e.Reason, e.InvolvedObject.Name, e.Message))
	}
	return lines
}

func (w *world) wantEvents(what string, want ...string) {
	w.Helper()
	testcheck.Equal(w, "events "+what, want, w.events())
}
