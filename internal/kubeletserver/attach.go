package kubeletserver

import (
	"fmt"
	"math"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/kubelet/container"
)

// attach connects a client with the command of a container by WebSocket or SPDY. It sends what the command writes from then
// on, until that has ended. Several clients may be attached.
//
// Differs: a page of another server may not connect.
//
// Upstream: pkg/kubelet/server Server.getAttach, pkg/kubelet Kubelet.GetAttach (v1.36).
func (s *server) attach(w http.ResponseWriter, r *http.Request) {
	opts := streamOptions(w, r)
	if opts == nil {
		return
	}
	pod, runtime := s.podAndRuntime(w, r)
	if pod == nil {
		return
	}
	name := r.PathValue("container")
	run, found := running(runtime, pod, name)
	log := runtime.Log(run)
	if !found || log == nil {
		refuse(w, http.StatusInternalServerError, fmt.Sprintf("container %s not found in pod %s_%s", name, pod.Name, pod.Namespace))
		return
	}
	var stdin *container.Input
	if opts.Stdin {
		var err error
		if stdin, err = s.host.Stdin(r.Context(), run); err != nil {
			refuse(w, http.StatusServiceUnavailable, err.Error())
			return
		}
	}
	_, position, _, _ := log.Read(math.MaxInt)
	conn := connect(w, r, opts, s.host.Stopped())
	if conn == nil {
		return
	}
	once := closesStdin(pod, name)
	x := newExecution(conn, opts, stdin, !once)
	defer x.close()
	if stdin != nil && once {
		defer func() { _ = stdin.Close() }() // it returns no error
	}
	defer x.endWith([]<-chan struct{}{r.Context().Done(), s.host.Stopped()})()
	if x.conn.greet(opts) == nil && x.copyLog(log, position) == nil {
		x.finish(&metav1.Status{Status: metav1.StatusSuccess})
	}
}

// closesStdin reports whether the stdin of a container is closed when its first client detaches.
func closesStdin(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.EphemeralContainers {
		if c := &pod.Spec.EphemeralContainers[i]; c.Name == name {
			return c.StdinOnce
		}
	}
	for _, all := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range all {
			if all[i].Name == name {
				return all[i].StdinOnce
			}
		}
	}
	return false
}

// copyLog sends a log from a position on until it ends. The error is errGone.
func (x *execution) copyLog(log *container.Output, position int) error {
	for {
		entries, next, ended, changed := log.Read(position)
		position = next
		for _, e := range entries {
			if err := x.sendEntry(e); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		select {
		case <-changed:
		case <-x.gone:
			return errGone
		}
	}
}
