// Package endpoint sends HTTP requests to handlers of this program, without a network.
//
//	e := endpoint.New(handler)  // answers at once, on the goroutine of the request
//	e.Serve(process, handler)   // from now on, tasks of a process answer
//
//	x := e.Send(request, process.Wake)
//	if process.Wait("answer", timeout, x.Done) { response, err := x.Response() }
//
// A handler that answers at once must not suspend. One with a process may: each of its requests is a task
// there. A process that crashes is a program that was killed on a machine that runs: requests that it has not
// answered are cut off, and later ones are refused.
package endpoint
