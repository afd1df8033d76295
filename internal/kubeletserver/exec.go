package kubeletserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/podconnect"
	"github.com/volsim/volsim/kubelet/container"
)

// The protocols of a connection. Only the newer one can close stdin.
//
// Upstream: k8s.io/apimachinery/pkg/util/remotecommand StreamProtocolV5Name.
const (
	protocolV5 = "v5.channel.k8s.io"
	protocolV4 = "v4.channel.k8s.io"
)

var protocols = []string{protocolV5, protocolV4}

// exec executes a command in a container that runs, and connects it with the client by WebSocket.
//
// Differs: SPDY is not supported, which upstream's clients used before 1.30; a command is required; a page of another
// server may not connect.
//
// Upstream: pkg/kubelet/server Server.getExec, pkg/kubelet Kubelet.GetExec (v1.36).
func (s *server) exec(w http.ResponseWriter, r *http.Request) {
	opts := podconnect.KubeletExecOptions(r.URL.Query())
	if !opts.Stdin && !opts.Stdout && !opts.Stderr {
		refuse(w, http.StatusBadRequest, "you must specify at least 1 of stdin, stdout, stderr")
		return
	}
	if len(opts.Command) == 0 {
		refuse(w, http.StatusBadRequest, "you must specify at least one command for the container")
		return
	}
	pod := s.pod(w, r, "pod does not exist")
	if pod == nil {
		return
	}
	runtime := s.host.Containers()
	if runtime == nil {
		refuse(w, http.StatusBadRequest, errNoRuntime.Error())
		return
	}
	name := r.PathValue("container")
	run, found := running(runtime, pod, name)
	if !found {
		refuse(w, http.StatusInternalServerError, fmt.Sprintf("container not found (%q)", name))
		return
	}
	if text := unsupported(r); text != "" {
		refuse(w, http.StatusBadRequest, text)
		return
	}
	upgrader := websocket.Upgrader{Subprotocols: protocols}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // it has answered
	}
	var stdin *container.Input
	if opts.Stdin {
		stdin = container.NewInput()
	}
	x := newExecution(conn, opts, stdin, false)
	defer x.close()
	x.execute(func(streams container.Streams) (*container.Execution, error) {
		return runtime.Exec(run, opts.Command, streams)
	}, r.Context().Done(), s.host.Stopped())
}

// running returns the run of a container that has started and not exited. The bool is false if there is none.
func running(r container.Runtime, pod *corev1.Pod, name string) (container.Run, bool) {
	runs := runsOf(r, pod, name)
	if len(runs) == 0 {
		return container.Run{}, false
	}
	newest := runs[len(runs)-1]
	state := r.State(newest)
	return newest, state.Started && !state.Exited
}

// unsupported returns why a request cannot become a connection, or "".
func unsupported(r *http.Request) string {
	if !websocket.IsWebSocketUpgrade(r) {
		if wanted := r.Header.Get("Upgrade"); wanted != "" {
			return fmt.Sprintf("unable to upgrade to %s, which is not supported (use WebSocket with %s)", wanted, protocolV5)
		}
		return "Upgrade request required"
	}
	wanted := websocket.Subprotocols(r)
	if !slices.ContainsFunc(wanted, func(p string) bool { return slices.Contains(protocols, p) }) {
		return fmt.Sprintf("requested protocol(s) are not supported: [%s]; supports [%s]",
			strings.Join(wanted, " "), strings.Join(protocols, " "))
	}
	return ""
}
