package csi_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// onBothConnections runs a test with a direct connection to a driver, and with a server.
func onBothConnections(
	t *testing.T, make func() csi.RegisterFunc, test func(t *testing.T, conn grpc.ClientConnInterface),
) {
	t.Helper()
	t.Parallel()
	t.Run("direct", func(t *testing.T) {
		t.Parallel()
		test(t, csi.Direct(make()))
	})
	t.Run("served", func(t *testing.T) {
		t.Parallel()
		server, err := csi.Serve(make())
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := server.Stop(); err != nil {
				t.Error(err)
			}
		}()
		test(t, server.Conn())
	})
}

// failing fails NodeUnpublishVolume with the error that the volume's name selects.
type failing struct {
	csispec.UnimplementedNodeServer
	answer *csispec.NodeGetInfoResponse
}

var driverErrors = map[string]error{
	"plain":           errPipe,
	"status":          coded(codes.ResourceExhausted),
	"wrapped status":  fmt.Errorf("unpublish: %w", coded(codes.Aborted)),
	"canceled":        context.Canceled,
	"deadline":        fmt.Errorf("mount: %w", context.DeadlineExceeded),
	"joined":          errors.Join(errPipe, coded(codes.NotFound)),
	"unknown status":  coded(codes.Unknown),
	"code beyond all": coded(codes.Code(99)),
}

func (f *failing) NodeUnpublishVolume(
	_ context.Context, r *csispec.NodeUnpublishVolumeRequest,
) (*csispec.NodeUnpublishVolumeResponse, error) {
	return nil, driverErrors[r.GetVolumeId()]
}

func (f *failing) NodeGetInfo(context.Context, *csispec.NodeGetInfoRequest) (*csispec.NodeGetInfoResponse, error) {
	return f.answer, nil
}

func (f *failing) NodeStageVolume(
	_ context.Context, r *csispec.NodeStageVolumeRequest,
) (*csispec.NodeStageVolumeResponse, error) {
	r.PublishContext["changed"] = "by the driver"
	return nil, nil // an empty answer
}

func TestErrorsAreTheSameOnBothConnections(t *testing.T) {
	want := map[string]string{
		"plain":           "Unknown: broken pipe",
		"status":          "ResourceExhausted: scripted",
		"wrapped status":  "Aborted: unpublish: rpc error: code = Aborted desc = scripted",
		"canceled":        "Canceled: context canceled",
		"deadline":        "DeadlineExceeded: mount: context deadline exceeded",
		"joined":          "NotFound: broken pipe\nrpc error: code = NotFound desc = scripted",
		"unknown status":  "Unknown: scripted",
		"code beyond all": "Code(99): scripted",
		"not implemented": "Unimplemented",
		"other service":   "Unimplemented",
		"no such method":  "Unimplemented",
		"context done":    "Canceled",
	}
	register := func() csi.RegisterFunc {
		return func(r grpc.ServiceRegistrar) { csispec.RegisterNodeServer(r, &failing{}) }
	}
	onBothConnections(t, register, func(t *testing.T, conn grpc.ClientConnInterface) {
		node := csispec.NewNodeClient(conn)
		got := map[string]string{}
		for volume := range driverErrors {
			_, err := node.NodeUnpublishVolume(t.Context(), &csispec.NodeUnpublishVolumeRequest{VolumeId: volume})
			got[volume] = fmt.Sprintf("%v: %s", status.Code(err), status.Convert(err).Message())
		}
		_, err := node.NodeExpandVolume(t.Context(), &csispec.NodeExpandVolumeRequest{})
		got["not implemented"] = status.Code(err).String()
		_, err = csispec.NewControllerClient(conn).CreateVolume(t.Context(), &csispec.CreateVolumeRequest{})
		got["other service"] = status.Code(err).String()
		err = conn.Invoke(t.Context(), "/csi.v1.Node/NodeDance", &csispec.NodeGetInfoRequest{},
			&csispec.NodeGetInfoResponse{})
		got["no such method"] = status.Code(err).String()
		done, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = node.NodeGetInfo(done, &csispec.NodeGetInfoRequest{})
		got["context done"] = status.Code(err).String()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("errors (-want +got):\n%s", diff)
		}
	})
}

