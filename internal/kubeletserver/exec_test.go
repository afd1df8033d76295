package kubeletserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	clientspdy "k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// execURL returns the URL of a command in a pod.
func execURL(config *clientrest.Config, pod string, opts *corev1.PodExecOptions) *url.URL {
	return client(config).CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name(pod).SubResource("exec").
		VersionedParams(opts, scheme.ParameterCodec).URL()
}

// A result is what a client has of a command.
type result struct {
	Out, Err string // stdout and stderr
	Code     int
	Failure  string // other than a code
}

// executor returns client-go's executor for a protocol: by SPDY if it begins with spdy, otherwise by WebSocket.
func executor(config *clientrest.Config, to *url.URL, protocol string) remotecommand.Executor {
	if older, isSPDY := strings.CutPrefix(protocol, spdy); isSPDY {
		transport, upgrader, err := clientspdy.RoundTripperFor(config)
		if err != nil {
			panic(err)
		}
		return testcheck.Must(remotecommand.NewSPDYExecutorForProtocols(transport, upgrader, http.MethodPost, to, older))
	}
	return testcheck.Must(remotecommand.NewWebSocketExecutorForProtocols(config, http.MethodGet, to.String(), protocol))
}

// The protocols of the tests. spdy precedes those of connections by SPDY.
const (
	v5   = "v5.channel.k8s.io"
	v4   = "v4.channel.k8s.io"
	spdy = "SPDY "
)

// execute executes a command. stdin may be nil.
func execute(ctx context.Context, config *clientrest.Config, pod string, opts *corev1.PodExecOptions, stdin io.Reader, protocol string) result {
	opts.Stdin = stdin != nil
	e := executor(config, execURL(config, pod, opts), protocol)
	var stdout, stderr bytes.Buffer
	streams := remotecommand.StreamOptions{Stdin: stdin, Tty: opts.TTY}
	if opts.Stdout {
		streams.Stdout = &stdout
	}
	if opts.Stderr {
		streams.Stderr = &stderr
	}
	err := e.StreamWithContext(ctx, streams)
	r := result{Out: stdout.String(), Err: stderr.String()}
	var failed exec.CodeExitError
	switch {
	case errors.As(err, &failed):
		r.Code = failed.Code
	case err != nil:
		r.Failure = err.Error()
	}
	return r
}

// or returns a result, or another one if it is empty.
func (r result) or(other result) result {
	if r == (result{}) {
		return other
	}
	return r
}

// TestExec executes commands by all protocols. The older ones of SPDY have only the text of a failure.
func TestExec(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	w.runtime.start("web", "app")
	large := strings.Repeat("0123456789abcdef", 1<<16)
	for _, tt := range []struct {
		name, command, stdin string
		opts                 corev1.PodExecOptions
		want, older          result
	}{
		{"both streams", "both", "", corev1.PodExecOptions{Stdout: true, Stderr: true}, result{Out: "out\n", Err: "err\n"}, result{}},
		{"stdout only", "both", "", corev1.PodExecOptions{Stdout: true}, result{Out: "out\n"}, result{}},
		{"stderr only", "both", "", corev1.PodExecOptions{Stderr: true}, result{Err: "err\n"}, result{}},
		{
			"failed", "exit", "",
			corev1.PodExecOptions{Stdout: true, Stderr: true},
			result{Code: 3},
			result{Failure: "error executing remote command: command terminated with non-zero exit code: command terminated with exit code 3"},
		},
		{"stdin", "cat", "a\nb", corev1.PodExecOptions{Stdout: true, Stderr: true}, result{Out: "a\nb"}, result{}},
		{"much", "cat", large, corev1.PodExecOptions{Container: "app", Stdout: true}, result{Out: large}, result{}},
		{"stdin alone", "cat", "a", corev1.PodExecOptions{}, result{}, result{}},
		{"unread stdin", "both", large, corev1.PodExecOptions{Stdout: true}, result{Out: "out\n"}, result{}},
		{"terminal", "cat", "a", corev1.PodExecOptions{Stdout: true, TTY: true}, result{Out: "a"}, result{}},
		{
			"not executed", "none", "",
			corev1.PodExecOptions{Stdout: true},
			result{Failure: "Internal error occurred: error executing command in container: container not running"},
			result{Failure: "error executing remote command: Internal error occurred: error executing command in container: container not running"},
		},
	} {
		tt.opts.Command = []string{tt.command}
		for _, protocol := range []string{v5, v4, spdy + v4, spdy + "v3.channel.k8s.io", spdy + "v2.channel.k8s.io"} {
			if tt.stdin != "" && protocol == v4 {
				continue // it cannot close stdin
			}
			var stdin io.Reader
			if tt.stdin != "" {
				stdin = strings.NewReader(tt.stdin)
			}
			want := tt.want
			if strings.HasPrefix(protocol, spdy) && protocol != spdy+v4 {
				want = tt.older.or(want)
			}
			testcheck.Equal(t, tt.name+" by "+protocol, want, execute(t.Context(), w.config, "web", &tt.opts, stdin, protocol))
		}
	}
}

