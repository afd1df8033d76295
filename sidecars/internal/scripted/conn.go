package scripted

import (
	"context"
	"path"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// A Fault is the failure of one call.
type Fault struct {
	Method string     // such as "CreateVolume"
	Code   codes.Code // OK: the error is not a gRPC status
	After  bool       // fail after the call had its effect
}

// A Call is a recorded call.
type Call struct {
	Method  string
	Request proto.Message
}

// A Conn is a connection that fails as scripted: each fault fails the next call of its method,
// once. It belongs to one goroutine.
type Conn struct {
	grpc.ClientConnInterface
	Faults []Fault
	Calls  []Call
	// Answer, if not nil, may change the reply of a successful call.
	Answer func(method string, reply any)
}

// Invoke makes the call, or fails.
func (c *Conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	name := path.Base(method)
	c.Calls = append(c.Calls, Call{name, proto.Clone(args.(proto.Message))})
	fault, ok := c.takeFault(name)
	if ok && !fault.After {
		return fault.err()
	}
	if err := c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...); err != nil {
		return err
	}
	if ok {
		return fault.err()
	}
	if c.Answer != nil {
		c.Answer(name, reply)
	}
	return nil
}

func (c *Conn) takeFault(method string) (Fault, bool) {
	for i, f := range c.Faults {
		if f.Method == method {
			c.Faults = append(c.Faults[:i:i], c.Faults[i+1:]...)
			return f, true
		}
	}
	return Fault{}, false
}

// Count returns the number of calls of a method.
func (c *Conn) Count(method string) int {
	n := 0
	for _, call := range c.Calls {
		if call.Method == method {
			n++
		}
	}
	return n
}

type connectionLost struct{}

func (connectionLost) Error() string { return "connection lost" }

func (f Fault) err() error {
	if f.Code == codes.OK {
		return connectionLost{}
	}
	return status.Error(f.Code, "scripted")
}
