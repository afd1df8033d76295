package cluster_test

import (
	"context"
	"slices"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// cloudDisks is the controller of a driver that attaches a disk by two requests to its cloud, which is an array.
type cloudDisks struct {
	csispec.ControllerServer
	process *sim.Process
}

// ControllerPublishVolume reserves a slot of the node and attaches the disk.
func (d *cloudDisks) ControllerPublishVolume(
	ctx context.Context, r *csispec.ControllerPublishVolumeRequest,
) (*csispec.ControllerPublishVolumeResponse, error) {
	if err := d.request("ReserveSlot", r.GetNodeId(), func() error { return nil }); err != nil {
		return nil, err
	}
	var response *csispec.ControllerPublishVolumeResponse
	err := d.request("AttachDisk", r.GetVolumeId(), func() (err error) {
		response, err = d.ControllerServer.ControllerPublishVolume(ctx, r)
		return err
	})
	return response, err
}

// request makes a request to the cloud.
func (d *cloudDisks) request(verb, object string, do func() error) error {
	return d.process.Call(trace.Action{Kind: trace.KindDriver, Verb: verb, Object: object}, func() trace.Outcome {
		return trace.Outcome{Err: do()}
	}).Err
}

// newCloudDriver returns a driver with such a controller. starts counts the starts of the controller.
func newCloudDriver(starts *int) cluster.Driver {
	disks := array.New(array.Config{DriverName: diskDriver})
	return cluster.Driver{
		Name: diskDriver,
		Controller: func(at cluster.DriverNode) (func(grpc.ServiceRegistrar), error) {
			*starts++
			controller := &cloudDisks{disks.Controller(), at.Process}
			return func(r grpc.ServiceRegistrar) {
				csispec.RegisterIdentityServer(r, disks.Identity())
				csispec.RegisterControllerServer(r, controller)
			}, nil
		},
		Node: func(at cluster.DriverNode) (func(grpc.ServiceRegistrar), error) {
			server := disks.Node(at.Name, at.Disk.(*nodefs.Memory))
			return func(r grpc.ServiceRegistrar) { csispec.RegisterNodeServer(r, server) }, nil
		},
		Classes: []runtime.Object{&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
			Name: "disk", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		}}},
	}
}

// A requestStrategy does something at the first request of a kind to the cloud.
type requestStrategy struct {
	verb  string
	moves []sim.Move
}

// Decide follows the default order, except for the moves.
func (s *requestStrategy) Decide(d *sim.Decision) sim.Move {
	if action, calls := d.Task(0).Pending(); s.verb != "" && (!calls || action.Verb != s.verb) || len(s.moves) == 0 {
		return sim.Move{}
	}
	move := s.moves[0]
	s.verb, s.moves = "", s.moves[1:]
	return move
}

// TestRequestsOfADriver runs a driver whose requests to its cloud are suspension points: they can fail, and the
// driver can crash at each of them.
func TestRequestsOfADriver(t *testing.T) {
	t.Parallel()
	crash := []sim.Move{{Event: "stop driver(" + diskDriver + ")"}, {Event: "start driver(" + diskDriver + ")"}}
	for _, tt := range []struct {
		name     string
		strategy requestStrategy
		want     []string // requests, and the calls whose parts they are
		starts   int
	}{
		{name: "undisturbed", starts: 1, want: []string{"ReserveSlot", "AttachDisk", "ControllerPublishVolume"}},
		{
			name: "failed request", strategy: requestStrategy{"AttachDisk", []sim.Move{{Fault: sim.Fault{Kind: sim.FaultDriver, Code: codes.Internal}}}},
			starts: 1, want: []string{
				"ReserveSlot", "AttachDisk Internal", "ControllerPublishVolume Internal", "ReserveSlot", "AttachDisk", "ControllerPublishVolume",
			},
		},
		{
			name: "crash before the first request", strategy: requestStrategy{"ReserveSlot", crash}, starts: 2,
			want: []string{"ControllerPublishVolume Unavailable", "ReserveSlot", "AttachDisk", "ControllerPublishVolume"},
		},
		{
			name: "crash between two requests", strategy: requestStrategy{"AttachDisk", crash}, starts: 2,
			want: []string{"ReserveSlot", "ControllerPublishVolume Unavailable", "ReserveSlot", "AttachDisk", "ControllerPublishVolume"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, starts := t.Context(), 0
			c := start(t, cluster.Config{
				Nodes: 1, WithoutDriver: true, PreRegistered: true, Drivers: []cluster.Driver{newCloudDriver(&starts)},
				Stepped: &sim.SteppedConfig{Strategy: &tt.strategy, StepsMax: 5000},
			})
			add(t, c, cluster.NewClaim("data", "1Gi"), cluster.NewPod("web", "data"))
			testcheck.NoError(t, c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
			var got []string
			for _, r := range c.Trace().Records() {
				if r.Kind != trace.KindDriver || !slices.Contains([]string{"ReserveSlot", "AttachDisk", "ControllerPublishVolume"}, r.Verb) {
					continue
				}
				word := r.Verb
				if r.Err != nil {
					word += " " + status.Code(r.Err).String()
				}
				got = append(got, word)
				if process := trace.Process(r.Task); (process == "driver("+diskDriver+")") == (r.Verb == "ControllerPublishVolume") {
					t.Errorf("%s by %s", word, process)
				}
			}
			testcheck.Equal(t, "calls", tt.want, got)
			testcheck.Equal(t, "starts", tt.starts, starts)
		})
	}
}

// TestLiveRequestsOfADriver runs the same driver in a live world.
func TestLiveRequestsOfADriver(t *testing.T) {
	t.Parallel()
	starts := 0
	c := start(t, cluster.Config{Nodes: 1, Devices: cluster.Array, WithoutDriver: true, Drivers: []cluster.Driver{newCloudDriver(&starts)}})
	add(t, c, cluster.NewClaim("data", "1Gi"), cluster.NewPod("web", "data"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	testcheck.NoError(t, c.WaitForPod(ctx, "default", "web", corev1.PodRunning), c.StopDriver("", diskDriver), c.StartDriver("", diskDriver))
	testcheck.Equal(t, "starts", 2, starts)
	requests := 0
	for _, r := range c.Trace().Records() {
		if r.Verb == "AttachDisk" && r.Err == nil && trace.Process(r.Task) == "driver("+diskDriver+")" {
			requests++
		}
	}
	testcheck.Equal(t, "requests to attach a disk", 1, requests)
}
