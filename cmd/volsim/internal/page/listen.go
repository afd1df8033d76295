package page

import (
	"fmt"
	"net"
	"strconv"

	"github.com/volsim/volsim/internal/httpserver"
)

const headerBytesMax = 64 << 10

// A Config configures Listen.
type Config struct {
	World     World
	Addr      string           // loopback address; "" for a free port of 127.0.0.1
	Names     []string         // hosts by which browsers reach the page, besides loopback addresses, such as that of a proxy
	OnNewLink func(url string) // called with the next link after one was opened; may be nil
}

// A Listener serves a page.
type Listener struct {
	url    string
	guard  *guard
	server *httpserver.Server
}

// Listen starts serving. It returns an error if the address is not a loopback address or is in use.
// Close the listener after use.
func Listen(cfg Config) (*Listener, error) {
	if cfg.Addr == "" {
		cfg.Addr = "127.0.0.1:0"
	}
	if err := ValidateAddr(cfg.Addr); err != nil {
		return nil, err
	}
	socket, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("page on %s: %w", cfg.Addr, err)
	}
	addr := socket.Addr().(*net.TCPAddr)
	port := strconv.Itoa(addr.Port)
	l := &Listener{url: "http://" + net.JoinHostPort(addr.IP.String(), port) + "/"}
	// Browsers store cookies by host, not by port: each server needs its own cookie name.
	l.guard = newGuard(newHandler(cfg.World), cfg.Names, "volsim-"+port, func(token string) {
		if cfg.OnNewLink != nil {
			cfg.OnNewLink(l.link(token))
		}
	})
	l.server = httpserver.Serve(socket, httpserver.Config{Handler: l.guard, HeaderBytesMax: headerBytesMax})
	return l, nil
}

// ValidateAddr returns an error for an address that is not a loopback address with a port.
func ValidateAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil || !httpserver.IsLoopback(host) {
		return fmt.Errorf("invalid page address %q: want a loopback address with a port, such as 127.0.0.1:8080 (port 0: any free port)", addr)
	}
	return nil
}

// URL returns the link that opens the page in one browser.
func (l *Listener) URL() string { return l.link(l.guard.current()) }

func (l *Listener) link(token string) string { return l.url + "?token=" + token }

// Done returns a channel that receives the error if serving fails before Close.
func (l *Listener) Done() <-chan error { return l.server.Done() }

// Close ends event streams, waits briefly for requests in flight, and closes all connections.
func (l *Listener) Close() error { return l.server.Close() }
