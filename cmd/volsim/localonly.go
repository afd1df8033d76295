package main

import (
	"net"
	"net/http"

	"github.com/volsim/volsim/internal/httpserver"
)

// localOnly returns a handler that refuses web pages of other servers if the socket is a loopback address. One on
// another address is reached by names that are not known here.
func localOnly(next http.Handler, socket net.Listener) http.Handler {
	if addr, ok := socket.Addr().(*net.TCPAddr); ok && addr.IP.IsLoopback() {
		return httpserver.RefuseForeign(next)
	}
	return next
}