// TestExecEnds executes commands whose client disconnects, does not read, or whose kubelet stops: they are killed.
func TestExecEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, command string
		end           func(w *world, cancel context.CancelFunc)
	}{
		{"client of a silent command", "wait", func(_ *world, cancel context.CancelFunc) { cancel() }},
		{"client of a busy command", "write", func(_ *world, cancel context.CancelFunc) { cancel() }},
		{"kubelet", "wait", func(w *world, _ context.CancelFunc) { close(w.stopped) }},
		{"server", "wait", func(w *world, _ context.CancelFunc) { testcheck.NoError(w, w.listener.Close()) }},
	} {
		for _, protocol := range []string{v5, spdy + v4} {
			t.Run(tt.name+" by "+protocol, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, fake.Config{})
				w.responses = make(chan int, 10)
				w.listen(w)
				w.runtime.start("web", "app")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				err := executeUntilKilled(ctx, w, tt.command, protocol, func() { tt.end(w, cancel) })
				// A connection by SPDY that ends without a result is one of a command that succeeded, for client-go.
				testcheck.Equal(t, "has an error", ctx.Err() != nil || protocol == v5, err != nil)
				testcheck.Equal(t, "code", 101, <-w.responses)
				testcheck.Equal(t, "end", 0, <-w.responses)
			})
		}
	}
}

// executeUntilKilled executes a command whose client or server ends when it has written something. It returns the client's
// error.
func executeUntilKilled(ctx context.Context, w *world, command, protocol string, end func()) error {
	read, written := io.Pipe()
	opts := &corev1.PodExecOptions{Command: []string{command}, Stdin: true, Stdout: true}
	e := executor(w.config, execURL(w.config, "web", opts), protocol)
	ended := make(chan error, 1)
	stdin, _ := io.Pipe()
	go func() {
		ended <- e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: written})
		_ = written.Close()
	}()
	_, err := read.Read(make([]byte, 1))
	testcheck.NoError(w, err)
	go func() { _, _ = io.Copy(io.Discard, read) }()
	end()
	testcheck.Equal(w, "killed", command, <-w.runtime.killed)
	return <-ended
}

