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
)

// A RegisterFunc adds a driver's services to a server. Each driver has one for its controller and
// one for each node.
type RegisterFunc func(grpc.ServiceRegistrar)

// Direct returns a connection that calls a driver's methods directly, on the goroutine of the
// caller, without serialization. Requests and replies are copied as if sent over a wire. Streams
// are not supported.
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
}

func (d direct) RegisterService(desc *grpc.ServiceDesc, impl any) {
	d[desc.ServiceName] = service{desc: desc, impl: impl}
}

// find returns the handler of a method, such as "/csi.v1.Node/NodeGetInfo", and its implementation.
func (d direct) find(method string) (handler grpc.MethodHandler, impl any, ok bool) {
	name, method, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	s, ok := d[name]
	if !ok {
		return nil, nil, false
	}
	i := slices.IndexFunc(s.desc.Methods, func(m grpc.MethodDesc) bool { return m.MethodName == method })
	if i < 0 {
		return nil, nil, false
	}
	return s.desc.Methods[i].Handler, s.impl, true
}

// Invoke calls the method. An unknown method returns Unimplemented, as from a gRPC server.
func (d direct) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	handler, impl, ok := d.find(method)
	if !ok {
		return status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}
	out, err := handler(impl, ctx, func(in any) error { return copyMessage(in, args) }, nil)
	if err != nil {
		return statusOf(err).Err()
	}
	return copyMessage(reply, out)
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

func copyMessage(dst, src any) error {
	d, ok := dst.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a message", dst)
	}
	s, ok := src.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a message", src)
	}
	proto.Merge(d, s)
	return nil
}
