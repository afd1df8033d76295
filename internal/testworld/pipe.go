package testworld

import (
	"net"
	"sync"
)

// A PipeListener accepts connections in memory, whose time is that of a testing/synctest bubble. Create one with
// NewPipeListener.
type PipeListener struct {
	accept chan net.Conn
	closed chan struct{}
	end    func()
}

// NewPipeListener returns a listener without connections.
func NewPipeListener() *PipeListener {
	l := &PipeListener{accept: make(chan net.Conn), closed: make(chan struct{})}
	l.end = sync.OnceFunc(func() { close(l.closed) })
	return l
}

// Dial returns a connection to what accepts.
func (l *PipeListener) Dial() net.Conn {
	here, there := net.Pipe()
	l.accept <- there
	return here
}

// Accept implements net.Listener.
func (l *PipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *PipeListener) Close() error { l.end(); return nil }

// Addr implements net.Listener.
func (*PipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
