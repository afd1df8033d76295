package kubeletserver_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/kubelet/container"
)

// writeLog writes a log of five lines, and the beginning of a sixth one: at 0 s, 10 s, and so on.
func writeLog(out *container.Output) {
	at := func(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }
	out.Write(at(0), container.Stdout, []byte("one\ntwo\n"))
	out.Write(at(10), container.Stdout, []byte("thr"))
	out.Write(at(20), container.Stderr, []byte("bad\n"))
	out.Write(at(30), container.Stdout, []byte("ee\n"))
	out.Write(at(40), container.Stderr, []byte("worse\n"))
	out.Write(at(50), container.Stdout, []byte("rest"))
}

// configs are the ways to an API server.
func (w *world) configs() map[string]*clientrest.Config {
	return map[string]*clientrest.Config{"https": w.config, "memory": w.memory()}
}

// TestLogs reads the log of a container that runs, and of one that has exited.
func TestLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	w.addPod("done", "node-1", "app")
	writeLog(w.runtime.start("web", "app"))
	writeLog(w.runtime.start("done", "app"))
	w.runtime.exit("done", "app", 0)
	since := metav1.NewTime(epoch.Add(30 * time.Second))
	for _, tt := range []struct {
		pod  string
		opts corev1.PodLogOptions
		want string
	}{
		{"web", corev1.PodLogOptions{}, "one\ntwo\nbad\nthree\nworse\n"},
		{"web", corev1.PodLogOptions{Container: "app"}, "one\ntwo\nbad\nthree\nworse\n"},
		{"done", corev1.PodLogOptions{}, "one\ntwo\nbad\nthree\nworse\nrest\n"},
		{"done", corev1.PodLogOptions{Follow: true}, "one\ntwo\nbad\nthree\nworse\nrest\n"},
		{"done", corev1.PodLogOptions{TailLines: ptr.To[int64](2)}, "worse\nrest\n"},
		{"done", corev1.PodLogOptions{TailLines: ptr.To[int64](2), Follow: true}, "worse\nrest\n"},
		{"done", corev1.PodLogOptions{TailLines: ptr.To[int64](9)}, "one\ntwo\nbad\nthree\nworse\nrest\n"},
		{"done", corev1.PodLogOptions{TailLines: ptr.To[int64](0)}, ""},
		{"web", corev1.PodLogOptions{LimitBytes: ptr.To[int64](6)}, "one\ntw"},
		{"web", corev1.PodLogOptions{LimitBytes: ptr.To[int64](8), Follow: true}, "one\ntwo\n"},
		{"web", corev1.PodLogOptions{Stream: ptr.To(corev1.LogStreamStdout)}, "one\ntwo\nthree\n"},
		{"web", corev1.PodLogOptions{Stream: ptr.To(corev1.LogStreamStderr)}, "bad\nworse\n"},
		{"web", corev1.PodLogOptions{Stream: ptr.To(corev1.LogStreamStderr), LimitBytes: ptr.To[int64](5)}, "bad\nw"},
		{"web", corev1.PodLogOptions{SinceTime: &since}, "three\nworse\n"},
		{"web", corev1.PodLogOptions{SinceTime: &since, TailLines: ptr.To[int64](3)}, "three\nworse\n"},
		{"web", corev1.PodLogOptions{SinceSeconds: ptr.To[int64](25)}, "worse\n"}, // the kubelet's clock is at 60 s
		{"web", corev1.PodLogOptions{SinceSeconds: ptr.To[int64](1 << 62)}, "one\ntwo\nbad\nthree\nworse\n"},
		{
			"web",
			corev1.PodLogOptions{Timestamps: true, TailLines: ptr.To[int64](2)},
			"2026-01-01T00:00:30.000000000Z three\n2026-01-01T00:00:40.000000000Z worse\n",
		},
		{"web", corev1.PodLogOptions{Timestamps: true, LimitBytes: ptr.To[int64](33)}, "2026-01-01T00:00:00.000000000Z on"},
	} {
		for way, config := range w.configs() {
			testcheck.Equal(t, way+": log of "+tt.pod+" with "+tt.opts.String(), tt.want, logOf(t.Context(), config, tt.pod, &tt.opts))
		}
	}
}

