package kubeletserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/kubelet/container"
)

// A Host is what the server knows of its kubelet. Its methods may be called by any goroutine.
type Host interface {
	// Pod returns a pod of the node, which is read-only. The bool is false if the kubelet knows no such pod. The
	// error is that the kubelet does not answer.
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, bool, error)
	// Stdin returns what a run reads. nil: nothing. The error is that the kubelet does not answer.
	Stdin(ctx context.Context, run container.Run) (*container.Input, error)
	// Containers returns what runs the node's containers. nil: nothing does.
	Containers() container.Runtime
	// Now returns the time of the world.
	Now() time.Time
	// Stopped returns a channel that is closed when the kubelet has stopped, which ends its connections. nil: it does not
	// stop.
	Stopped() <-chan struct{}
}

// errNoRuntime is the error of a cluster whose containers execute nothing.
var errNoRuntime = errors.New("this cluster runs no containers, so there is neither a log nor a command to execute " +
	"(start it with --containers=shell, or cluster.Config.Containers)")

// server answers requests.
type server struct{ host Host }

// Register adds the paths of containers to a kubelet's HTTP server.
//
// Upstream: pkg/kubelet/server Server.InstallAuthRequiredHandlers (v1.36).
func Register(mux *http.ServeMux, host Host) {
	s := &server{host}
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.containerLogs)
	mux.HandleFunc("GET /exec/{namespace}/{pod}/{container}", s.exec)
	mux.HandleFunc("POST /exec/{namespace}/{pod}/{container}", s.exec)
	mux.HandleFunc("GET /attach/{namespace}/{pod}/{container}", s.attach)
	mux.HandleFunc("POST /attach/{namespace}/{pod}/{container}", s.attach)
}

// refuse answers with an error, as text. Clients of exec parse it as YAML first, so a text with ": " is lost: they
// take it for a Status without a message.
func refuse(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text)) // an error means that the client disconnected
}

// pod returns the pod of a request, or answers with an error. missing is the text for a pod that does not exist.
func (s *server) pod(w http.ResponseWriter, r *http.Request, missing string) *corev1.Pod {
	pod, found, err := s.host.Pod(r.Context(), r.PathValue("namespace"), r.PathValue("pod"))
	switch {
	case err != nil:
		refuse(w, http.StatusServiceUnavailable, encode(statusFor(apierrors.NewServiceUnavailable(err.Error()))))
		return nil
	case !found:
		refuse(w, http.StatusNotFound, missing)
		return nil
	}
	return pod
}

// statusFor returns the Status of an error, with its kind.
func statusFor(err *apierrors.StatusError) *metav1.Status {
	err.ErrStatus.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return &err.ErrStatus
}

// encode returns a Status as JSON.
func encode(s *metav1.Status) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic("kubelet: encode a status: " + err.Error()) // its fields always encode
	}
	return string(text)
}

// hasContainer reports whether the spec of a pod has a container.
//
// Upstream: pkg/kubelet/container GetContainerSpec (v1.36).
func hasContainer(pod *corev1.Pod, name string) bool {
	named := func(c corev1.Container) bool { return c.Name == name }
	return slices.ContainsFunc(pod.Spec.Containers, named) || slices.ContainsFunc(pod.Spec.InitContainers, named) ||
		slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == name })
}

// statusOf returns the status of a container. The bool is false if the pod's status has none.
func statusOf(pod *corev1.Pod, name string) (corev1.ContainerStatus, bool) {
	for _, all := range [][]corev1.ContainerStatus{
		pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses,
	} {
		if i := slices.IndexFunc(all, func(s corev1.ContainerStatus) bool { return s.Name == name }); i >= 0 {
			return all[i], true
		}
	}
	return corev1.ContainerStatus{}, false
}

// runsOf returns the runs of a container, the newest last.
func runsOf(r container.Runtime, pod *corev1.Pod, name string) []container.Run {
	return slices.DeleteFunc(r.Runs(pod.UID), func(run container.Run) bool { return run.Container != name })
}
