package kubeletserver

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/podconnect"
	"github.com/volsim/volsim/kubelet/container"
)

// unavailableText begins the message for a run of which the runtime has no output. The container's ID follows.
const unavailableText = "unable to retrieve container logs for "

// containerLogs answers with the output of a container's run.
//
// Upstream: pkg/kubelet/server Server.getContainerLogs (v1.36).
func (s *server) containerLogs(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if tail := query.Get("tail"); tail != "" { // the parameter's older name
		query.Set("tailLines", tail)
		if tail == "all" {
			query.Del("tailLines")
		}
	}
	opts, err := podconnect.LogOptions(query)
	if err != nil {
		refuse(w, http.StatusBadRequest, `{"message": "Unable to decode query."}`)
		return
	}
	if len(podconnect.ValidateLogOptions(opts)) > 0 {
		refuse(w, http.StatusUnprocessableEntity, `{"message": "Invalid request."}`)
		return
	}
	pod := s.pod(w, r, fmt.Sprintf("pod %q does not exist", r.PathValue("pod")))
	if pod == nil {
		return
	}
	name := r.PathValue("container")
	if !hasContainer(pod, name) {
		refuse(w, http.StatusNotFound, fmt.Sprintf("container %q not found in pod %q", name, pod.Name))
		return
	}
	output, err := s.outputOf(pod, name, opts.Previous)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	serveLog(w, newLogReader(r.Context(), s.host, output, opts), opts.Follow)
}

// serveLog answers with a log. With follow, each part is flushed.
func serveLog(w http.ResponseWriter, log *logReader, follow bool) {
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	if taker, ok := w.(podconnect.BodyTaker); ok {
		taker.TakeBody(log)
		return
	}
	defer func() { _ = log.Close() }() // it returns no error
	out := http.NewResponseController(w)
	_ = out.Flush() // not every writer can: then the client waits for more
	part := make([]byte, 32<<10)
	for {
		n, err := log.Read(part)
		if n > 0 {
			if _, err := w.Write(part[:n]); err != nil {
				return // the client disconnected
			}
		}
		if follow && n > 0 {
			_ = out.Flush()
		}
		if err != nil {
			return // io.EOF, or the client disconnected
		}
	}
}

// outputOf returns the output of the newest run of a container, or of the one before.
//
// Upstream: pkg/kubelet Kubelet.validateContainerLogStatus (v1.36).
func (s *server) outputOf(pod *corev1.Pod, name string, previous bool) (*container.Output, error) {
	runtime := s.host.Containers()
	if runtime == nil {
		return nil, errNoRuntime
	}
	status, found := statusOf(pod, name)
	runs := runsOf(runtime, pod, name)
	if previous && len(runs) > 0 && !(status.State.Waiting != nil && runtime.State(runs[len(runs)-1]).Exited) {
		runs = runs[:len(runs)-1] // the newest is the current one, unless the container waits to be restarted
	}
	switch {
	case len(runs) > 0:
		run := runs[len(runs)-1]
		if output := runtime.Log(run); output != nil {
			return output, nil
		}
		return nil, errors.New(unavailableText + run.Container + "/" + strconv.Itoa(int(run.Restarts)))
	case previous:
		return nil, fmt.Errorf("previous terminated container %q in pod %q not found", name, pod.Name)
	case !found:
		return nil, fmt.Errorf("container %q in pod %q is not available", name, pod.Name)
	}
	return nil, withoutRun(pod, status)
}

// withoutRun returns the error for the log of a container of which the runtime has no run.
func withoutRun(pod *corev1.Pod, status corev1.ContainerStatus) error {
	about := "container " + strconv.Quote(status.Name) + " in pod " + strconv.Quote(pod.Name)
	ended := cmp.Or(status.State.Terminated, status.LastTerminationState.Terminated)
	switch state := status.State; {
	case state.Running != nil:
		return errors.New(unavailableText + status.ContainerID)
	case ended != nil && ended.ContainerID != "":
		return errors.New(unavailableText + ended.ContainerID)
	case ended != nil:
		return errors.New(about + " is terminated")
	case state.Waiting == nil:
		return errors.New(about + " is waiting to start - no logs yet")
	default:
		return errors.New(about + " is waiting to start: " + state.Waiting.Reason)
	}
}