// TestLogOfRestarts reads the logs of the runs of a container.
func TestLogOfRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	const missing = `error: previous terminated container "app" in pod "web" not found`
	check := func(when, current, previous string) {
		t.Helper()
		testcheck.Equal(t, when, current, logOf(t.Context(), w.config, "web", &corev1.PodLogOptions{}))
		testcheck.Equal(t, "previous, "+when, previous, logOf(t.Context(), w.config, "web", &corev1.PodLogOptions{Previous: true}))
	}
	check("without a status", `error: container "app" in pod "web" is not available`, missing)
	w.setStatus("web", corev1.ContainerStatus{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}})
	check("waiting", `error: container "app" in pod "web" is waiting to start: ContainerCreating`, missing)
	w.runtime.start("web", "app").Write(epoch, container.Stdout, []byte("first\n"))
	w.setStatus("web", corev1.ContainerStatus{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	check("first run", "first\n", missing)
	w.runtime.exit("web", "app", 1)
	check("exited", "first\n", missing)
	last := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
	w.setStatus("web", corev1.ContainerStatus{
		Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, LastTerminationState: last,
	})
	check("backing off", "first\n", "first\n")
	w.runtime.start("web", "app").Write(epoch, container.Stdout, []byte("second\n"))
	check("second run", "second\n", "first\n")
}

// TestLogRefusals has the errors of requests for logs.
func TestLogRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	w.runtime.start("web", "app")
	w.addPod("two", "node-1", "a", "b")
	w.addPod("down", "node-2", "app")
	w.addPod("bare", "node-3", "app")
	w.addPod("homeless", "", "app")
	w.addPod("lost", "node-4", "app")
	w.addPod("silent", "node-1", "app")
	w.addPod("unknown", "node-1", "app")
	w.addPod("ran", "node-1", "app")
	w.setStatus("ran", corev1.ContainerStatus{Name: "app", ContainerID: "sim://1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	w.addPod("over", "node-1", "app")
	w.setStatus("over", corev1.ContainerStatus{Name: "app", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}})
	w.addPod("begun", "node-1", "app")
	w.setStatus("begun", corev1.ContainerStatus{Name: "app"})
	for _, tt := range []struct {
		pod  string
		opts corev1.PodLogOptions
		want string
	}{
		{"gone", corev1.PodLogOptions{}, `error: pods "gone" not found`},
		{"homeless", corev1.PodLogOptions{}, ""},
		{"lost", corev1.PodLogOptions{}, `error: nodes "node-4" not found`},
		{"down", corev1.PodLogOptions{}, "error: error dialing backend: kubelet of node-2: connection refused"},
		{
			"bare",
			corev1.PodLogOptions{},
			"error: this cluster runs no containers, so there is neither a log nor a command to execute " +
				"(start it with --containers=shell, or cluster.Config.Containers)",
		},
		{"two", corev1.PodLogOptions{}, "error: a container name must be specified for pod two, choose one of: [a b]"},
		{"two", corev1.PodLogOptions{Container: "a"}, `error: container "a" in pod "two" is not available`},
		{"two", corev1.PodLogOptions{Container: "c"}, "error: container c is not valid for pod two"},
		{"web", corev1.PodLogOptions{TailLines: ptr.To[int64](-1)}, `error: PodLogOptions "web" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0`},
		{"web", corev1.PodLogOptions{Stream: ptr.To("none")}, `error: PodLogOptions "web" is invalid: stream: Unsupported value: "none": supported values: "All", "Stderr", "Stdout"`},
		{"silent", corev1.PodLogOptions{}, "error: the server is currently unable to handle the request ( pods/log silent)"},
		{"unknown", corev1.PodLogOptions{}, "error: the server could not find the requested resource ( pods/log unknown)"},
		{"ran", corev1.PodLogOptions{}, "error: unable to retrieve container logs for sim://1"},
		{"over", corev1.PodLogOptions{}, `error: container "app" in pod "over" is terminated`},
		{"begun", corev1.PodLogOptions{}, `error: container "app" in pod "begun" is waiting to start - no logs yet`},
	} {
		for way, config := range w.configs() {
			testcheck.Equal(t, way+": log of "+tt.pod+" with "+tt.opts.String(), tt.want, logOf(t.Context(), config, tt.pod, &tt.opts))
		}
	}
	_, err := client(w.config).CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/default/pods/web/log").
		Param("tailLines", "x").Stream(t.Context())
	testcheck.Equal(t, "syntax", `strconv.ParseInt: parsing "x": invalid syntax`, err.Error())
}

// TestKubeletLogs asks a kubelet itself.
func TestKubeletLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	writeLog(w.runtime.start("web", "app"))
	for _, tt := range []struct{ path, want string }{
		{"web/app?tailLines=1", "200 worse\n"},
		{"web/app?tail=1", "200 worse\n"},
		{"web/app?tail=all&stream=Stderr", "200 bad\nworse\n"},
		{"web/app?limitBytes=0", `422 {"message": "Invalid request."}`},
		{"web/app?tail=x", `400 {"message": "Unable to decode query."}`},
		{"web/other", `404 container "other" not found in pod "web"`},
		{"gone/app", `404 pod "gone" does not exist`},
		{
			"silent/app",
			`503 {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the kubelet does not answer","reason":"ServiceUnavailable","code":503}`,
		},
	} {
		r := httptest.NewRecorder()
		w.Kubelet("node-1").ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/containerLogs/default/"+tt.path, nil))
		testcheck.Equal(t, tt.path, tt.want, strconv.Itoa(r.Code)+" "+r.Body.String())
	}
}

