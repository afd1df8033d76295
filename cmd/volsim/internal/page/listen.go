package page

import (
	"fmt"
	"net"
	"strconv"

	"github.com/volsim/volsim/internal/httpserver"
)

const headerBytesMax = 64 << 10

// Config is what Listen must be told.
type Config struct {
	World     World
	Addr      string           // an address of loopback; "": a free port of 127.0.0.1
	OnNewLink func(url string) // is told of the next link when one was opened; nil: nobody is
}

// Listener serves a page.
type Listener struct {
	url    string
	guard  *guard
	server *httpserver.Server
}

// Listen begins to serve. Close it. It fails where the address is not one of loopback, or is taken.
func Listen(cfg Config) (*Listener, error) {
	if cfg.Addr == "" {
		cfg.Addr = "127.0.0.1:0"
	}
	host, _, err := net.SplitHostPort(cfg.Addr)
	if err != nil || !isLoopback(host) {
		return nil, fmt.Errorf("page on %s: want an address of loopback with a port, such as 127.0.0.1:8080 (0: a free one)", cfg.Addr)
	}
	socket, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("page on %s: %w", cfg.Addr, err)
	}
	addr := socket.Addr().(*net.TCPAddr)
	port := strconv.Itoa(addr.Port)
	l := &Listener{url: "http://" + net.JoinHostPort(addr.IP.String(), port) + "/"}
	// Browsers keep cookies by the name of the machine, not by the port: each server has one of its own name.
	l.guard = newGuard(newHandler(cfg.World), "volsim-"+port, func(token string) {
		if cfg.OnNewLink != nil {
			cfg.OnNewLink(l.link(token))
		}
	})
	l.server = httpserver.Serve(socket, httpserver.Config{Handler: l.guard, HeaderBytesMax: headerBytesMax})
	return l, nil
}

// URL is the link that opens the page, in one browser.
func (l *Listener) URL() string { return l.link(l.guard.current()) }

func (l *Listener) link(token string) string { return l.url + "?token=" + token }

// Done yields the error that serving ended with before Close, if it does.
func (l *Listener) Done() <-chan error { return l.server.Done() }

// Close tells browsers to go, waits a moment for requests in flight, and closes all connections.
func (l *Listener) Close() error { return l.server.Close() }
