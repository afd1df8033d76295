package csitest

import (
	"context"
	"reflect"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// A handler answers a call of a driver. next makes the driver answer it.
type handler func(ctx context.Context, rpc string, request proto.Message, next nextFunc) (any, error)

type nextFunc func(ctx context.Context) (any, error)

// A registerFunc adds services to a server.
type registerFunc = func(grpc.ServiceRegistrar)

// intercepted returns services whose calls go through a handler.
func intercepted(register registerFunc, handle handler) registerFunc {
	return func(r grpc.ServiceRegistrar) { register(interceptor{r, handle}) }
}

// An interceptor is a registrar of services with a handler for all methods.
type interceptor struct {
	grpc.ServiceRegistrar
	handle handler
}

// RegisterService adds a service whose methods call the handler.
func (i interceptor) RegisterService(desc *grpc.ServiceDesc, impl any) {
	i.ServiceRegistrar.RegisterService(described(desc, func(rpc string) grpc.UnaryServerInterceptor {
		return func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			return i.handle(ctx, rpc, request.(proto.Message), func(ctx context.Context) (any, error) { return next(ctx, request) })
		}
	}), impl)
}

// described returns the description of a service with an interceptor for each method, within those of the
// server.
func described(desc *grpc.ServiceDesc, interceptor func(rpc string) grpc.UnaryServerInterceptor) *grpc.ServiceDesc {
	other := *desc
	other.Methods = make([]grpc.MethodDesc, len(desc.Methods))
	for i, method := range desc.Methods {
		own := interceptor(method.MethodName)
		other.Methods[i] = grpc.MethodDesc{MethodName: method.MethodName, Handler: func(
			impl any, ctx context.Context, decode func(any) error, outer grpc.UnaryServerInterceptor,
		) (any, error) {
			return method.Handler(impl, ctx, decode, func(
				ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
			) (any, error) {
				if outer == nil {
					return own(ctx, request, info, next)
				}
				return outer(ctx, request, info, func(ctx context.Context, request any) (any, error) {
					return own(ctx, request, info, next)
				})
			})
		}}
	}
	return &other
}

// forwarded returns the services of a driver at the other end of a connection.
func forwarded(conn grpc.ClientConnInterface) registerFunc {
	return func(r grpc.ServiceRegistrar) {
		forward(r, &csispec.Identity_ServiceDesc, csispec.UnimplementedIdentityServer{}, csispec.NewIdentityClient(conn))
		forward(r, &csispec.Controller_ServiceDesc, csispec.UnimplementedControllerServer{}, csispec.NewControllerClient(conn))
		forward(r, &csispec.GroupController_ServiceDesc, csispec.UnimplementedGroupControllerServer{}, csispec.NewGroupControllerClient(conn))
		forward(r, &csispec.Node_ServiceDesc, csispec.UnimplementedNodeServer{}, csispec.NewNodeClient(conn))
	}
}

// forward adds a service whose methods call those of a client. impl has the type of the service, and is
// never called.
func forward(r grpc.ServiceRegistrar, desc *grpc.ServiceDesc, impl, client any) {
	r.RegisterService(described(desc, func(rpc string) grpc.UnaryServerInterceptor {
		method := reflect.ValueOf(client).MethodByName(rpc)
		return func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
			out := method.Call([]reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(request)})
			err, _ := out[1].Interface().(error)
			return out[0].Interface(), err
		}
	}), impl)
}
