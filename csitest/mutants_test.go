package csitest

import (
	"context"
	"slices"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/nodefs"
)

const diskDriver = "disk.example.com"

// A defect answers calls of a driver in the wrong way. It belongs to one start of the services at a place.
type defect func(ctx context.Context, rpc string, request proto.Message, next nextFunc) (any, error)

// A breaker returns the defect of the services that start at a place. state is that of the whole driver, and
// outlives restarts.
type breaker func(at cluster.DriverNode, state *brokenState) defect

// A brokenState is what the driver of a world remembers of successful calls.
type brokenState struct {
	disks *array.Array
	done  map[string]bool
}

// again reports whether a call with this key has succeeded before.
func (s *brokenState) again(key string) bool { return s.done[key] }

// brokenArray returns the array as a driver of one's own, with a defect; nil: without.
func brokenArray(breaks breaker) func() cluster.Driver {
	return func() cluster.Driver {
		state := &brokenState{disks: array.New(array.Config{DriverName: diskDriver}), done: map[string]bool{}}
		d := cluster.Driver{
			Name: diskDriver,
			Controller: func(cluster.DriverNode) (func(grpc.ServiceRegistrar), error) {
				return func(r grpc.ServiceRegistrar) {
					csispec.RegisterIdentityServer(r, state.disks.Identity())
					csispec.RegisterControllerServer(r, state.disks.Controller())
				}, nil
			},
			Node: func(at cluster.DriverNode) (func(grpc.ServiceRegistrar), error) {
				server := state.disks.Node(at.Name, at.Disk.(*nodefs.Memory))
				return func(r grpc.ServiceRegistrar) {
					csispec.RegisterIdentityServer(r, state.disks.Identity())
					csispec.RegisterNodeServer(r, server)
				}, nil
			},
		}
		if breaks == nil {
			return d
		}
		return wrapped(d, func(at cluster.DriverNode, register registerFunc) registerFunc {
			wrong := breaks(at, state)
			return intercepted(register, func(ctx context.Context, rpc string, request proto.Message, next nextFunc) (any, error) {
				return wrong(ctx, rpc, request, next)
			})
		})
	}
}

// onRepeat returns a breaker whose driver answers the repetition of a successful call by itself.
func onRepeat(of string, answer func(at cluster.DriverNode, state *brokenState, request proto.Message, next nextFunc) (any, error)) breaker {
	return func(at cluster.DriverNode, state *brokenState) defect {
		return func(ctx context.Context, rpc string, request proto.Message, next nextFunc) (any, error) {
			if rpc != of {
				return next(ctx)
			}
			key := rpc + at.Name + request.(interface{ String() string }).String()
			if state.again(key) {
				return answer(at, state, request, next)
			}
			response, err := next(ctx)
			state.done[key] = state.done[key] || err == nil
			return response, err
		}
	}
}

// failsOnRepeat returns a breaker whose driver fails if a successful call is repeated.
func failsOnRepeat(rpc string, code codes.Code, message string) breaker {
	return onRepeat(rpc, func(cluster.DriverNode, *brokenState, proto.Message, nextFunc) (any, error) {
		return nil, status.Error(code, message)
	})
}

// always returns a breaker whose driver answers all calls of an RPC by itself.
func always(of string, answer func(ctx context.Context, at cluster.DriverNode, state *brokenState, request proto.Message, next nextFunc) (any, error)) breaker {
	return func(at cluster.DriverNode, state *brokenState) defect {
		return func(ctx context.Context, rpc string, request proto.Message, next nextFunc) (any, error) {
			if rpc != of {
				return next(ctx)
			}
			return answer(ctx, at, state, request, next)
		}
	}
}

// forgetsStaged breaks a driver that knows staged volumes only from its memory.
func forgetsStaged(at cluster.DriverNode, _ *brokenState) defect {
	staged := map[string]bool{}
	return func(ctx context.Context, rpc string, request proto.Message, next nextFunc) (any, error) {
		id := volumeOf(request)
		switch {
		case rpc == "NodePublishVolume" && !staged[id]:
			return nil, status.Error(codes.FailedPrecondition, "the volume is not staged")
		case rpc == "NodeStageVolume":
			staged[id] = true
		}
		return next(ctx)
	}
}

