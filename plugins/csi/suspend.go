package csi

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/volsim/volsim/internal/volumehealth"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Suspend returns a connection each of whose calls leaves the process behind caller and is recorded
// as a driver call. The verb is the method's name, the object is driver/volume.
func Suspend(caller sim.Caller, driver string, conn grpc.ClientConnInterface) grpc.ClientConnInterface {
	return suspended{
		caller: caller, driver: driver, ClientConnInterface: conn,
		published: &publishedVolumes{requests: map[string]*csispec.NodePublishVolumeRequest{}},
	}
}

type suspended struct {
	caller sim.Caller
	driver string
	grpc.ClientConnInterface
	published *publishedVolumes
}

// publishedVolumes are the last successful publish requests, by path. Repeating one of them changes
// nothing.
type publishedVolumes struct {
	mu       sync.Mutex
	requests map[string]*csispec.NodePublishVolumeRequest // guarded by mu
}

// observe updates the requests after a call. It reports whether the call repeated a successful one.
func (p *publishedVolumes) observe(request any, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r := request.(type) {
	case *csispec.NodeUnpublishVolumeRequest:
		delete(p.requests, r.GetTargetPath())
	case *csispec.NodePublishVolumeRequest:
		before, again := p.requests[r.GetTargetPath()]
		if err != nil {
			delete(p.requests, r.GetTargetPath())
			return false
		}
		p.requests[r.GetTargetPath()] = r
		return again && proto.Equal(before, r)
	}
	return false
}

// Invoke makes the call as one effect.
func (s suspended) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	action := trace.Action{Kind: trace.KindDriver, Verb: path.Base(method), Object: s.driver}
	if name := requestedVolume(args); name != "" {
		action.Object += "/" + name
	}
	out := s.caller.Call(action, func() trace.Outcome {
		err := s.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
		return trace.Outcome{
			Err: err, Detail: requestDetails(args, reply),
			Read: isQuery(method) || s.published.observe(args, err),
		}
	})
	return out.Err
}

// isQuery reports whether a call changes nothing that anything waits for.
func isQuery(method string) bool {
	switch method {
	case csispec.Controller_GetCapacity_FullMethodName, csispec.Controller_ListSnapshots_FullMethodName,
		csispec.GroupController_GetVolumeGroupSnapshot_FullMethodName, csispec.Controller_ControllerGetCapabilities_FullMethodName,
		csispec.Controller_ListVolumes_FullMethodName, csispec.Controller_ControllerGetVolume_FullMethodName,
		volumehealth.ListMethod, volumehealth.GetMethod,
		csispec.Node_NodeGetInfo_FullMethodName, csispec.Node_NodeGetCapabilities_FullMethodName,
		csispec.Node_NodeGetVolumeStats_FullMethodName, volumehealth.NodeMethod,
		registration.Registration_GetInfo_FullMethodName, registration.Registration_NotifyRegistrationStatus_FullMethodName:
		return true
	default:
		return false
	}
}

// requestedVolume returns the ID of the volume or snapshot that a request is about, or the name of the
// one to create.
func requestedVolume(request any) string {
	switch r := request.(type) {
	case interface{ GetVolumeId() string }:
		return r.GetVolumeId()
	case interface{ GetName() string }:
		return r.GetName()
	case interface{ GetSnapshotId() string }:
		return r.GetSnapshotId()
	case interface{ GetGroupSnapshotId() string }:
		return r.GetGroupSnapshotId()
	default:
		return ""
	}
}

// An expandRequest is a request to expand a volume.
type expandRequest interface {
	GetVolumeId() string
	GetCapacityRange() *csispec.CapacityRange
}

// requestDetails returns what else is recorded of a call: the source, the node, the size, the path, the device.
func requestDetails(request, reply any) string {
	var words []string
	switch r := request.(type) {
	case interface{ GetSourceVolumeId() string }:
		if id := r.GetSourceVolumeId(); id != "" {
			words = append(words, "volume="+id)
		}
	case interface{ GetSourceVolumeIds() []string }:
		words = append(words, "volumes="+strings.Join(r.GetSourceVolumeIds(), ","))
	case interface {
		GetVolumeContentSource() *csispec.VolumeContentSource
	}:
		source := r.GetVolumeContentSource()
		if id := source.GetSnapshot().GetSnapshotId() + source.GetVolume().GetVolumeId(); id != "" {
			words = append(words, "from="+id)
		}
	}
	if r, ok := request.(interface{ GetNodeId() string }); ok {
		words = append(words, "node="+r.GetNodeId())
	}
	if r, ok := request.(expandRequest); ok {
		words = append(words, fmt.Sprintf("bytes=%d", r.GetCapacityRange().GetRequiredBytes()))
	}
	switch r := request.(type) {
	case interface{ GetVolumePath() string }:
		words = append(words, "path="+r.GetVolumePath())
	case interface{ GetTargetPath() string }:
		words = append(words, "path="+r.GetTargetPath())
	case interface{ GetStagingTargetPath() string }:
		words = append(words, "path="+r.GetStagingTargetPath())
	}
	if r, ok := reply.(interface{ GetPublishContext() map[string]string }); ok {
		for _, key := range slices.Sorted(maps.Keys(r.GetPublishContext())) {
			words = append(words, key+"="+r.GetPublishContext()[key])
		}
	}
	return strings.Join(words, " ")
}