// TestExecRefusals has the errors of requests to execute a command.
func TestExecRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	w.runtime.start("web", "app")
	w.addPod("two", "node-1", "a", "b")
	w.runtime.start("two", "b")
	w.runtime.exit("two", "b", 0)
	w.addPod("down", "node-2", "app")
	w.addPod("bare", "node-3", "app")
	w.addPod("homeless", "", "app")
	w.addPod("lost", "node-4", "app")
	w.addPod("silent", "node-1", "app")
	w.addPod("unknown", "node-1", "app")
	const handshake = "websocket: bad handshake"
	ls := []string{"ls"}
	for _, tt := range []struct {
		pod  string
		opts corev1.PodExecOptions
		want string
	}{
		{"gone", corev1.PodExecOptions{Stdout: true, Command: ls}, `pods "gone" not found`},
		{"homeless", corev1.PodExecOptions{Stdout: true, Command: ls}, "pod homeless does not have a host assigned"},
		{"lost", corev1.PodExecOptions{Stdout: true, Command: ls}, `nodes "node-4" not found`},
		{"down", corev1.PodExecOptions{Stdout: true, Command: ls}, "error dialing backend: kubelet of node-2: connection refused"},
		{
			"bare",
			corev1.PodExecOptions{Stdout: true, Command: ls},
			handshake + " (400 Bad Request): this cluster runs no containers, so there is neither a log nor a command to execute " +
				"(start it with --containers=shell, or cluster.Config.Containers)",
		},
		{"two", corev1.PodExecOptions{Stdout: true, Command: ls}, "a container name must be specified for pod two, choose one of: [a b]"},
		{"two", corev1.PodExecOptions{Stdout: true, Command: ls, Container: "c"}, "container c is not valid for pod two"},
		{"two", corev1.PodExecOptions{Stdout: true, Command: ls, Container: "a"}, handshake + ` (500 Internal Server Error): container not found ("a")`},
		{"two", corev1.PodExecOptions{Stdout: true, Command: ls, Container: "b"}, handshake + ` (500 Internal Server Error): container not found ("b")`},
		{"web", corev1.PodExecOptions{Command: ls}, handshake + " (400 Bad Request): you must specify at least 1 of stdin, stdout, stderr"},
		{"web", corev1.PodExecOptions{Stdout: true}, handshake + " (400 Bad Request): you must specify at least one command for the container"},
		{"silent", corev1.PodExecOptions{Stdout: true, Command: ls}, "the kubelet does not answer"},
		{"unknown", corev1.PodExecOptions{Stdout: true, Command: ls}, handshake + " (404 Not Found): pod does not exist"},
	} {
		name := "exec in " + tt.pod + " with " + tt.opts.String()
		got := execute(t.Context(), w.config, tt.pod, &tt.opts, nil, v5)
		testcheck.Equal(t, name, tt.want, strings.TrimPrefix(got.Failure, "unable to upgrade streaming request: "))
		got = execute(t.Context(), w.config, tt.pod, &tt.opts, nil, spdy+v4)
		testcheck.Equal(t, name+" by SPDY", afterHandshake.ReplaceAllString(tt.want, ""), strings.TrimPrefix(got.Failure, "unable to upgrade connection: "))
	}
	v1 := execute(t.Context(), w.config, "web", &corev1.PodExecOptions{Stdout: true, Command: ls}, nil, "channel.k8s.io")
	testcheck.Equal(t, "old protocol", handshake+" (400 Bad Request): requested protocol(s) are not supported: "+
		"[channel.k8s.io]; supports [v5.channel.k8s.io v4.channel.k8s.io]", strings.TrimPrefix(v1.Failure, "unable to upgrade streaming request: "))
	v1 = execute(t.Context(), w.config, "web", &corev1.PodExecOptions{Stdout: true, Command: ls}, nil, spdy+"channel.k8s.io")
	testcheck.Equal(t, "old protocol by SPDY", "unable to upgrade connection: unable to upgrade: unable to negotiate protocol: "+
		"client supports [channel.k8s.io], server accepts [v4.channel.k8s.io v3.channel.k8s.io v2.channel.k8s.io]", v1.Failure)
}

// afterHandshake matches what a WebSocket's client writes before a kubelet's error.
var afterHandshake = regexp.MustCompile(`^websocket: bad handshake \([^)]*\): `)

// TestExecWithoutConnection requests a command without another protocol, with an unknown one, in memory, and by other methods.
func TestExecWithoutConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	w.runtime.start("web", "app")
	for _, tt := range []struct {
		name   string
		config *clientrest.Config
		method string
		query  string
		header []string
		want   string
	}{
		{"plain GET", w.config, "GET", "", nil, "Upgrade request required"},
		{"plain POST", w.config, "POST", "", nil, "Upgrade request required"},
		{"PUT", w.config, "PUT", "", nil, "the server does not allow this method on the requested resource"},
		{"dry run", w.config, "POST", "dryRun=All", nil, "dryRun is not supported"},
		{
			"in memory by SPDY", w.memory(), "POST", "",
			[]string{"Connection", "Upgrade", "Upgrade", "SPDY/3.1"},
			"no connection: a command can be executed only by a server that listens (apiserver.Listen)",
		},
		{
			"in memory", w.memory(), "GET", "",
			[]string{"Connection", "Upgrade", "Upgrade", "websocket"},
			"no connection: a command can be executed only by a server that listens (apiserver.Listen)",
		},
	} {
		request := client(tt.config).CoreV1().RESTClient().Verb(tt.method).
			RequestURI("/api/v1/namespaces/default/pods/web/exec?command=ls&stdout=true&" + tt.query)
		for i := 0; i < len(tt.header); i += 2 {
			request = request.SetHeader(tt.header[i], tt.header[i+1])
		}
		_, err := request.Stream(t.Context())
		testcheck.Equal(t, tt.name, tt.want, fmt.Sprint(err))
	}
	for _, tt := range []struct{ name, method, upgrade, want string }{
		{"no connection", "GET", "websocket", "500 Internal Server Error\n"},
		{"a page of another server", "GET", "websocket", "403 Forbidden\n"},
		{"POST", "POST", "websocket", "405 Method Not Allowed\n"},
		{"SPDY without a connection", "POST", "SPDY/3.1", "500 unable to upgrade: unable to hijack response"},
		{"no upgrade", "POST", "", "400 Upgrade request required"},
		{
			"unknown upgrade", "POST", "h2c",
			"400 unable to upgrade to h2c, which is not supported (use WebSocket with v5.channel.k8s.io, or SPDY/3.1 with v4.channel.k8s.io)",
		},
		{"no protocol", "POST", "SPDY/3.1", "400 unable to upgrade: header X-Stream-Protocol-Version does not exist in request with 5 headers"},
		{"empty protocol", "POST", "SPDY/3.1", "400 unable to upgrade: header X-Stream-Protocol-Version contains [,], but no valid protocols"},
	} {
		asked := httptest.NewRequestWithContext(t.Context(), tt.method, "/exec/default/web/app?command=ls&output=1", nil)
		for name, value := range map[string]string{
			"Connection": "Upgrade", "Upgrade": tt.upgrade, "Sec-Websocket-Version": "13", "Sec-Websocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==",
			"Sec-Websocket-Protocol": v5, "X-Stream-Protocol-Version": v4,
		} {
			if value != "" {
				asked.Header.Set(name, value)
			}
		}
		switch tt.name {
		case "a page of another server":
			asked.Header.Set("Origin", "https://other.example")
		case "no protocol":
			asked.Header.Del("X-Stream-Protocol-Version")
		case "empty protocol":
			asked.Header.Set("X-Stream-Protocol-Version", ",")
		}
		r := httptest.NewRecorder()
		w.Kubelet("node-1").ServeHTTP(r, asked)
		testcheck.Equal(t, tt.name, tt.want, strconv.Itoa(r.Code)+" "+r.Body.String())
	}
}

