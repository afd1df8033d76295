package volumehealth

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// This file makes the health calls of CSI 1.13 without naming its Go types, which a program with an earlier
// version lacks. There the calls fail as Unimplemented; no driver has the capabilities.

// The capabilities of a driver with the health calls.
const (
	ListHealth csi.ControllerServiceCapability_RPC_Type = 17 // LIST_VOLUME_HEALTH
	GetHealth  csi.ControllerServiceCapability_RPC_Type = 16 // GET_VOLUME_HEALTH
	NodeHealth csi.NodeServiceCapability_RPC_Type       = 7  // GET_VOLUME_HEALTH
)

// The full names of the health calls.
const (
	ListMethod = "/csi.v1.Controller/ControllerListVolumeHealth"
	GetMethod  = "/csi.v1.Controller/ControllerGetVolumeHealth"
	NodeMethod = "/csi.v1.Node/NodeGetVolumeHealth"
)

// List returns the conditions of the volumes whose health is adverse, by ID.
func List(ctx context.Context, conn grpc.ClientConnInterface) (map[string]Condition, error) {
	conditions := map[string]Condition{}
	for token := ""; ; {
		response, err := call(ctx, conn, ListMethod, "ControllerListVolumeHealth", map[protoreflect.Name]string{"starting_token": token})
		if err != nil {
			return nil, err
		}
		entries := listOf(response, "entries")
		for i := range entries.Len() {
			health := entries.Get(i).Message()
			conditions[textOf(health, "volume_id")] = conditionIn(health)
		}
		if token = textOf(response, "next_token"); token == "" {
			return conditions, nil
		}
	}
}

// Get returns the condition of a volume, as the controller service knows it.
func Get(ctx context.Context, conn grpc.ClientConnInterface, id string) (Condition, error) {
	return healthIn(call(ctx, conn, GetMethod, "ControllerGetVolumeHealth", map[protoreflect.Name]string{"volume_id": id}))
}

// OnNode returns the condition of a volume on a node. staged is "" for a volume that is not staged.
func OnNode(ctx context.Context, conn grpc.ClientConnInterface, id, published, staged string) (Condition, error) {
	return healthIn(call(ctx, conn, NodeMethod, "NodeGetVolumeHealth", map[protoreflect.Name]string{
		"volume_id": id, "volume_publish_path": published, "staging_target_path": staged,
	}))
}

// call makes a call whose request has texts, by field.
func call(
	ctx context.Context, conn grpc.ClientConnInterface, method, name string, texts map[protoreflect.Name]string,
) (protoreflect.Message, error) {
	request, response := newMessage(name+"Request"), newMessage(name+"Response")
	if request == nil || response == nil {
		return nil, status.Errorf(codes.Unimplemented, "%s: the program has an earlier version of CSI", name)
	}
	for field, text := range texts {
		if text != "" {
			request.Set(request.Descriptor().Fields().ByName(field), protoreflect.ValueOfString(text))
		}
	}
	if err := conn.Invoke(ctx, method, request.Interface(), response.Interface()); err != nil {
		return nil, err
	}
	return response, nil
}

// newMessage returns an empty message of CSI; nil if the program's version does not have it.
func newMessage(name string) protoreflect.Message {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName("csi.v1." + name))
	if err != nil {
		return nil
	}
	return kind.New()
}

func healthIn(response protoreflect.Message, err error) (Condition, error) {
	if err != nil {
		return Condition{}, err
	}
	return conditionIn(response.Get(fieldOf(response, "volume_health")).Message()), nil
}

// Of returns the condition of a VolumeHealth.
func Of(health proto.Message) Condition { return conditionIn(health.ProtoReflect()) }

func fieldOf(m protoreflect.Message, name protoreflect.Name) protoreflect.FieldDescriptor {
	return m.Descriptor().Fields().ByName(name)
}

func textOf(m protoreflect.Message, name protoreflect.Name) string {
	return m.Get(fieldOf(m, name)).String()
}

func listOf(m protoreflect.Message, name protoreflect.Name) protoreflect.List {
	return m.Get(fieldOf(m, name)).List()
}
