package csitest

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/volsim/volsim/cluster"
)

// A Script says how single calls of a driver are answered, and records all calls. It is for tests of the
// other side: a sidecar, an operator, a controller. The zero value answers as the driver does. All methods may
// be called concurrently, and at any time.
type Script struct {
	mu      sync.Mutex
	answers map[numberedCall]Answer // guarded by mu
	counts  map[string]int          // guarded by mu: calls so far, by RPC
	calls   []Call                  // guarded by mu
}

// A numberedCall is the n-th call of an RPC.
type numberedCall struct {
	rpc string
	n   int
}

// An Answer is how a call is answered. The zero value is the driver's own answer.
type Answer struct {
	// Code is the code of the error with which the call fails, without effect. codes.OK: it does not fail.
	Code codes.Code
	// Late says that the call takes effect before it fails with Code.
	Late bool
	// Until holds the call up until the channel is closed, or until the caller gives up. It is held up
	// before its effect or, with Late, after it. nil: it is not held up.
	Until <-chan struct{}
	// Delay is like Until, for a time. Live worlds only.
	Delay time.Duration
}

// A Call is a call of a driver as its caller sees it.
type Call struct {
	RPC      string        // such as "NodeStageVolume"
	Node     string        // of a node service; "": of the controller
	Request  proto.Message // must not be modified
	Response proto.Message // nil if the call failed; must not be modified
	Err      error
}

// On sets the answer to the n-th call of an RPC, counted from 1 over all services that follow the script. With
// n 0 it is that to every call without one of its own.
func (s *Script) On(rpc string, n int, answer Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers == nil {
		s.answers = map[numberedCall]Answer{}
	}
	s.answers[numberedCall{rpc, n}] = answer
}

// Calls returns the calls of an RPC that have been answered, or those of all RPCs if rpc is "".
func (s *Script) Calls(rpc string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.calls), func(c Call) bool { return rpc != "" && c.RPC != rpc })
}

// Driver returns a driver whose in-process services follow the script.
func (s *Script) Driver(d cluster.Driver) cluster.Driver {
	return wrapped(d, func(at cluster.DriverNode, register registerFunc) registerFunc {
		return s.services(at, register)
	})
}

// Services returns services that follow the script, for a server of one's own. node is where they are: the
// name of a node, or "" for a controller.
func (s *Script) Services(node string, register func(grpc.ServiceRegistrar)) func(grpc.ServiceRegistrar) {
	return s.services(cluster.DriverNode{Name: node}, register)
}

func (s *Script) services(at cluster.DriverNode, register registerFunc) registerFunc {
	return intercepted(register, func(ctx context.Context, rpc string, request proto.Message, next nextFunc) (any, error) {
		response, err := s.answer(ctx, rpc, next)
		made := Call{RPC: rpc, Node: at.Name, Request: request, Err: err}
		if err == nil {
			made.Response, _ = response.(proto.Message)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls = append(s.calls, made)
		return response, err
	})
}

// answer answers a call.
func (s *Script) answer(ctx context.Context, rpc string, next nextFunc) (any, error) {
	a := s.take(rpc)
	if !a.Late {
		if err := a.hold(ctx); err != nil {
			return nil, err
		}
		if a.Code != codes.OK {
			return nil, status.Errorf(a.Code, "%s: scripted answer", rpc)
		}
		return next(ctx)
	}
	response, err := next(ctx)
	if held := a.hold(ctx); held != nil {
		return nil, held
	}
	if err == nil && a.Code != codes.OK {
		return nil, status.Errorf(a.Code, "%s: scripted answer", rpc)
	}
	return response, err
}

// take counts a call, and returns its answer.
func (s *Script) take(rpc string) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = map[string]int{}
	}
	s.counts[rpc]++
	if a, ok := s.answers[numberedCall{rpc, s.counts[rpc]}]; ok {
		return a
	}
	return s.answers[numberedCall{rpc, 0}]
}

// hold returns when the call is to go on. The error is that of a caller that has given up.
func (a Answer) hold(ctx context.Context) error {
	if a.Delay > 0 {
		delay, cancel := context.WithTimeout(ctx, a.Delay)
		defer cancel()
		<-delay.Done()
	}
	if a.Until != nil {
		select {
		case <-a.Until:
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	return nil
}

// wrapped returns a driver with other services.
func wrapped(d cluster.Driver, wrap func(at cluster.DriverNode, register registerFunc) registerFunc) cluster.Driver {
	each := func(services func(cluster.DriverNode) (registerFunc, error)) func(cluster.DriverNode) (registerFunc, error) {
		if services == nil {
			return nil
		}
		return func(at cluster.DriverNode) (registerFunc, error) {
			register, err := services(at)
			if err != nil {
				return nil, err
			}
			return wrap(at, register), nil
		}
	}
	d.Controller, d.Node = each(d.Controller), each(d.Node)
	return d
}
