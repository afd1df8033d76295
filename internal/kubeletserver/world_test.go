package kubeletserver_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/internal/auditrecord"
	"github.com/volsim/volsim/internal/kubeletserver"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/kubelet/container"
	"github.com/volsim/volsim/sim"
)

// epoch is the time of the world.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// A command is one that a scripted runtime executes: it returns its exit code. killed is closed by Kill.
type command func(args []string, in *container.Input, out *container.Output, killed <-chan struct{}) int32

// A scriptedRuntime has runs that a test starts, writes and ends.
type scriptedRuntime struct {
	container.Runtime // the methods that the server does not use

	mu       sync.Mutex
	states   map[container.Run]container.State
	logs     map[container.Run]*container.Output
	commands map[string]command // by their first argument
	killed   chan string        // the commands that were killed
}

// exitKilled is the exit code after KILL.
const exitKilled = 137

func newRuntime() *scriptedRuntime {
	return &scriptedRuntime{
		states: map[container.Run]container.State{}, logs: map[container.Run]*container.Output{},
		commands: map[string]command{"cat": cat, "both": both, "exit": exit, "wait": wait, "write": write}, killed: make(chan string, 10),
	}
}

// start starts the next run of a container, and returns its output.
func (r *scriptedRuntime) start(pod, name string) *container.Output {
	n := int32(len(slices.DeleteFunc(r.Runs(types.UID(pod)), func(run container.Run) bool { return run.Container != name })))
	r.mu.Lock()
	defer r.mu.Unlock()
	run := container.Run{Pod: types.UID(pod), Container: name, Restarts: n}
	r.states[run], r.logs[run] = container.State{Started: true}, container.NewOutput(0)
	return r.logs[run]
}

// exit ends the newest run of a container.
func (r *scriptedRuntime) exit(pod, name string, code int32) {
	runs := slices.DeleteFunc(r.Runs(types.UID(pod)), func(run container.Run) bool { return run.Container != name })
	r.mu.Lock()
	defer r.mu.Unlock()
	run := runs[len(runs)-1]
	r.states[run] = container.State{Started: true, Exited: true, Code: code}
	r.logs[run].Close()
}

func (r *scriptedRuntime) Runs(pod types.UID) []container.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	runs := slices.DeleteFunc(slices.Collect(maps.Keys(r.states)), func(run container.Run) bool { return run.Pod != pod })
	slices.SortFunc(runs, func(a, b container.Run) int { return int(a.Restarts - b.Restarts) })
	return runs
}

func (r *scriptedRuntime) State(run container.Run) container.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.states[run]
}

func (r *scriptedRuntime) Log(run container.Run) *container.Output {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.logs[run]
}

func (r *scriptedRuntime) Exec(_ container.Run, args []string, streams container.Streams) (*container.Execution, error) {
	run := r.commands[args[0]]
	if run == nil {
		return nil, container.ErrNotRunning
	}
	done, killed, code := make(chan struct{}), make(chan struct{}), int32(0)
	go func() {
		code = run(args, streams.Stdin, streams.Output, killed)
		streams.Output.Close()
		close(done)
	}()
	return &container.Execution{Done: done, Code: func() int32 { <-done; return code }, Kill: func() {
		r.killed <- args[0]
		close(killed)
	}}, nil
}

