package kubeletserver

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/moby/spdystream"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// createMax is how long a client may take to create its streams.
	//
	// Upstream: k8s.io/apimachinery/pkg/util/remotecommand DefaultStreamCreationTimeout.
	createMax = 30 * time.Second
	// partBytes is the limit of what is sent or read at once.
	partBytes = 32 << 10
)

// A spdyConnection is a connection by SPDY. Each channel has a stream. Every stream is read, since the frames of one that is
// not read keep those of the others from being read.
type spdyConnection struct {
	conn     *spdystream.Connection
	client   net.Conn
	protocol string
	wanted   []string      // the types of the streams that the client must create
	complete chan struct{} // closed when it has created them
	served   chan struct{} // closed when nothing is read from client any longer
	readers  sync.WaitGroup

	mu      sync.Mutex
	ended   bool
	all     []*spdystream.Stream          // in their order of creation
	replied int                           // how many of streams the client may use
	streams map[string]*spdystream.Stream // the wanted ones; it does not change after complete
}

// connectSPDY upgrades a request to a connection by SPDY, and waits for its streams. nil: there is none, as of connect.
//
// Upstream: k8s.io/cri-streaming/pkg/streaming/remotecommand createHTTPStreamStreams,
// k8s.io/streaming/pkg/httpstream/spdy ResponseUpgrader (v1.36).
func connectSPDY(w http.ResponseWriter, r *http.Request, opts *corev1.PodExecOptions, stopped <-chan struct{}) *spdyConnection {
	protocol := negotiate(w, r)
	if protocol == "" {
		return nil
	}
	taken, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		refuse(w, http.StatusInternalServerError, "unable to upgrade: unable to hijack response")
		return nil
	}
	c := &spdyConnection{
		client: limitedConn{taken, buffered.Reader}, protocol: protocol, wanted: wantedStreams(opts, protocol),
		complete: make(chan struct{}), served: make(chan struct{}), streams: map[string]*spdystream.Stream{},
	}
	_, err = io.WriteString(c.client, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+spdyVersion+
		"\r\n"+protocolHeader+": "+protocol+"\r\n\r\n")
	if err != nil {
		return nil // it has closed the connection
	}
	if c.conn, err = spdystream.NewConnection(c.client, true); err != nil {
		c.disconnect()
		return nil
	}
	go func() {
		defer close(c.served)
		c.conn.Serve(c.accept)
	}()
	limit, cancel := context.WithTimeout(r.Context(), createMax)
	defer cancel()
	select {
	case <-c.complete:
		return c
	case <-c.conn.CloseChan():
	case <-limit.Done():
	case <-stopped:
	}
	c.disconnect()
	c.wait()
	return nil
}

// wantedStreams returns the types of the streams that a client creates for its options. A terminal has one for its sizes,
// except in the oldest protocol.
func wantedStreams(opts *corev1.PodExecOptions, protocol string) []string {
	wanted := []string{corev1.StreamTypeError}
	for _, s := range []struct {
		kind string
		set  bool
	}{
		{corev1.StreamTypeStdin, opts.Stdin},
		{corev1.StreamTypeStdout, opts.Stdout},
		{corev1.StreamTypeStderr, opts.Stderr},
		{corev1.StreamTypeResize, opts.TTY && protocol != protocolV2},
	} {
		if s.set {
			wanted = append(wanted, s.kind)
		}
	}
	return wanted
}

// accept replies to a stream that the client has created. What it sends is lost, except stdin.
//
// Upstream: k8s.io/cri-streaming/pkg/streaming/remotecommand protocolHandler.waitForStreams (v1.36).
func (c *spdyConnection) accept(stream *spdystream.Stream) {
	kind := stream.Headers().Get(corev1.StreamType)
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		_ = stream.Reset() // the connection is closed
		return
	}
	c.all = append(c.all, stream)
	isWanted := slices.Contains(c.wanted, kind) && c.streams[kind] == nil
	if isWanted {
		c.streams[kind] = stream
	}
	if !isWanted || kind != corev1.StreamTypeStdin {
		c.readers.Go(func() { _, _ = io.Copy(io.Discard, stream) }) // it ends without an error
	}
	c.mu.Unlock()
	if stream.SendReply(http.Header{}, false) != nil {
		c.disconnect()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if isWanted {
		if c.replied++; c.replied == len(c.wanted) {
			close(c.complete)
		}
	}
}

// greet sends nothing: the client has created its streams, so it is connected.
func (*spdyConnection) greet(*corev1.PodExecOptions) error { return nil }

// receive passes on stdin. Its end is the client's end of that stream.
func (c *spdyConnection) receive(x *execution) {
	if stdin := c.streams[corev1.StreamTypeStdin]; stdin != nil {
		c.readers.Go(func() { c.copyInput(stdin, x) })
	}
	<-c.conn.CloseChan()
}

// copyInput passes on a stream until its end. That of the connection is no end of the input.
func (c *spdyConnection) copyInput(stdin io.Reader, x *execution) {
	for part := make([]byte, partBytes); ; {
		n, err := stdin.Read(part)
		if err != nil {
			break
		}
		x.input(part[:n])
	}
	select {
	case <-c.conn.CloseChan():
	default:
		x.endInput()
	}
}

// send writes to the stream of a channel.
func (c *spdyConnection) send(channel byte, data []byte) error {
	kind := corev1.StreamTypeStdout
	if channel == stderrChannel {
		kind = corev1.StreamTypeStderr
	}
	for part := range slices.Chunk(data, partBytes) {
		if _, err := c.streams[kind].Write(part); err != nil {
			return errGone
		}
	}
	return nil
}

// finish sends a result and the ends of all streams. The older protocols have no result of a command that succeeded, and
// only the text of another one.
//
// Upstream: k8s.io/cri-streaming/pkg/streaming/remotecommand v1WriteStatusFunc, v4WriteStatusFunc (v1.36), which close the
// connection without waiting for the client.
func (c *spdyConnection) finish(result *metav1.Status, gone <-chan struct{}) {
	text := encode(result)
	if c.protocol != protocolV4 {
		text = result.Message
	}
	if text != "" {
		if _, err := c.streams[corev1.StreamTypeError].Write([]byte(text)); err != nil {
			return
		}
	}
	c.mu.Lock()
	all := slices.Clone(c.all)
	c.mu.Unlock()
	for _, stream := range all {
		_ = stream.Close() // the client may have reset it
	}
	limit, cancel := context.WithTimeout(context.Background(), closeMax)
	defer cancel()
	select {
	case <-gone:
	case <-limit.Done():
	}
}

func (c *spdyConnection) disconnect() { _ = c.client.Close() } // it may be closed already

// wait ends the streams, and waits for the goroutines.
func (c *spdyConnection) wait() {
	c.mu.Lock()
	c.ended = true
	all := slices.Clone(c.all)
	c.mu.Unlock()
	for _, stream := range all {
		_ = stream.Reset() // the connection is closed
	}
	<-c.served
	c.readers.Wait()
}

// A limitedConn is a connection that a client has upgraded, whose writes have a time limit. It is closed by a write that
// fails.
type limitedConn struct {
	net.Conn
	reader *bufio.Reader // it may hold what the client has sent early
}

func (c limitedConn) Read(data []byte) (int, error) { return c.reader.Read(data) }

func (c limitedConn) Write(data []byte) (int, error) {
	_ = c.SetWriteDeadline(deadlineAfter(stallMax)) // the write returns the error, if any
	n, err := c.Conn.Write(data)
	if err != nil {
		_ = c.Close() // it may be closed already
	}
	return n, err
}
