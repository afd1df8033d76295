package kubeletserver

import (
	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The protocols of a WebSocket. Only the newer one can close stdin.
//
// Upstream: k8s.io/apimachinery/pkg/util/remotecommand StreamProtocolV5Name.
const (
	protocolV5 = "v5.channel.k8s.io"
	protocolV4 = "v4.channel.k8s.io"
)

var protocols = []string{protocolV5, protocolV4}

// The first byte of a message: the stream that the rest belongs to, or closeSignal, which a stream follows.
//
// Upstream: k8s.io/apimachinery/pkg/util/remotecommand StreamStdIn and its like.
const (
	stdinChannel  = 0
	stdoutChannel = 1
	stderrChannel = 2
	errorChannel  = 3
	closeSignal   = 255
)

// messageBytesMax is the limit of a message's size.
//
// Upstream: golang.org/x/net/websocket DefaultMaxPayloadBytes.
const messageBytesMax = 32 << 20

// A webSocket is a connection by WebSocket.
type webSocket struct{ conn *websocket.Conn }

// greet sends an empty message.
func (c webSocket) greet(opts *corev1.PodExecOptions) error {
	channel := byte(errorChannel)
	switch {
	case opts.Stdout:
		channel = stdoutChannel
	case opts.Stderr:
		channel = stderrChannel
	}
	return c.send(channel, nil)
}

// receive passes on what the client sends until it disconnects.
//
// Upstream: k8s.io/streaming/pkg/httpstream/wsstream Conn.handle (v1.36).
func (c webSocket) receive(x *execution) {
	for {
		_, message, err := c.conn.ReadMessage()
		if err != nil {
			return
		}
		switch {
		case len(message) == 0:
		case message[0] == stdinChannel:
			x.input(message[1:])
		case message[0] == closeSignal && c.conn.Subprotocol() == protocolV5:
			if len(message) == 2 && message[1] == stdinChannel {
				x.endInput()
			}
		}
	}
}

// send sends a message.
func (c webSocket) send(channel byte, data []byte) error {
	_ = c.conn.SetWriteDeadline(deadlineAfter(stallMax)) // it returns no error
	if err := c.conn.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, data...)); err != nil {
		return errGone
	}
	return nil
}

func (c webSocket) finish(result *metav1.Status, gone <-chan struct{}) {
	if c.send(errorChannel, []byte(encode(result))) != nil {
		return
	}
	normal := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	if c.conn.WriteControl(websocket.CloseMessage, normal, deadlineAfter(stallMax)) != nil {
		return
	}
	_ = c.conn.SetReadDeadline(deadlineAfter(closeMax)) // it may be closed already
	<-gone
}

func (c webSocket) disconnect() { _ = c.conn.Close() } // it may be closed already

func (webSocket) wait() {} // it has no goroutines
