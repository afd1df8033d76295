// Package httpserver runs and stops volsim's HTTP servers.
//
//	s := httpserver.Serve(listener, httpserver.Config{Handler: handler})
//	defer s.Close()
//
// Close first ends the contexts of requests, which ends streams. It then waits briefly for requests
// in flight and closes all connections. [RefuseForeign] protects a server on a loopback address from
// web pages. Other access control and addresses are left to the caller.
package httpserver