// TestMessagesAreCopied checks that neither side sees later changes of the other to a message.
func TestMessagesAreCopied(t *testing.T) {
	kept := func() *csispec.NodeGetInfoResponse {
		return &csispec.NodeGetInfoResponse{
			NodeId:             "id",
			AccessibleTopology: &csispec.Topology{Segments: map[string]string{"zone": "z"}},
		}
	}
	register := func() csi.RegisterFunc {
		return func(r grpc.ServiceRegistrar) { csispec.RegisterNodeServer(r, &failing{answer: kept()}) }
	}
	onBothConnections(t, register, func(t *testing.T, conn grpc.ClientConnInterface) {
		node := csispec.NewNodeClient(conn)
		for range 2 {
			got, err := node.NodeGetInfo(t.Context(), &csispec.NodeGetInfoRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(kept(), got, protocmp.Transform()); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			got.AccessibleTopology.Segments["zone"] = "changed by the caller"
		}
		request := &csispec.NodeStageVolumeRequest{VolumeId: "v", PublishContext: map[string]string{"lun": "7"}}
		answer, err := node.NodeStageVolume(t.Context(), request)
		if err != nil || answer == nil || !proto.Equal(answer, &csispec.NodeStageVolumeResponse{}) {
			t.Errorf("empty answer: %v, %v", answer, err)
		}
		if diff := cmp.Diff(map[string]string{"lun": "7"}, request.GetPublishContext()); diff != "" {
			t.Errorf("the caller's request (-want +got):\n%s", diff)
		}
	})
}

// TestVolumeLifecycleOnBothConnections makes the same calls, which return the same answers.
func TestVolumeLifecycleOnBothConnections(t *testing.T) {
	capability := &csispec.VolumeCapability{
		AccessMode: &csispec.VolumeCapability_AccessMode{Mode: csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{}},
	}
	register := func() csi.RegisterFunc {
		box := array.New(array.Config{CapacityBytes: 1 << 30})
		disk := nodefs.NewMemory(root)
		return func(r grpc.ServiceRegistrar) {
			csispec.RegisterIdentityServer(r, box.Identity())
			csispec.RegisterControllerServer(r, box.Controller())
			csispec.RegisterNodeServer(r, box.Node(node1, disk))
		}
	}
	const id = "vol-0717031b935f131e"
	onBothConnections(t, register, func(t *testing.T, conn grpc.ClientConnInterface) {
		identity, controller, node := csispec.NewIdentityClient(conn), csispec.NewControllerClient(conn),
			csispec.NewNodeClient(conn)
		ctx := t.Context()
		create := func(name string, bytes int64) (proto.Message, error) {
			return controller.CreateVolume(ctx, &csispec.CreateVolumeRequest{
				Name: name, CapacityRange: &csispec.CapacityRange{RequiredBytes: bytes},
				VolumeCapabilities: []*csispec.VolumeCapability{capability},
			})
		}
		publish := func(node string) (proto.Message, error) {
			return controller.ControllerPublishVolume(ctx,
				&csispec.ControllerPublishVolumeRequest{VolumeId: id, NodeId: node, VolumeCapability: capability})
		}
		stage := func(disk string) (proto.Message, error) {
			return node.NodeStageVolume(ctx, &csispec.NodeStageVolumeRequest{
				VolumeId: id, StagingTargetPath: root + "/staged", VolumeCapability: capability,
				PublishContext: map[string]string{"disk": disk},
			})
		}
		created := &csispec.CreateVolumeResponse{Volume: &csispec.Volume{VolumeId: id, CapacityBytes: 1 << 20}}
		published := &csispec.ControllerPublishVolumeResponse{PublishContext: map[string]string{"disk": id}}
		for _, step := range []struct {
			name string
			do   func() (proto.Message, error)
			want proto.Message
			code codes.Code
		}{
			{"name", func() (proto.Message, error) {
				info, err := identity.GetPluginInfo(ctx, &csispec.GetPluginInfoRequest{})
				return &csispec.GetPluginInfoResponse{Name: info.GetName()}, err
			}, &csispec.GetPluginInfoResponse{Name: array.DriverName}, codes.OK},
			{"create without a name", func() (proto.Message, error) { return create("", 0) }, nil, codes.InvalidArgument},
			{"create too much", func() (proto.Message, error) { return create("big", 1<<40) }, nil, codes.OutOfRange},
			{"create", func() (proto.Message, error) { return create("pv", 1<<20) }, created, codes.OK},
			{"create again", func() (proto.Message, error) { return create("pv", 1<<20) }, created, codes.OK},
			{"create again, otherwise", func() (proto.Message, error) { return create("pv", 1<<21) }, nil, codes.AlreadyExists},
			{
				"create beyond the capacity", func() (proto.Message, error) { return create("two", 1<<30) }, nil,
				codes.ResourceExhausted,
			},
			{"stage what is not attached", func() (proto.Message, error) { return stage(id) }, nil, codes.FailedPrecondition},
			{"attach to nowhere", func() (proto.Message, error) { return publish("node-9") }, nil, codes.NotFound},
			{"attach", func() (proto.Message, error) { return publish(node1) }, published, codes.OK},
			{"stage with the wrong context", func() (proto.Message, error) { return stage("sdb") }, nil, codes.InvalidArgument},
			{"stage", func() (proto.Message, error) { return stage(id) }, &csispec.NodeStageVolumeResponse{}, codes.OK},
		} {
			got, err := step.do()
			if status.Code(err) != step.code {
				t.Errorf("%s: %v, want %v", step.name, err, step.code)
			}
			if err != nil {
				continue
			}
			if diff := cmp.Diff(step.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.name, diff)
			}
		}
	})
}

