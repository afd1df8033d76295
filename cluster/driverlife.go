package cluster

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/sim"
)

// A driverLife is the process of a driver's services in this program, from a start to the next stop.
type driverLife struct {
	process *sim.Process
	ended   atomic.Bool
}

// newDriverLife returns the process of services that start.
func (c *Cluster) newDriverLife(name string) *driverLife {
	l := &driverLife{process: c.host.Process(name)}
	l.process.OnCrash(func() { l.ended.Store(true) })
	return l
}

// setUp returns the services of a driver in this process.
func (l *driverLife) setUp(
	services func(DriverNode) (func(grpc.ServiceRegistrar), error), at DriverNode,
) (register func(grpc.ServiceRegistrar), err error) {
	at.Process = l.process
	err = l.process.SetUp(func() (err error) {
		register, err = services(at)
		return err
	})
	return register, err
}

// conn returns a connection to the services whose calls are cut off by the end of the process. l may be nil.
func (l *driverLife) conn(to grpc.ClientConnInterface) grpc.ClientConnInterface {
	if l == nil {
		return to
	}
	return lifeConn{to, l}
}

// endDriver ends the process of services, if they have one.
func (c *Cluster) endDriver(of **driverLife) {
	if l := *of; l != nil {
		c.host.Crash(l.process)
		*of = nil
	}
}

// A lifeConn is a connection to services in this program.
type lifeConn struct {
	grpc.ClientConnInterface
	life *driverLife
}

// Invoke makes a call. Its caller gets no answer of a process that has ended meanwhile.
func (l lifeConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	err := l.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	if l.life.ended.Load() {
		return status.Error(codes.Unavailable, "the driver has ended")
	}
	return err
}
