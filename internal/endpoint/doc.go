// Package endpoint sends HTTP requests to handlers of this program, without a network.
//
//	e := endpoint.New(handler)  // answers at once, on the goroutine of the request
//	e.Serve(process, handler)   // from now on, tasks of a process answer
//
//	x := e.Send(request, process.Wake)
//	if process.Wait("answer", timeout, x.Done) { response := x.Response() }
//
// A handler that answers at once must not suspend. One with a process may: each of its requests is a task
// there. Requests that the process has not answered when it crashes are never answered.
package endpoint
