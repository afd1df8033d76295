package kubeletserver

import (
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/podconnect"
	"github.com/volsim/volsim/kubelet/container"
)

// exec executes a command in a container that runs, and connects it with the client by WebSocket or SPDY.
//
// Differs: a command is required; a page of another server may not connect.
//
// Upstream: pkg/kubelet/server Server.getExec, pkg/kubelet Kubelet.GetExec (v1.36).
func (s *server) exec(w http.ResponseWriter, r *http.Request) {
	opts := streamOptions(w, r)
	if opts == nil {
		return
	}
	if len(opts.Command) == 0 {
		refuse(w, http.StatusBadRequest, "you must specify at least one command for the container")
		return
	}
	pod, runtime := s.podAndRuntime(w, r)
	if pod == nil {
		return
	}
	name := r.PathValue("container")
	run, found := running(runtime, pod, name)
	if !found {
		refuse(w, http.StatusInternalServerError, fmt.Sprintf("container not found (%q)", name))
		return
	}
	conn := connect(w, r, opts, s.host.Stopped())
	if conn == nil {
		return
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

// streamOptions returns the options of a request for streams of a container; nil after a refusal.
func streamOptions(w http.ResponseWriter, r *http.Request) *corev1.PodExecOptions {
	opts := podconnect.KubeletExecOptions(r.URL.Query())
	if !opts.Stdin && !opts.Stdout && !opts.Stderr {
		refuse(w, http.StatusBadRequest, "you must specify at least 1 of stdin, stdout, stderr")
		return nil
	}
	return opts
}

// podAndRuntime returns the pod of a request and what runs its containers; nil after a refusal.
func (s *server) podAndRuntime(w http.ResponseWriter, r *http.Request) (*corev1.Pod, container.Runtime) {
	pod := s.pod(w, r, "pod does not exist")
	if pod == nil {
		return nil, nil
	}
	runtime := s.host.Containers()
	if runtime == nil {
		refuse(w, http.StatusBadRequest, errNoRuntime.Error())
		return nil, nil
	}
	return pod, runtime
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
