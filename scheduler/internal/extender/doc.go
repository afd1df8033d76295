// Package extender asks programs outside the scheduler which nodes a pod may run on: upstream's scheduler
// extenders, with their protocol over HTTP.
//
//	e, err := extender.New(process, cfg, nil)                   // by HTTP or HTTPS, as the configuration says
//	e, err := extender.New(process, cfg, endpoint.New(handler)) // a handler of this program
//	nodes, failed, unresolvable, err := e.Filter(ctx, pod, nodes)
//
// An Extender is one configured extender. A List has all of a scheduler, and combines their answers as the
// scheduling cycle does. Each request is a call of the scheduler's process: a suspension point with a record
// of kind driver, whose verb is ExtenderFilter, ExtenderPrioritize, ExtenderBind or ExtenderPreempt, and
// which can fail by injection.
//
// A request by HTTP has a limit in real time and uses goroutines: it is for live worlds. In stepped worlds an
// extender is a handler of the program, which answers at once, or has a process of its own. The scheduler
// waits for such a process no longer than for a server.
//
// Upstream: pkg/scheduler/extender.go (v1.36).
package extender
