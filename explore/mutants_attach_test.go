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
	"github.com/volsim/volsim/internal/known"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
)

// attachComponents are the components that attach volumes, except for the controller, which is an
// extra component.
const attachComponents = "components: pvcontroller, provisioner, attacher, kubelet\n"

// attachMutants are defects of the attach/detach controller or its operations. Further ones are in
// upstreamAttachFaults (I16 in forced-without-reading-the-node, I16b, I19, I20, I23b, L4, L7) and
// nodeMutants (I16, I19 to I21, L7). The controller alone cannot violate I17, because a kubelet
// reads the attachment, or I22, because it detaches by deleting the attachment.
var attachMutants = []mutant{
	{
		name: "the controller does not wait for a failed detach, and the driver allows it",
		rule: "I15", history: "#71276",
		scenario: attachComponents + once("ControllerUnpublishVolume", "driver Unavailable") + "rules: I15\n" + moves,
		between:  attachesToMany, extra: attachDetach(uncertainIsNowhere), config: faults, within: 4,
	},
	{
		name: "a failed attach is retried immediately", rule: "I23", history: "#116886",
		scenario: attachComponents + once("attachdetach", "refused") + moves,
		between:  none, extra: attachDetach(attachesAgain), config: faults, within: 4,
	},
	{
		name: "a detach counts as success without being made", rule: "L4", history: "#45191",
		scenario: attachComponents + "rules: L4\n" + runs,
		between:  none, extra: attachDetach(detachesNowhere), config: holds, within: 1,
	},
	{
		name: "a node's status does not list an attached volume", rule: "L5", history: "#49053",
		scenario: nodeComponents + "rules: L5\n" +
			staysThere, between: client("attachdetach", listsNothing), config: holds, within: 1,
	},
}

// attachesToMany is a driver that attaches a volume to any number of nodes.
func attachesToMany() cluster.Interceptors {
	return cluster.Interceptors{Driver: func(process string, conn grpc.ClientConnInterface) grpc.ClientConnInterface {
		if !belongsTo("attacher", process) {
			return conn
		}
		return known.Conn(conn, func(ctx context.Context, method string, args, reply any, do invoke) error {
			if r, is := args.(*csispec.ControllerPublishVolumeRequest); is {
				r = proto.CloneOf(r)
				r.VolumeCapability.AccessMode.Mode = csispec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
				args = r
			}
			return do(ctx, method, args, reply)
		})
	}}
}

// impatient is a plugin that retries a failed attach immediately.
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
