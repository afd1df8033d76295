package kubelet_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// world is a cluster of one node, stepped, and what its driver is to do wrong.
type world struct {
	*cluster.Cluster
	t      *testing.T
	host   *sim.Stepped
	driver func(method string, request any) error // before a call of the kubelet takes effect; nil: nothing
	lives  map[string][]string                    // of pods by name: what their statuses said, in order
}

func newWorld(t *testing.T, configure ...func(*cluster.Config)) *world {
	t.Helper()
	w := &world{t: t, lives: map[string][]string{}}
	cfg := cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{StepsMax: 50_000}}
	cfg.Interceptors.Driver = func(part string, conn grpc.ClientConnInterface) grpc.ClientConnInterface {
		if !strings.HasPrefix(part, "kubelet") {
			return conn
		}
		return disturbed{conn, w}
	}
	for _, f := range configure {
		f(&cfg)
	}
	c, err := cluster.New(cfg)
	testcheck.NoError(w.t, err)
	t.Cleanup(func() { testcheck.NoError(w.t, c.Close()) })
	w.Cluster, w.host = c, c.Host().(*sim.Stepped)
	c.Server().OnCommit(func(e fake.Commit) {
		if pod, ok := e.After.(*corev1.Pod); ok {
			w.note(pod)
		}
	})
	testcheck.NoError(w.t, c.Start(t.Context()))
	return w
}

// disturbed is a connection to the driver on which calls may go wrong.
type disturbed struct {
	grpc.ClientConnInterface
	w *world
}

func (d disturbed) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	if d.w.driver != nil {
		if err := d.w.driver(method[strings.LastIndex(method, "/")+1:], request); err != nil {
			return err
		}
	}
	return d.ClientConnInterface.Invoke(ctx, method, request, reply, options...)
}

// note takes up what a pod's status says of its containers, where that is something else than
// before.
func (w *world) note(pod *corev1.Pod) {
	said := string(pod.Status.Phase)
	for _, c := range pod.Status.ContainerStatuses {
		said += " " + c.Name + ":" + stateOf(c.State)
		if c.RestartCount > 0 {
			said += fmt.Sprintf("(%d)", c.RestartCount)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			said += " ready"
		}
	}
	if all := w.lives[pod.Name]; len(all) == 0 || all[len(all)-1] != said {
		w.lives[pod.Name] = append(all, said)
	}
}

func stateOf(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		return fmt.Sprintf("%s/%d", s.Terminated.Reason, s.Terminated.ExitCode)
	case s.Waiting != nil:
		return s.Waiting.Reason
	default:
		return "-"
	}
}

// create makes a pod on the node, and the claims that it mounts.
func (w *world) create(name string, claims ...string) {
	w.t.Helper()
	for _, claim := range claims {
		if _, ok := w.Server().Get("persistentvolumeclaims", "default", claim); !ok {
			_, err := w.Client().CoreV1().PersistentVolumeClaims("default").Create(w.t.Context(), cluster.NewClaim(claim, "1Gi"), metav1.CreateOptions{})
			testcheck.NoError(w.t, err)
			testcheck.NoError(w.t, w.WaitForClaim(w.t.Context(), "default", claim, corev1.ClaimBound))
		}
	}
	w.createPod(cluster.NewPod(name, claims...))
}

func (w *world) createPod(pod *corev1.Pod) {
	w.t.Helper()
	pod.Spec.NodeName = "node-1"
	_, err := w.Client().CoreV1().Pods("default").Create(w.t.Context(), pod, metav1.CreateOptions{})
	testcheck.NoError(w.t, err)
}

func (w *world) delete(name string) {
	w.t.Helper()
	testcheck.NoError(w.t, w.Client().CoreV1().Pods("default").Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}

func (w *world) pod(name string) *corev1.Pod {
	w.t.Helper()
	pod, ok := w.Server().Get("pods", "default", name)
	if !ok {
		w.t.Fatalf("no pod %s", name)
	}
	return pod.(*corev1.Pod)
}

// rest lets the world go on until nothing is left to happen.
func (w *world) rest() {
	w.t.Helper()
	if err := w.Run(w.t.Context()); err != nil {
		text := w.Trace().Text()
		w.t.Fatalf("%v\n%s", err, text[max(0, len(text)-4000):])
	}
}

// pass lets the world go on for a while.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	end := w.host.Now().Add(d)
	c := w.host.Process("time")
	c.User("passes", func(context.Context) { c.Sleep(d) })
	testcheck.NoError(w.t, w.Wait(w.t.Context(), "time to pass", func() bool { return !w.host.Now().Before(end) && len(w.host.Enabled()) == 0 }))
}

// events are those about pods with one of the reasons, sorted: "xcount type reason name: message".
func (w *world) events(reasons ...string) []string {
	var lines []string
	for _, object := range w.Server().List("events") {
		if e := object.(*corev1.Event); slices.Contains(reasons, e.Reason) {
			lines = append(lines, fmt.Sprintf("x%d %s %s %s: %s", e.Count, e.Type, e.Reason, e.InvolvedObject.Name, e.Message))
		}
	}
	slices.Sort(lines)
	return lines
}