// TestAccess reads logs and executes commands as users with different rights. A WebSocket requires those of both verbs, a
// POST of SPDY that of create.
func TestAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{RBAC: true})
	w.runtime.start("web", "app")
	grant := func(user, verb string, resources ...string) {
		name := metav1.ObjectMeta{Namespace: "default", Name: user + "-" + verb}
		access := w.api.Client(sim.DirectCaller()).RbacV1()
		_, err := access.Roles("default").Create(t.Context(), &rbacv1.Role{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: resources, Verbs: []string{verb}},
		}}, metav1.CreateOptions{})
		testcheck.NoError(t, err)
		_, err = access.RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
		}, metav1.CreateOptions{})
		testcheck.NoError(t, err)
	}
	grant("reader", "get", "pods/log")
	grant("viewer", "get", "pods", "pods/exec")
	grant("creator", "create", "pods/exec")
	grant("operator", "get", "pods/exec")
	grant("operator", "create", "pods/exec")
	forbidden := func(user, verb, resource string) string {
		return fmt.Sprintf(`pods "web" is forbidden: User %q cannot %s resource %q in API group "" in the namespace "default"`, user, verb, resource)
	}
	for _, tt := range []struct{ user, log, exec, spdy string }{
		{"guest", "error: " + forbidden("guest", "get", "pods/log"), forbidden("guest", "get", "pods/exec"), forbidden("guest", "create", "pods/exec")},
		{"reader", "", forbidden("reader", "get", "pods/exec"), forbidden("reader", "create", "pods/exec")},
		{"viewer", "error: " + forbidden("viewer", "get", "pods/log"), `pods "web" is forbidden: `, forbidden("viewer", "create", "pods/exec")},
		{"creator", "error: " + forbidden("creator", "get", "pods/log"), forbidden("creator", "get", "pods/exec"), ""},
		{"operator", "error: " + forbidden("operator", "get", "pods/log"), "", ""},
	} {
		config := w.as(tt.user)
		testcheck.Equal(t, "log of "+tt.user, tt.log, logOf(t.Context(), config, "web", &corev1.PodLogOptions{}))
		got := execute(t.Context(), config, "web", &corev1.PodExecOptions{Command: []string{"both"}, Stdout: true}, nil, v5)
		testcheck.Equal(t, "exec of "+tt.user, tt.exec, strings.TrimPrefix(got.Failure, "unable to upgrade streaming request: "))
		got = execute(t.Context(), config, "web", &corev1.PodExecOptions{Command: []string{"both"}, Stdout: true}, nil, spdy+v4)
		testcheck.Equal(t, "exec by SPDY of "+tt.user, tt.spdy, strings.TrimPrefix(got.Failure, "unable to upgrade connection: "))
	}
}

// BenchmarkExec executes a command that writes two lines, by HTTPS on the loopback interface.
func BenchmarkExec(b *testing.B) {
	w := newWorld(b, fake.Config{})
	w.runtime.start("web", "app")
	opts := &corev1.PodExecOptions{Command: []string{"both"}, Stdout: true, Stderr: true}
	for b.Loop() {
		if got := execute(b.Context(), w.config, "web", opts, nil, v5); got.Out != "out\n" || got.Failure != "" {
			b.Fatal(got)
		}
	}
}
