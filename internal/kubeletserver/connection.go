package kubeletserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A connection reaches the client of an execution. One goroutine receives, another one sends.
type connection interface {
	// greet tells the client that it is connected. The error is errGone.
	greet(opts *corev1.PodExecOptions) error
	// receive passes the client's input to an execution until the client has disconnected.
	receive(x *execution)
	// send sends what a command has written to stdoutChannel or stderrChannel. The error is errGone.
	send(channel byte, data []byte) error
	// finish sends a result, and waits until the client has closed its side, which closes gone: before, the client might
	// lose the result.
	finish(result *metav1.Status, gone <-chan struct{})
	// disconnect ends the connection, so that all other methods return. Any goroutine may call it, more than once.
	disconnect()
	// wait waits for the connection's own goroutines after disconnect and receive.
	wait()
}

// connect upgrades a request to a connection with its client. nil: there is none, and an answer has been sent if that was
// possible.
func connect(w http.ResponseWriter, r *http.Request, opts *corev1.PodExecOptions, stopped <-chan struct{}) connection {
	if text := unsupported(r); text != "" {
		refuse(w, http.StatusBadRequest, text)
		return nil
	}
	if isSPDYUpgrade(r) {
		if c := connectSPDY(w, r, opts, stopped); c != nil {
			return c
		}
		return nil
	}
	upgrader := websocket.Upgrader{Subprotocols: protocols}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return nil // it has answered
	}
	conn.SetReadLimit(messageBytesMax)
	return webSocket{conn}
}

// unsupported returns why a request cannot become a connection, or "".
func unsupported(r *http.Request) string {
	switch wanted := r.Header.Get("Upgrade"); {
	case isSPDYUpgrade(r):
		return "" // its protocol is negotiated
	case websocket.IsWebSocketUpgrade(r):
	case wanted != "":
		return fmt.Sprintf("unable to upgrade to %s, which is not supported (use WebSocket with %s, or %s with %s)",
			wanted, protocolV5, spdyVersion, protocolV4)
	default:
		return "Upgrade request required"
	}
	wanted := websocket.Subprotocols(r)
	if !slices.ContainsFunc(wanted, func(p string) bool { return slices.Contains(protocols, p) }) {
		return fmt.Sprintf("requested protocol(s) are not supported: [%s]; supports [%s]",
			strings.Join(wanted, " "), strings.Join(protocols, " "))
	}
	return ""
}
