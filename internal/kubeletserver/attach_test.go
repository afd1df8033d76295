package kubeletserver_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/kubelet/container"
)

// attach attaches to a container with a protocol.
func attach(ctx context.Context, config *clientrest.Config, pod string, opts *corev1.PodAttachOptions, streams remotecommand.StreamOptions, protocol string) string {
	url := client(config).CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name(pod).SubResource("attach").
		VersionedParams(opts, scheme.ParameterCodec).URL()
	if err := executor(config, url, protocol).StreamWithContext(ctx, streams); err != nil {
		return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "unable to upgrade streaming request: "), "unable to upgrade connection: ")
	}
	return ""
}

// A signal is a writer that says when something was written.
type signal struct {
	text    bytes.Buffer
	written chan struct{}
}

func (s *signal) Write(p []byte) (int, error) {
	n, err := s.text.Write(p)
	s.written <- struct{}{}
	return n, err
}

// TestAttach: a client has what the command writes from then on until it ends.
func TestAttach(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{v5, v4, spdy + v4} {
		w := newWorld(t, fake.Config{})
		out := w.runtime.start("web", "app")
		w.stdin = map[types.UID]*container.Input{"web": container.NewInput()}
		out.Write(epoch, container.Stdout, []byte("before\n"))
		stdout, stderr := signal{written: make(chan struct{}, 10)}, signal{written: make(chan struct{}, 10)}
		stdin, typed := io.Pipe()
		ended := make(chan string, 1)
		go func() {
			opts := &corev1.PodAttachOptions{Stdin: true, Stdout: true, Stderr: true}
			streams := remotecommand.StreamOptions{Stdin: stdin, Stdout: &stdout, Stderr: &stderr}
			ended <- attach(t.Context(), w.config, "web", opts, streams, protocol)
		}()
		read := make(chan struct{}, 1)
		w.stdin["web"].Wake(func() { read <- struct{}{} })
		_, err := typed.Write([]byte("typed"))
		testcheck.NoError(t, err)
		<-read // so the client is attached
		part := make([]byte, 10)
		n, err := w.stdin["web"].Take(part)
		testcheck.NoError(t, err)
		testcheck.Equal(t, "stdin", "typed", string(part[:n]))
		out.Write(epoch, container.Stdout, []byte("out\n"))
		<-stdout.written
		out.Write(epoch, container.Stderr, []byte("err\n"))
		<-stderr.written
		w.runtime.exit("web", "app", 3)
		testcheck.Equal(t, "failure", "", <-ended)
		testcheck.Equal(t, "stdout", "out\n", stdout.text.String())
		testcheck.Equal(t, "stderr", "err\n", stderr.text.String())
		testcheck.NoError(t, typed.Close())
	}
}

// TestDetach: the command goes on without its client; its stdin is closed if it asks for one client.
func TestDetach(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		once     bool
		protocol string
	}{{false, v5}, {true, v5}, {true, spdy + v4}} {
		t.Run(fmt.Sprint(tt.once, " by ", tt.protocol), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fake.Config{})
			w.responses = make(chan int, 10)
			w.listen(w)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "own", UID: "own"}, Spec: corev1.PodSpec{
				NodeName: "node-1", Containers: []corev1.Container{{Name: "app", Image: "a", Stdin: true, StdinOnce: tt.once}},
			}}
			testcheck.NoError(t, w.api.Add(pod))
			w.runtime.start("own", "app")
			input := container.NewInput()
			w.stdin = map[types.UID]*container.Input{"own": input}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan string, 1)
			stdin, typed := io.Pipe()
			read := make(chan struct{}, 10)
			input.Wake(func() { read <- struct{}{} })
			go func() {
				ended <- attach(ctx, w.config, "own", &corev1.PodAttachOptions{Stdin: true, Stdout: true},
					remotecommand.StreamOptions{Stdin: stdin, Stdout: io.Discard}, tt.protocol)
			}()
			_, err := typed.Write([]byte("a"))
			testcheck.NoError(t, err)
			<-read
			cancel()
			if got := <-ended; got == "" {
				t.Error("the client has no error")
			}
			testcheck.Equal(t, "code", 101, <-w.responses)
			testcheck.Equal(t, "end", 0, <-w.responses)
			_, err = input.Take(make([]byte, 10))
			testcheck.NoError(t, err)
			_, err = input.Take(make([]byte, 10))
			testcheck.Equal(t, "closed", tt.once, err == io.EOF)
			testcheck.Equal(t, "exited", false, w.runtime.State(w.runtime.Runs("own")[0]).Exited)
		})
	}
}