// sharing is a node service that writes into its requests, although it declares that it does not.
type sharing struct {
	csispec.UnimplementedNodeServer
	answer *csispec.NodeGetInfoResponse
}

func (sharing) SharesMessages() {}

func (s sharing) NodeGetInfo(context.Context, *csispec.NodeGetInfoRequest) (*csispec.NodeGetInfoResponse, error) {
	return s.answer, nil
}

func (sharing) NodeStageVolume(
	_ context.Context, request *csispec.NodeStageVolumeRequest,
) (*csispec.NodeStageVolumeResponse, error) {
	request.PublishContext["lun"] = "8"
	request.VolumeId = "w"
	return &csispec.NodeStageVolumeResponse{}, nil
}

// TestDirectSharesMessages checks that only the parts of messages are shared, and that replies are complete.
func TestDirectSharesMessages(t *testing.T) {
	t.Parallel()
	want := &csispec.NodeGetInfoResponse{
		NodeId: node1, MaxVolumesPerNode: 3, AccessibleTopology: &csispec.Topology{Segments: map[string]string{"zone": "a"}},
	}
	node := csispec.NewNodeClient(csi.Direct(func(r grpc.ServiceRegistrar) {
		csispec.RegisterNodeServer(r, sharing{answer: want})
	}))
	info, err := node.NodeGetInfo(t.Context(), &csispec.NodeGetInfoRequest{})
	if diff := cmp.Diff(want, info, protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("%v, answer (-want +got):\n%s", err, diff)
	}
	if info == want || info.GetAccessibleTopology() != want.GetAccessibleTopology() {
		t.Error("want another answer with the same parts")
	}
	request := &csispec.NodeStageVolumeRequest{VolumeId: "v", PublishContext: map[string]string{"lun": "7"}}
	if _, err := node.NodeStageVolume(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if request.GetVolumeId() != "v" || request.GetPublishContext()["lun"] != "8" {
		t.Errorf("request %v, want its own ID and the map of the service", request)
	}
}

func TestDirectHasNoStreams(t *testing.T) {
	t.Parallel()
	conn := csi.Direct(func(grpc.ServiceRegistrar) {})
	if _, err := conn.NewStream(t.Context(), &grpc.StreamDesc{},
		"/csi.v1.Node/Watch"); status.Code(err) != codes.Unimplemented {
		t.Errorf("error %v, want Unimplemented", err)
	}
	err := csi.Direct(func(r grpc.ServiceRegistrar) { csispec.RegisterNodeServer(r, &failing{}) }).
		Invoke(t.Context(), csispec.Node_NodeGetInfo_FullMethodName, "not a message", &csispec.NodeGetInfoResponse{})
	if err == nil {
		t.Error("what is not a message was sent")
	}
}

// TestStopLeavesNoGoroutine runs in a bubble, which does not end while one of its goroutines runs.
func TestStopLeavesNoGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		entered, leave := make(chan struct{}), make(chan struct{})
		server, err := csi.Serve(func(r grpc.ServiceRegistrar) {
			csispec.RegisterNodeServer(r, slow{entered: entered, leave: leave})
		})
		if err != nil {
			t.Fatal(err)
		}
		node := csispec.NewNodeClient(server.Conn())
		called := make(chan error, 1)
		go func() {
			_, err := node.NodeGetInfo(context.Background(), &csispec.NodeGetInfoRequest{})
			called <- err
		}()
		<-entered
		stopped := make(chan error, 1)
		go func() { stopped <- server.Stop() }()
		synctest.Wait()
		select {
		case err := <-stopped:
			t.Fatalf("stopped with a call under way: %v", err)
		default:
		}
		close(leave)
		if err := <-called; err != nil {
			t.Errorf("the call under way: %v", err)
		}
		if err := <-stopped; err != nil {
			t.Errorf("stop: %v", err)
		}
		if _, err := node.NodeGetInfo(context.Background(), &csispec.NodeGetInfoRequest{}); err == nil {
			t.Error("a stopped driver answers")
		}
	})
}

// slow answers NodeGetInfo when it is released.
type slow struct {
	csispec.UnimplementedNodeServer
	entered, leave chan struct{}
}