// cat writes its input to stdout.
func cat(_ []string, in *container.Input, out *container.Output, killed <-chan struct{}) int32 {
	woken := make(chan struct{}, 1)
	in.Wake(func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	part := make([]byte, 1<<10)
	for {
		n, err := in.Take(part)
		switch {
		case err != nil:
			return 0
		case n > 0:
			out.Write(epoch, container.Stdout, part[:n])
			continue
		}
		select {
		case <-woken:
		case <-killed:
			return exitKilled
		}
	}
}

// both writes to stdout and stderr.
func both(_ []string, _ *container.Input, out *container.Output, _ <-chan struct{}) int32 {
	out.Write(epoch, container.Stdout, []byte("out\n"))
	out.Write(epoch, container.Stderr, []byte("err\n"))
	return 0
}

// exit fails.
func exit([]string, *container.Input, *container.Output, <-chan struct{}) int32 { return 3 }

// wait waits until it is killed.
func wait(_ []string, _ *container.Input, out *container.Output, killed <-chan struct{}) int32 {
	out.Write(epoch, container.Stdout, []byte("waiting\n"))
	<-killed
	return exitKilled
}

// write writes until it is killed.
func write(_ []string, _ *container.Input, out *container.Output, killed <-chan struct{}) int32 {
	for part := make([]byte, 1<<10); ; {
		select {
		case <-killed:
			return exitKilled
		default:
			out.Write(epoch, container.Stdout, part)
		}
	}
}

// A world has one node with pods, and an API server that reaches its kubelet.
type world struct {
	testing.TB
	api       *fake.Server
	runtime   *scriptedRuntime
	stopped   chan struct{}                  // the kubelet's
	stdin     map[types.UID]*container.Input // of the pod's runs
	responses chan int                       // codes of responses that were recorded, and 0 at the end of each
	authority *apiserver.Authority
	listener  *apiserver.Listener
	config    *clientrest.Config
}

// Kubelet returns the HTTP server of node-1. The one of node-2 is down, and that of node-3 has no runtime.
func (w *world) Kubelet(node string) http.Handler {
	mux := http.NewServeMux()
	switch node {
	case "node-1":
		kubeletserver.Register(mux, kubeletOf{w, w.runtime})
	case "node-3":
		kubeletserver.Register(mux, kubeletOf{w, nil})
	default:
		return nil
	}
	return mux
}

// A kubeletOf is the kubelet of a node.
type kubeletOf struct {
	*world
	runtime container.Runtime
}

func (k kubeletOf) Pod(_ context.Context, namespace, name string) (*corev1.Pod, bool, error) {
	switch name {
	case "silent":
		return nil, false, errors.New("the kubelet does not answer")
	case "unknown":
		return nil, false, nil
	}
	found, ok := k.api.Get("pods", namespace, name)
	if !ok {
		return nil, false, nil
	}
	return found.(*corev1.Pod), true, nil
}

func (k kubeletOf) Stdin(_ context.Context, run container.Run) (*container.Input, error) {
	return k.stdin[run.Pod], nil
}
func (k kubeletOf) Containers() container.Runtime { return k.runtime }
func (k kubeletOf) Now() time.Time                { return epoch.Add(time.Minute) }
func (k kubeletOf) Stopped() <-chan struct{}      { return k.stopped }

// Begin and Respond record the codes of responses.
func (w *world) Begin(*http.Request, auditrecord.Request) (auditrecord.Record, error) {
	return &response{responses: w.responses}, nil
}

type response struct {
	auditrecord.None
	responses chan int
	responded bool
}

func (r *response) Respond(code int) {
	if !r.responded {
		r.responses <- code
	}
	r.responded = true
}
func (r *response) Complete() { r.responses <- 0 }

func newWorld(t testing.TB, cfg fake.Config) *world {
	t.Helper()
	w := &world{TB: t, runtime: newRuntime(), stopped: make(chan struct{}), authority: testcheck.Must(apiserver.NewAuthority())}
	cfg.Now, cfg.Kubelets = time.Now, w
	w.api = fake.NewServer(cfg)
	w.listen(nil)
	for _, node := range []string{"node-1", "node-2", "node-3"} {
		testcheck.NoError(t, w.api.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))
	}
	w.addPod("web", "node-1", "app")
	return w
}

// listen serves the API.
func (w *world) listen(audit auditrecord.Log) {
	handler := apiserver.NewHandler(w.api, apiserver.HandlerConfig{
		Caller: func(*http.Request) sim.Caller { return sim.DirectCaller() }, Audit: audit,
	})
	w.listener = testcheck.Must(apiserver.Listen(apiserver.ListenConfig{Handler: handler, Authority: w.authority}))
	w.Cleanup(func() { testcheck.NoError(w, w.listener.Close()) })
	w.config = w.listener.Config()
}

// addPod adds a pod whose UID is its name. Its containers have no status.
func (w *world) addPod(name, node string, containers ...string) {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: node}}
	for _, c := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c, Image: "a"})
	}
	testcheck.NoError(w, w.api.Add(pod))
}

// setStatus sets the status of the container of a pod.
func (w *world) setStatus(name string, status corev1.ContainerStatus) {
	w.Helper()
	pods := w.api.Client(sim.DirectCaller()).CoreV1().Pods("default")
	pod, err := pods.Get(w.Context(), name, metav1.GetOptions{})
	testcheck.NoError(w, err)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	_, err = pods.UpdateStatus(w.Context(), pod, metav1.UpdateOptions{})
	testcheck.NoError(w, err)
}

// client returns a client of a configuration.
func client(config *clientrest.Config) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(config)
}

// memory returns a configuration that reaches the API server in memory.
func (w *world) memory() *clientrest.Config { return apiserver.NewConfig(w.api, sim.DirectCaller()) }

// logOf returns a log, or the error.
func logOf(ctx context.Context, config *clientrest.Config, pod string, opts *corev1.PodLogOptions) string {
	log, err := client(config).CoreV1().Pods("default").GetLogs(pod, opts).Stream(ctx)
	if err != nil {
		return "error: " + err.Error()
	}
	defer func() { _ = log.Close() }()
	text, err := io.ReadAll(log)
	if err != nil {
		return string(text) + " error: " + err.Error()
	}
	return string(text)
}

// as returns the configuration of a user.
func (w *world) as(user string) *clientrest.Config {
	cert, key, err := w.authority.NewClient(user)
	testcheck.NoError(w, err)
	config := clientrest.CopyConfig(w.config)
	config.BearerToken, config.CertData, config.KeyData = "", cert, key
	return config
}

// readLine returns the next line of a stream.
func readLine(t testing.TB, r io.Reader) string {
	t.Helper()
	var text []byte
	for one := make([]byte, 1); ; {
		if _, err := r.Read(one); err != nil {
			return string(text) + " " + err.Error()
		}
		if one[0] == '\n' {
			return string(text)
		}
		text = append(text, one[0])
	}
}
