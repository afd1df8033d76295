package page

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	headerTimeout  = 10 * time.Second // for a request's header to arrive
	idleTimeout    = 2 * time.Minute  // between two requests of a connection
	headerBytesMax = 64 << 10
	closeTimeout   = 3 * time.Second // for requests in flight, once browsers have been told to go
)

// Config is what Listen must be told.
type Config struct {
	World  World
	Addr   string           // an address of loopback; "": a free port of 127.0.0.1
	Relink func(url string) // is told of the next link when one was opened; nil: nobody is
}

// Listener serves a page.
type Listener struct {
	url    string
	guard  *guard
	server *http.Server
	cancel context.CancelFunc // ends the streams of changes
	served chan error
}

// Listen begins to serve. Close it. It fails where the address is not one of loopback, or is taken.
func Listen(cfg Config) (*Listener, error) {
	if cfg.Addr == "" {
		cfg.Addr = "127.0.0.1:0"
	}
	host, _, err := net.SplitHostPort(cfg.Addr)
	if err != nil || !onLoopback(host) {
		return nil, fmt.Errorf("page on %s: want an address of loopback with a port, such as 127.0.0.1:8080 (0: a free one)", cfg.Addr)
	}
	socket, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("page on %s: %w", cfg.Addr, err)
	}
	addr := socket.Addr().(*net.TCPAddr)
	port := strconv.Itoa(addr.Port)
	l := &Listener{url: "http://" + net.JoinHostPort(addr.IP.String(), port) + "/", served: make(chan error, 1)}
	// Browsers keep cookies by the name of the machine, not by the port: each server has one of its own name.
	l.guard = newGuard(newHandler(cfg.World), "volsim-"+port, func(token string) {
		if cfg.Relink != nil {
			cfg.Relink(l.link(token))
		}
	})
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	l.server = &http.Server{
		Handler: l.guard, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytesMax,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    log.New(io.Discard, "", 0), // what browsers break off is theirs to tell
	}
	go func() { l.served <- l.server.Serve(socket) }()
	return l, nil
}

// URL is the link that opens the page, in one browser.
func (l *Listener) URL() string { return l.link(l.guard.current()) }

func (l *Listener) link(token string) string { return l.url + "?token=" + token }

// Done yields the error that serving ended with before Close, if it does.
func (l *Listener) Done() <-chan error { return l.served }

// Close tells browsers to go, waits a moment for requests in flight, and closes all connections.
func (l *Listener) Close() error {
	l.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := l.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = l.server.Close()
	}
	return err
}