// TestAttachRefusals has the errors of requests to attach.
func TestAttachRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	w.runtime.start("web", "app")
	w.addPod("ended", "node-1", "app")
	w.runtime.start("ended", "app")
	w.runtime.exit("ended", "app", 0)
	w.addPod("bare", "node-3", "app")
	w.addPod("unknown", "node-1", "app")
	const handshake = "websocket: bad handshake"
	for _, tt := range []struct {
		pod  string
		opts corev1.PodAttachOptions
		want string
	}{
		{"gone", corev1.PodAttachOptions{Stdout: true}, `pods "gone" not found`},
		{"web", corev1.PodAttachOptions{Stdout: true, Container: "none"}, "container none is not valid for pod web"},
		{"web", corev1.PodAttachOptions{}, handshake + " (400 Bad Request): you must specify at least 1 of stdin, stdout, stderr"},
		{"ended", corev1.PodAttachOptions{Stdout: true}, handshake + " (500 Internal Server Error): container app not found in pod ended_default"},
		{"unknown", corev1.PodAttachOptions{Stdout: true}, handshake + " (404 Not Found): pod does not exist"},
		{
			"bare", corev1.PodAttachOptions{Stdout: true}, handshake + " (400 Bad Request): this cluster runs no containers, so there is neither a log " +
				"nor a command to execute (start it with --containers=shell, or cluster.Config.Containers)",
		},
	} {
		got := attach(t.Context(), w.config, tt.pod, &tt.opts, remotecommand.StreamOptions{Stdout: io.Discard}, v5)
		testcheck.Equal(t, "attach to "+tt.pod, tt.want, got)
		got = attach(t.Context(), w.config, tt.pod, &tt.opts, remotecommand.StreamOptions{Stdout: io.Discard}, spdy+v4)
		testcheck.Equal(t, "attach by SPDY to "+tt.pod, afterHandshake.ReplaceAllString(tt.want, ""), got)
	}
}

// TestAttachAccess: a user needs the verb create of pods/attach.
func TestAttachAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{RBAC: true})
	got := attach(t.Context(), w.as("guest"), "web", &corev1.PodAttachOptions{Stdout: true}, remotecommand.StreamOptions{Stdout: io.Discard}, v5)
	testcheck.Equal(t, "attach", `pods "web" is forbidden: User "guest" cannot get resource "pods/attach" in API group "" in the namespace "default"`, got)
	got = attach(t.Context(), w.as("guest"), "web", &corev1.PodAttachOptions{Stdout: true}, remotecommand.StreamOptions{Stdout: io.Discard}, spdy+v4)
	testcheck.Equal(t, "attach by SPDY", `pods "web" is forbidden: User "guest" cannot create resource "pods/attach" in API group "" in the namespace "default"`, got)
}

// TestDiscoveryOfConnections: a server with kubelets lists what they answer.
func TestDiscoveryOfConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	list := testcheck.Must(client(w.config).Discovery().ServerResourcesForGroupVersion("v1"))
	var got []string
	for _, r := range list.APIResources {
		if strings.HasPrefix(r.Name, "pods/") {
			got = append(got, r.Name+" "+r.Kind+" "+strings.Join(r.Verbs, ","))
		}
	}
	testcheck.Equal(t, "subresources", []string{
		"pods/attach PodAttachOptions create,get", "pods/binding Binding create", "pods/ephemeralcontainers Pod get,patch,update",
		"pods/eviction Eviction create", "pods/exec PodExecOptions create,get", "pods/log Pod get", "pods/status Pod get,patch,update",
	}, got)
}
