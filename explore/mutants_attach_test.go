package explore_test

import (
	"context"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
)

// attachParts are the components that attach volumes, except for the controller, which is an extra one.
const attachParts = "components: pvcontroller, provisioner, attacher, kubelet\n"

// attachMutants break the attach/detach controller itself, or its operations: what it starts, when, and what it believes. Those
// of upstreamAttachFaults do as well: I16 (forced-without-a-look), I16b, I19, I20, I23b, L4, L7, and of nodeMutants I16, I19 to I21, L7. Two rules it cannot break by
// itself: I17, since a kubelet reads the attachment, and I22, since it detaches by deleting that.
var attachMutants = []mutant{
	{
		name: "the controller does not wait for a detach that failed, and the driver lets it", rule: "I15", history: "#71276",
		scenario: attachParts + once("ControllerUnpublishVolume", "driver Unavailable") + "rules: I15\n" + moves,
		between:  attachesToMany, extra: attachDetach(uncertainIsNowhere), config: faults, within: 4,
	},
	{
		name: "an attach that failed is tried again at once", rule: "I23", history: "#116886",
		scenario: attachParts + once("attachdetach", "refused") + moves,
		between:  none, extra: attachDetach(attachesAgain), config: faults, within: 4,
	},
	{
		name: "a detach is believed to be made that is not", rule: "L4", history: "#45191",
		scenario: attachParts + "rules: L4\n" + runs,
		between:  none, extra: attachDetach(detachesNowhere), config: holds, within: 1,
	},
	{
		name: "a node is not told that a volume is attached", rule: "L5", history: "#49053",
		scenario: nodeParts + "rules: L5\n" + staysThere, between: client("attachdetach", listsNothing), config: holds, within: 1,
	},
}

// attachesToMany is a driver that attaches a volume to any number of nodes.
func attachesToMany() cluster.Interceptors {
	return cluster.Interceptors{Driver: func(process string, conn grpc.ClientConnInterface) grpc.ClientConnInterface {
		if !isPart("attacher", process) {
			return conn
		}
		return brokenConn{conn, func(ctx context.Context, method string, args, reply any, do invoke) error {
			if r, is := args.(*csispec.ControllerPublishVolumeRequest); is {
				r = proto.CloneOf(r)
				r.VolumeCapability.AccessMode.Mode = csispec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
				args = r
			}
			return do(ctx, method, args, reply)
		}}
	}}
}

// impatient is a plugin that tries again at once what failed.
type impatient struct{ *csi.Plugin }

// Attach tries twice.
func (i impatient) Attach(ctx context.Context, spec *plugins.Spec, node types.NodeName) (string, error) {
	path, err := i.Plugin.Attach(ctx, spec, node)
	if err != nil {
		return i.Plugin.Attach(ctx, spec, node)
	}
	return path, nil
}

func attachesAgain(p cluster.ComponentContext, own *csi.Plugin) gets {
	return gets{client: p.Client, plugin: impatient{own}}
}

// idle is a plugin that reports a detach without detaching.
type idle struct{ *csi.Plugin }

// Detach does nothing.
func (idle) Detach(context.Context, string, types.NodeName) error { return nil }

func detachesNowhere(p cluster.ComponentContext, own *csi.Plugin) gets {
	return gets{client: p.Client, plugin: idle{own}}
}

// listsNothing skips writing the attached volumes and treats it as done.
func listsNothing(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if is, any := lists(r); is && any {
			return given(own.CoreV1().Nodes().Get(context.Background(), r.Name, metav1.GetOptions{}))
		}
		return serve()
	}
}