// shrinks breaks a driver whose ListVolumes reports half of the size after a repeated expansion.
func shrinks(_ cluster.DriverNode, state *brokenState) defect {
	return func(ctx context.Context, rpc string, request proto.Message, next nextFunc) (any, error) {
		response, err := next(ctx)
		switch rpc {
		case "ControllerExpandVolume":
			state.done["again"] = state.done["once"]
			state.done["once"] = true
		case "ListVolumes":
			for _, entry := range response.(*csispec.ListVolumesResponse).GetEntries() {
				if state.done["again"] {
					entry.Volume.CapacityBytes /= 2
				}
			}
		}
		return response, err
	}
}

// losesContext breaks a driver whose node does not get what its controller has answered first.
func losesContext(_ cluster.DriverNode, _ *brokenState, _ proto.Message, _ nextFunc) (any, error) {
	return &csispec.ControllerPublishVolumeResponse{}, nil
}

// A mutant is a driver with a defect, and the sentences about it.
type mutant struct {
	name    string
	breaks  breaker
	rpc     string // whose calls the trials disturb
	story   string // "": life
	want    string
	timeout time.Duration
}

var mutants = []mutant{
	{
		name: "CreateVolume makes a second volume", rpc: "CreateVolume",
		breaks: onRepeat("CreateVolume", func(_ cluster.DriverNode, state *brokenState, request proto.Message, _ nextFunc) (any, error) {
			other := proto.Clone(request).(*csispec.CreateVolumeRequest)
			other.Name += "-again"
			return state.disks.Controller().CreateVolume(context.Background(), other)
		}),
		want: "CreateVolume is not idempotent: the second call after a lost response makes a second volume",
	},
	{
		name: "CreateVolume refuses the identical request", rpc: "CreateVolume",
		breaks: failsOnRepeat("CreateVolume", codes.AlreadyExists, "the volume exists"),
		want:   "CreateVolume is not idempotent: the second call after a lost response fails with AlreadyExists: the volume exists",
	},
	{
		name: "CreateVolume leaves a volume", rpc: "none",
		breaks: always("CreateVolume", func(
			ctx context.Context, _ cluster.DriverNode, state *brokenState, request proto.Message, next nextFunc,
		) (any, error) {
			other := proto.Clone(request).(*csispec.CreateVolumeRequest)
			other.Name += "-draft"
			testcheck.Must(state.disks.Controller().CreateVolume(ctx, other))
			return next(ctx)
		}),
		want: "CreateVolume has made a volume, and has not answered its ID",
	},
	{
		name: "DeleteVolume finds nothing", rpc: "DeleteVolume",
		breaks: failsOnRepeat("DeleteVolume", codes.NotFound, "no such volume"),
		want:   "DeleteVolume is not idempotent: the second call after a lost response fails with NotFound: no such volume",
	},
	{
		name: "DeleteVolume does nothing", rpc: "DeleteVolume",
		breaks: always("DeleteVolume", func(context.Context, cluster.DriverNode, *brokenState, proto.Message, nextFunc) (any, error) {
			return &csispec.DeleteVolumeResponse{}, nil
		}),
		want: "DeleteVolume succeeds, but the volume still exists",
	},
	{
		name: "ControllerPublishVolume refuses an attached volume", rpc: "ControllerPublishVolume",
		breaks: failsOnRepeat("ControllerPublishVolume", codes.FailedPrecondition, "the volume is attached"),
		want:   "ControllerPublishVolume is not idempotent: the second call after a lost response fails with FailedPrecondition: the volume is attached",
	},
	{
		name: "ControllerPublishVolume loses the publish context", rpc: "ControllerPublishVolume",
		breaks: onRepeat("ControllerPublishVolume", losesContext),
		want:   `ControllerPublishVolume is not idempotent: the second call after a lost response is answered without "disk" in publish_context`,
	},
	{
		name: "ControllerUnpublishVolume fails for a detached volume", rpc: "ControllerUnpublishVolume",
		breaks: failsOnRepeat("ControllerUnpublishVolume", codes.Internal, "the volume is not attached"),
		want:   "ControllerUnpublishVolume is not idempotent: the second call after a lost response fails with Internal: the volume is not attached",
	},
	{
		name: "ControllerUnpublishVolume fails once the volume is deleted", rpc: "ControllerUnpublishVolume",
		breaks: always("ControllerUnpublishVolume", func(
			ctx context.Context, _ cluster.DriverNode, state *brokenState, request proto.Message, next nextFunc,
		) (any, error) {
			if _, ok := state.disks.Volume(volumeOf(request)); !ok {
				return nil, status.Error(codes.NotFound, "no such volume")
			}
			return next(ctx)
		}),
		want: "ControllerUnpublishVolume fails with NotFound: no such volume for a volume that has been deleted meanwhile",
	},
	{
		name: "NodeStageVolume refuses a staged volume", rpc: "NodeStageVolume",
		breaks: failsOnRepeat("NodeStageVolume", codes.Internal, "the path is a mount point"),
		want:   "NodeStageVolume is not idempotent: the second call after a lost response fails with Internal: the path is a mount point",
	},
	{
		name: "NodeStageVolume formats again", rpc: "none", story: "move",
		breaks: always("NodeStageVolume", func(
			ctx context.Context, at cluster.DriverNode, _ *brokenState, request proto.Message, next nextFunc,
		) (any, error) {
			response, err := next(ctx)
			path := request.(*csispec.NodeStageVolumeRequest).GetStagingTargetPath()
			for _, name := range testcheck.Must(at.Disk.ReadDir(path)) {
				testcheck.Must(0, at.Disk.RemoveAll(path+"/"+name))
			}
			return response, err
		}),
		want: "When a pod on another node gets the volume: data is lost: pod next does not find the file that pod web has written",
	},
	{
		name: "NodeUnstageVolume finds nothing", rpc: "NodeUnstageVolume",
		breaks: failsOnRepeat("NodeUnstageVolume", codes.NotFound, "the volume is not staged"),
		want:   "NodeUnstageVolume is not idempotent: the second call after a lost response fails with NotFound: the volume is not staged",
	},
	{
		name: "NodePublishVolume mounts twice", rpc: "NodePublishVolume",
		breaks: onRepeat("NodePublishVolume", func(at cluster.DriverNode, _ *brokenState, request proto.Message, _ nextFunc) (any, error) {
			r := request.(*csispec.NodePublishVolumeRequest)
			return &csispec.NodePublishVolumeResponse{}, at.Disk.BindMount(r.GetStagingTargetPath(), r.GetTargetPath(), false)
		}),
		want: "NodePublishVolume is not idempotent: after the second call after a lost response there are 2 mounts at the target path",
	},
	{
		name: "NodePublishVolume refuses a published volume", rpc: "NodePublishVolume",
		breaks: failsOnRepeat("NodePublishVolume", codes.Internal, "the path is a mount point"),
		want:   "NodePublishVolume is not idempotent: the second call after a lost response fails with Internal: the path is a mount point",
	},
	{
		name: "NodeUnpublishVolume leaves the path", rpc: "NodeUnpublishVolume",
		breaks: always("NodeUnpublishVolume", func(
			ctx context.Context, at cluster.DriverNode, _ *brokenState, request proto.Message, next nextFunc,
		) (any, error) {
			response, err := next(ctx)
			testcheck.Must(0, at.Disk.MkdirAll(request.(*csispec.NodeUnpublishVolumeRequest).GetTargetPath()))
			return response, err
		}),
		want: "NodeUnpublishVolume leaves the target path",
	},
	{
		name: "NodeUnpublishVolume finds nothing", rpc: "NodeUnpublishVolume",
		breaks: failsOnRepeat("NodeUnpublishVolume", codes.NotFound, "nothing is mounted"),
		want:   "NodeUnpublishVolume is not idempotent: the second call after a lost response fails with NotFound: nothing is mounted",
	},
	{
		name: "ControllerExpandVolume refuses the size", rpc: "ControllerExpandVolume", story: "growth",
		breaks: failsOnRepeat("ControllerExpandVolume", codes.OutOfRange, "the volume has this size"),
		want:   "ControllerExpandVolume is not idempotent: the second call after a lost response fails with OutOfRange: the volume has this size",
	},
	{
		name: "ControllerExpandVolume shrinks", rpc: "ControllerExpandVolume", story: "growth", breaks: shrinks,
		want: "ControllerExpandVolume shrinks the volume: after the second call after a lost response it has 67108864 bytes, and had 134217728",
	},
	{
		name: "NodeExpandVolume refuses the size", rpc: "NodeExpandVolume", story: "growth",
		breaks: failsOnRepeat("NodeExpandVolume", codes.Internal, "nothing to do"),
		want:   "NodeExpandVolume is not idempotent: the second call after a lost response fails with Internal: nothing to do",
	},
	{
		name: "CreateSnapshot makes a second snapshot", rpc: "CreateSnapshot", story: "snapshot",
		breaks: onRepeat("CreateSnapshot", func(_ cluster.DriverNode, state *brokenState, request proto.Message, _ nextFunc) (any, error) {
			other := proto.Clone(request).(*csispec.CreateSnapshotRequest)
			other.Name += "-again"
			return state.disks.Controller().CreateSnapshot(context.Background(), other)
		}),
		want: "CreateSnapshot is not idempotent: the second call after a lost response makes a second snapshot",
	},
	{
		name: "DeleteSnapshot finds nothing", rpc: "DeleteSnapshot", story: "snapshot",
		breaks: failsOnRepeat("DeleteSnapshot", codes.NotFound, "no such snapshot"),
		want:   "DeleteSnapshot is not idempotent: the second call after a lost response fails with NotFound: no such snapshot",
	},
	{
		name: "the driver forgets what is staged", rpc: "none", story: "driver restart", breaks: forgetsStaged,
		want: "NodePublishVolume fails after a restart of the driver, with FailedPrecondition: the volume is not staged",
	},
	{
		name: "NodeStageVolume hangs", rpc: "none", timeout: 100 * time.Millisecond,
		breaks: always("NodeStageVolume", func(ctx context.Context, _ cluster.DriverNode, _ *brokenState, _ proto.Message, _ nextFunc) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}),
		want: "NodeStageVolume does not answer within 100ms: it returned when its context had ended",
	},
	{
		name: "NodeGetInfo does not know its node", rpc: "none",
		breaks: always("NodeGetInfo", func(context.Context, cluster.DriverNode, *brokenState, proto.Message, nextFunc) (any, error) {
			return &csispec.NodeGetInfoResponse{NodeId: "node"}, nil
		}),
		want: `NodeGetInfo answers the same node_id "node" on node-1 and node-2`,
	},
	{
		name: "ControllerPublishVolume fails", rpc: "none",
		breaks: always("ControllerPublishVolume", func(context.Context, cluster.DriverNode, *brokenState, proto.Message, nextFunc) (any, error) {
			return nil, status.Error(codes.InvalidArgument, "no such node")
		}),
		want: "ControllerPublishVolume fails, with InvalidArgument: no such node",
	},
}

// sentences returns the findings of a check.
func sentences(c *checker) []string {
	var all []string
	for _, f := range c.sorted() {
		all = append(all, f.text)
	}
	return all
}

// TestDefectsAreFound checks drivers each of which has one defect: there is one sentence about it.
func TestDefectsAreFound(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			c := newChecker(t.Context(), Target{New: brokenArray(m.breaks), Timeout: m.timeout, Schedules: -1})
			stories := []string{"life", m.story}
			c.check(func(tr trial) bool {
				return slices.Contains(stories, tr.story.name) && (tr.call.n == 0 || tr.call.rpc == m.rpc)
			})
			testcheck.NoError(t, c.err)
			testcheck.Equal(t, "sentences", []string{m.want}, sentences(c))
		})
	}
}
