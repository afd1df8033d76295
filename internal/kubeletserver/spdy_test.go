package kubeletserver_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/moby/spdystream"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
)

// A spdyClient is a connection by SPDY. It reads nothing after pause is closed.
type spdyClient struct {
	net.Conn
	testing.TB
	reader  *bufio.Reader
	streams *spdystream.Connection
	pause   chan struct{}
	closed  chan struct{}
}

func (c *spdyClient) Read(data []byte) (int, error) {
	select {
	case <-c.pause:
		<-c.closed
		return 0, io.EOF
	default:
		return c.reader.Read(data)
	}
}

// create creates a stream, to which the server replies.
func (c *spdyClient) create(kind string) *spdystream.Stream {
	c.Helper()
	s, err := c.streams.CreateStream(http.Header{"Streamtype": {kind}}, nil, false)
	testcheck.NoError(c, err)
	testcheck.NoError(c, s.Wait())
	return s
}

// connectedBySPDY runs a test in a bubble, with a connection to the kubelet that executes a command when it has the streams
// error, stdin and stdout.
func connectedBySPDY(t *testing.T, command string, test func(w *world, c *spdyClient, ended <-chan time.Duration)) {
	served(t, func(w *world, kubelet *testworld.PipeListener, ended <-chan time.Duration) {
		conn := kubelet.Dial()
		c := &spdyClient{Conn: conn, TB: w, reader: bufio.NewReader(conn), pause: make(chan struct{}), closed: make(chan struct{})}
		_, err := io.WriteString(c, "POST /exec/default/web/app?input=1&output=1&command="+command+" HTTP/1.1\r\nHost: a\r\n"+
			"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v9.channel.k8s.io, v4.channel.k8s.io,v3.channel.k8s.io\r\n\r\n")
		testcheck.NoError(w, err)
		answer, err := http.ReadResponse(c.reader, nil)
		testcheck.NoError(w, err, answer.Body.Close())
		testcheck.Equal(w, "code", http.StatusSwitchingProtocols, answer.StatusCode)
		testcheck.Equal(w, "header", http.Header{
			"Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}, "X-Stream-Protocol-Version": {"v4.channel.k8s.io"},
		}, answer.Header)
		c.streams, err = spdystream.NewConnection(c, false)
		testcheck.NoError(w, err)
		go c.streams.Serve(spdystream.NoOpStreamHandler)
		test(w, c, ended)
		close(c.closed)
		_ = c.Close() // the server has closed it
	})
}

// TestStreams writes to stdin and to streams that the server ignores: ones of other types, and a second stdin.
func TestStreams(t *testing.T) {
	connectedBySPDY(t, "cat", func(w *world, c *spdyClient, ended <-chan time.Duration) {
		result, other, stdin, second, stdout := c.create("error"), c.create("other"), c.create("stdin"), c.create("stdin"), c.create("stdout")
		for _, s := range []*spdystream.Stream{other, second, result, stdout} {
			for range 2 * spdystream.QUEUE_SIZE { // so nothing else would be read if this were not
				_, err := s.Write([]byte("lost"))
				testcheck.NoError(w, err)
			}
			testcheck.NoError(w, s.Close())
		}
		_, err := stdin.Write([]byte("a\nb"))
		testcheck.NoError(w, err, stdin.Close())
		testcheck.Equal(w, "stdout", "a\nb", string(testcheck.Must(io.ReadAll(stdout))))
		testcheck.Equal(w, "result", `{"metadata":{},"status":"Success"}`, string(testcheck.Must(io.ReadAll(result))))
		testcheck.NoError(w, c.Close())
		testcheck.Equal(w, "ended after", 0, <-ended)
	})
}

// TestSilentSPDYClientIsCutOff: one that does not create all streams, for thirty seconds; one that does not read what the command
// writes, for a minute; and one that does not close the connection after the result, for ten seconds.
func TestSilentSPDYClientIsCutOff(t *testing.T) {
	connectedBySPDY(t, "wait", func(w *world, c *spdyClient, ended <-chan time.Duration) {
		c.create("error")
		c.create("stdin")
		testcheck.Equal(w, "ended after", 30*time.Second, <-ended)
		testcheck.Equal(w, "killed", 0, len(w.runtime.killed))
	})
	connectedBySPDY(t, "cat", func(w *world, c *spdyClient, ended <-chan time.Duration) {
		c.create("error")
		c.create("stdout")
		stdin := c.create("stdin")
		close(c.pause)
		for range 2 { // the client is reading the first one already
			_, err := stdin.Write([]byte("a"))
			testcheck.NoError(w, err)
		}
		testcheck.Equal(w, "ended after", time.Minute, <-ended)
		testcheck.Equal(w, "killed", "cat", <-w.runtime.killed)
	})
	connectedBySPDY(t, "exit", func(w *world, c *spdyClient, ended <-chan time.Duration) {
		c.create("stdin")
		c.create("stdout")
		result := c.create("error")
		testcheck.Equal(w, "result", `{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: command terminated with `+
			`exit code 3","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}`, string(testcheck.Must(io.ReadAll(result))))
		testcheck.Equal(w, "ended after", 10*time.Second, <-ended)
	})
}