// TestFollow reads a log while it is written. It ends with the run.
func TestFollow(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"https", "memory"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fake.Config{})
			out := w.runtime.start("web", "app")
			out.Write(epoch, container.Stdout, []byte("old\nmiddle\n"))
			log, err := client(w.configs()[way]).CoreV1().Pods("default").
				GetLogs("web", &corev1.PodLogOptions{Follow: true, TailLines: ptr.To[int64](1)}).Stream(t.Context())
			testcheck.NoError(t, err)
			testcheck.Equal(t, "tail", "middle", readLine(t, log))
			out.Write(epoch, container.Stderr, []byte("new\npart"))
			testcheck.Equal(t, "followed", "new", readLine(t, log))
			w.runtime.exit("web", "app", 0)
			testcheck.Equal(t, "last", "part\n", string(testcheck.Must(io.ReadAll(log))))
			testcheck.NoError(t, log.Close())
		})
	}
}

// TestFollowEnds follows a log whose client disconnects, and one whose kubelet stops.
func TestFollowEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	w.responses = make(chan int, 10)
	w.listen(w)
	w.runtime.start("web", "app").Write(epoch, container.Stdout, []byte("line\n"))
	follow := func() (io.ReadCloser, context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		log, err := client(w.config).CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{Follow: true}).Stream(ctx)
		testcheck.NoError(t, err)
		testcheck.Equal(t, "line", "line", readLine(t, log))
		testcheck.Equal(t, "code", 200, <-w.responses)
		return log, cancel
	}
	_, cancel := follow()
	cancel()
	testcheck.Equal(t, "end after the client disconnected", 0, <-w.responses)

	log, cancel := follow()
	defer cancel()
	close(w.stopped)
	testcheck.Equal(t, "end after the kubelet stopped", 0, <-w.responses)
	testcheck.Equal(t, "rest", "", string(testcheck.Must(io.ReadAll(log))))

	ctx, cancel := context.WithCancel(t.Context())
	w.stopped = nil
	log, err := client(w.memory()).CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	testcheck.NoError(t, err)
	testcheck.Equal(t, "line in memory", "line", readLine(t, log))
	cancel()
	testcheck.Equal(t, "end in memory", " context canceled", readLine(t, log))
	log, err = client(w.memory()).CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	testcheck.NoError(t, err, log.Close())
	testcheck.Equal(t, "read after close", " context canceled", readLine(t, log))
}
