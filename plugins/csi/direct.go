package csi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A RegisterFunc adds a driver's services to a server. Each driver has one for its controller and
// one for each node.
type RegisterFunc func(grpc.ServiceRegistrar)

// Direct returns a connection that calls a driver's methods directly, on the goroutine of the
// caller, without serialization. Requests and replies are copied as if sent over a wire. A service
// with the method SharesMessages() is exempt: the parts of a message are then shared by the service
// and its callers. Such a service neither changes nor keeps a request, and never changes what it has
// returned. Streams are not supported.
func Direct(register RegisterFunc) grpc.ClientConnInterface {
	d := direct{}
	register(d)
	return d
}

// direct holds the services by name.
type direct map[string]service

// A service is a service description and its implementation.
type service struct {
	desc *grpc.ServiceDesc
	impl any
	pass func(dst, src proto.Message) // makes dst, which is empty, equal to src
}

func (d direct) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s := service{desc: desc, impl: impl, pass: proto.Merge}
	if _, ok := impl.(interface{ SharesMessages() }); ok {
		s.pass = shareMessage
	}
	d[desc.ServiceName] = s
}

// find returns the handler of a method, such as "/csi.v1.Node/NodeGetInfo", and its service.
func (d direct) find(method string) (handler grpc.MethodHandler, s service, ok bool) {
	name, method, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	s, ok = d[name]
	if !ok {
		return nil, service{}, false
	}
	i := slices.IndexFunc(s.desc.Methods, func(m grpc.MethodDesc) bool { return m.MethodName == method })
	if i < 0 {
		return nil, service{}, false
	}
	return s.desc.Methods[i].Handler, s, true
}

// Invoke calls the method. An unknown method returns Unimplemented, as from a gRPC server.
func (d direct) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	handler, s, ok := d.find(method)
	if !ok {
		return status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}
	out, err := handler(s.impl, ctx, func(in any) error { return s.passAny(in, args) }, nil)
	if err != nil {
		return statusOf(err).Err()
	}
	return s.passAny(reply, out)
}

// statusOf returns the status that a gRPC server derives from a method's error.
func statusOf(err error) *status.Status {
	if s, ok := status.FromError(err); ok {
		return s
	}
	return status.FromContextError(err)
}

// NewStream always returns Unimplemented.
func (d direct) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "streams are not supported on a direct connection")
}

// passAny makes dst equal to src.
func (s service) passAny(dst, src any) error {
	to, ok := dst.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a message", dst)
	}
	from, ok := src.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a message", src)
	}
	s.pass(to, from)
	return nil
}

// shareMessage makes dst equal to src. Both then have the same lists, maps and messages.
func shareMessage(dst, src proto.Message) {
	to, from := dst.ProtoReflect(), src.ProtoReflect()
	from.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(f, v)
		return true
	})
	to.SetUnknown(from.GetUnknown())
}
