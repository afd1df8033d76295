package known

import (
	"context"
	"strings"

	"google.golang.org/grpc"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
)

// BelongsTo reports whether a process belongs to a component: "kubelet" means all kubelets, "" any.
func BelongsTo(component, process string) bool {
	process = strings.TrimSuffix(process, "#2")
	kind, _, _ := strings.Cut(process, "(")
	return component == "" || component == process || component == kind
}

// Client intercepts the API requests of a component. It calls mutate with the correct client each
// time a process of the component starts.
func Client(component string, mutate func(own *fake.Clientset) fake.InterceptorFunc) func() cluster.Interceptors {
	return func() cluster.Interceptors {
		return cluster.Interceptors{Client: func(process string, own *fake.Clientset) *fake.Clientset {
			if !BelongsTo(component, process) {
				return own
			}
			return own.WithInterceptor(mutate(own))
		}}
	}
}

// An Invoking is a driver connection implemented by a function. Its invoke parameter makes the actual
// call.
type Invoking func(ctx context.Context, method string, args, reply any, invoke Invoke) error

// An Invoke makes a driver call.
type Invoke func(ctx context.Context, method string, args, reply any) error

// brokenConn is a connection that passes its calls to a function.
type brokenConn struct {
	grpc.ClientConnInterface
	f Invoking
}

// Invoke calls the function.
func (c brokenConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.f(ctx, method, args, reply, func(ctx context.Context, method string, args, reply any) error {
		return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	})
}

// Conn returns a connection that passes the calls of another one to a function.
func Conn(conn grpc.ClientConnInterface, f Invoking) grpc.ClientConnInterface {
	return brokenConn{conn, f}
}

// Driver intercepts a component's driver calls. It calls mutate each time a process of the
// component starts.
func Driver(component string, mutate func() Invoking) func() cluster.Interceptors {
	return func() cluster.Interceptors {
		return cluster.Interceptors{Driver: func(process string, conn grpc.ClientConnInterface) grpc.ClientConnInterface {
			if !BelongsTo(component, process) {
				return conn
			}
			return Conn(conn, mutate())
		}}
	}
}
