package kubeletserver_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
)

// served runs a test in a bubble, with a listener of the kubelet. ended has how long a handler took.
func served(t *testing.T, test func(w *world, kubelet *testworld.PipeListener, ended <-chan time.Duration)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{TB: t, runtime: newRuntime(), api: fake.NewServer(fake.Config{Now: time.Now})}
		w.addPod("web", "node-1", "app")
		w.runtime.start("web", "app")
		kubelet, ended := w.Kubelet("node-1"), make(chan time.Duration, 1)
		listener := testworld.NewPipeListener()
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			began := time.Now()
			kubelet.ServeHTTP(w, r)
			ended <- time.Since(began)
		})}
		go func() { _ = server.Serve(listener) }()
		defer func() { testcheck.NoError(t, server.Close()) }()
		test(w, listener, ended)
	})
}

// connected runs a test in a bubble, with a connection to the kubelet that executes a command. ended has how long its
// handler took.
func connected(t *testing.T, command, protocol string, test func(w *world, c *websocket.Conn, ended <-chan time.Duration)) {
	served(t, func(w *world, kubelet *testworld.PipeListener, ended <-chan time.Duration) {
		dialer := websocket.Dialer{Subprotocols: []string{protocol}, NetDialContext: func(context.Context, string, string) (net.Conn, error) {
			return kubelet.Dial(), nil
		}}
		c, resp, err := dialer.DialContext(w.Context(), "ws://a/exec/default/web/app?input=1&output=1&command="+command, nil)
		testcheck.NoError(w, err, resp.Body.Close())
		defer c.Close()
		test(w, c, ended)
	})
}

// next returns the next message, or the error.
func next(c *websocket.Conn) string {
	_, message, err := c.ReadMessage()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", message[0], message[1:])
}

// TestProtocol sends messages of both protocols, also ones that are not valid. Only the newer one closes stdin.
func TestProtocol(t *testing.T) {
	const success = `3 {"metadata":{},"status":"Success"}`
	for _, tt := range []struct{ protocol, want string }{
		{"v5.channel.k8s.io", success},
		{"v4.channel.k8s.io", "1 b"},
	} {
		t.Run(tt.protocol, func(t *testing.T) {
			connected(t, "cat", tt.protocol, func(w *world, c *websocket.Conn, ended <-chan time.Duration) {
				testcheck.Equal(w, "first", "1 ", next(c))
				send := func(messages ...string) {
					for _, message := range messages {
						testcheck.NoError(w, c.WriteMessage(websocket.BinaryMessage, []byte(message)))
					}
				}
				send("", "\x00a")
				testcheck.Equal(w, "second", "1 a", next(c))
				send("\x04{}", "\x01x", "\xff", "\xff\x01", "\xff\x00", "\x00b")
				testcheck.Equal(w, "third", tt.want, next(c))
				if tt.want == success {
					testcheck.Equal(w, "end", "websocket: close 1000 (normal)", next(c))
				} else {
					testcheck.NoError(w, c.Close())
					testcheck.Equal(w, "killed", "cat", <-w.runtime.killed)
				}
				testcheck.Equal(w, "ended after", 0, <-ended)
			})
		})
	}
}

// TestSilentClientIsCutOff: one that does not read what the command writes, for a minute; and one that does not close the
// connection after the result, for ten seconds.
func TestSilentClientIsCutOff(t *testing.T) {
	connected(t, "wait", "v5.channel.k8s.io", func(w *world, c *websocket.Conn, ended <-chan time.Duration) {
		testcheck.Equal(w, "first", "1 ", next(c))
		testcheck.Equal(w, "ended after", time.Minute, <-ended)
		testcheck.Equal(w, "killed", "wait", <-w.runtime.killed)
	})
	connected(t, "exit", "v5.channel.k8s.io", func(w *world, c *websocket.Conn, ended <-chan time.Duration) {
		c.SetCloseHandler(func(int, string) error { return nil })
		testcheck.Equal(w, "first", "1 ", next(c))
		testcheck.Equal(w, "result", `3 {"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: command terminated with `+
			`exit code 3","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}`, next(c))
		testcheck.Equal(w, "end", "websocket: close 1000 (normal)", next(c))
		testcheck.Equal(w, "ended after", 10*time.Second, <-ended)
	})
}