func (s slow) NodeGetInfo(context.Context, *csispec.NodeGetInfoRequest) (*csispec.NodeGetInfoResponse, error) {
	close(s.entered)
	<-s.leave
	return &csispec.NodeGetInfoResponse{}, nil
}

func TestStopUnusedServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, err := csi.Serve(func(grpc.ServiceRegistrar) {})
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestSuspendRecordsEachCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reply := &csispec.ControllerPublishVolumeResponse{PublishContext: map[string]string{"lun": "7", "disk": "sdb"}}
	conn := csi.Suspend(w.process, "csi.example.com", &faulty{
		ClientConnInterface: csi.Direct(func(r grpc.ServiceRegistrar) {
			csispec.RegisterControllerServer(r, &answering{publish: reply})
			csispec.RegisterNodeServer(r, &stub{})
		}),
		faults: []fault{{method: "NodeUnpublishVolume", err: coded(codes.Internal)}},
	})
	controller, node := csispec.NewControllerClient(conn), csispec.NewNodeClient(conn)
	failed := w.do(func(ctx context.Context) error {
		_, infoErr := node.NodeGetInfo(ctx, &csispec.NodeGetInfoRequest{})
		_, createErr := controller.CreateVolume(ctx, &csispec.CreateVolumeRequest{Name: "pvc-1"})
		got, publishErr := controller.ControllerPublishVolume(ctx,
			&csispec.ControllerPublishVolumeRequest{VolumeId: "v", NodeId: "n"})
		testcheck.Equal(w, "reply", reply, got, protocmp.Transform())
		_, stageErr := node.NodeStageVolume(ctx, &csispec.NodeStageVolumeRequest{VolumeId: "v", StagingTargetPath: "/s"})
		_, mountErr := node.NodePublishVolume(ctx, &csispec.NodePublishVolumeRequest{
			VolumeId:          "v",
			StagingTargetPath: "/s", TargetPath: "/t",
		})
		w.NoError(errors.Join(infoErr, createErr, publishErr, stageErr, mountErr))
		_, err := node.NodeUnpublishVolume(ctx, &csispec.NodeUnpublishVolumeRequest{VolumeId: "v", TargetPath: "/t"})
		return err
	})
	testcheck.Equal(w, "code", codes.Internal, status.Code(failed))
	type line struct {
		Actor, Verb, Object, Detail string
		Failed                      bool
	}
	var got []line
	for _, r := range w.Host.Log().Records() {
		if r.Kind == trace.KindDriver {
			got = append(got, line{r.Task, r.Verb, r.Object, r.Detail, r.Failed()})
		}
	}
	const taskName = "process/operation"
	testcheck.Equal(w, "records", []line{
		{taskName, "NodeGetInfo", "csi.example.com", "", false},
		{taskName, "CreateVolume", "csi.example.com/pvc-1", "", false},
		{taskName, "ControllerPublishVolume", "csi.example.com/v", "node=n disk=sdb lun=7", false},
		{taskName, "NodeStageVolume", "csi.example.com/v", "path=/s", false},
		{taskName, "NodePublishVolume", "csi.example.com/v", "path=/t", false},
		{taskName, "NodeUnpublishVolume", "csi.example.com/v", "path=/t", true},
	}, got)
}

// answering is a controller that creates and attaches any volume.
type answering struct {
	csispec.UnimplementedControllerServer
	publish *csispec.ControllerPublishVolumeResponse
}

func (a *answering) CreateVolume(context.Context, *csispec.CreateVolumeRequest) (*csispec.CreateVolumeResponse, error) {
	return &csispec.CreateVolumeResponse{}, nil
}

func (a *answering) ControllerPublishVolume(
	context.Context, *csispec.ControllerPublishVolumeRequest,
) (*csispec.ControllerPublishVolumeResponse, error) {
	return a.publish, nil
}

// TestSuspendYieldsToOtherTasks has a call of one task wait while another task of the process runs.
func TestSuspendYieldsToOtherTasks(t *testing.T) {
	t.Parallel()
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	c := host.Process("process")
	node := csispec.NewNodeClient(csi.Suspend(c, "d",
		csi.Direct(func(r grpc.ServiceRegistrar) { csispec.RegisterNodeServer(r, &stub{}) })))
	var order []string
	c.Spawn("caller", func(ctx context.Context) {
		order = append(order, "before")
		_, err := node.NodeGetInfo(ctx, &csispec.NodeGetInfoRequest{})
		order = append(order, fmt.Sprint("after ", err))
	})
	c.Spawn("other", func(context.Context) { order = append(order, "other") })
	if err := host.Run(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"before", "other", "after <nil>"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
