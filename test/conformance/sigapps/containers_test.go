package sigapps

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/kubelet"
)

// containers sets the annotations of pods that stand for what their containers would do.
type containers struct {
	requests string // the file to which the stub of kubectl appends its arguments

	mu      sync.Mutex
	read    int             // guarded by mu: number of lines of requests that have taken effect
	failed  map[string]bool // guarded by mu: the shared volumes whose first container has failed
	touched map[string]bool // guarded by mu: the tests whose pods have got annotations
}

// newContainers writes a stub of kubectl, whose path it returns.
func newContainers(t *testing.T) (*containers, string) {
	kubectl := filepath.Join(t.TempDir(), "kubectl")
	c := &containers{requests: kubectl + ".requests", failed: map[string]bool{}, touched: map[string]bool{}}
	if err := os.WriteFile(kubectl, []byte(kubectlStub), 0o700); err != nil {
		t.Fatal(err)
	}
	return c, kubectl
}

// kubectlStub records the commands in containers that remove or restore the page that the readiness
// probe of a StatefulSet gets. It refuses anything else.
const kubectlStub = `#!/bin/sh
case "$*" in
*" -- /bin/sh -x -c mv -v /localhost.crt /tmp/ || true") ready=false ;;
*" -- /bin/sh -x -c mv -v /tmp/localhost.crt / || true") ready=true ;;
*) echo "there are no containers: $*" >&2; exit 1 ;;
esac
for arg; do
	case "$arg" in --namespace=*) namespace=${arg#--namespace=} ;; esac
	[ "$last" = exec ] && pod=$arg
	last=$arg
done
echo "$namespace $pod $ready" >>"$0.requests"
`

// client makes a controller create pods with annotations.
func (c *containers) client(_ string, client *fake.Clientset) *fake.Clientset {
	return client.WithInterceptor(fake.InterceptorFunc(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		pod, ok := r.Body.(*corev1.Pod)
		if !ok || r.Verb != "create" || r.Subresource != "" {
			return serve()
		}
		test := ginkgo.CurrentSpecReport().FullText()
		annotated := c.annotate(pod)
		obj, err := serve()
		if err == nil && annotated { // before the test has deleted its namespace
			c.touch(test)
		}
		return obj, err
	}))
}

// touch records that a pod of a test has got annotations.
func (c *containers) touch(test string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touched[test] = true
}

// annotate sets the annotations of a new pod and reports whether there are any.
func (c *containers) annotate(pod *corev1.Pod) (annotated bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range pod.Spec.Containers {
		of := &pod.Spec.Containers[i]
		if of.Image == "webserver:404" || of.Image == "foo:non-existent" { // it could not be pulled
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, kubelet.ReadyAnnotation, "false")
			annotated = true
		}
		if codes := c.exitCodes(pod, of); codes != "" {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, kubelet.ExitCodesAnnotation, codes)
			annotated = true
		}
	}
	return annotated
}

// exitCodes returns the codes with which the runs of a container exit. The commands are those of
// upstream's jobs. Callers hold mu.
//
// Upstream: test/e2e/framework/job NewTestJob (v1.36).
func (c *containers) exitCodes(pod *corev1.Pod, of *corev1.Container) string {
	command := strings.Join(append(of.Command, of.Args...), " ")
	switch {
	case command == "" && strings.Contains(of.Image, "busybox"), command == "/bin/sh -c exit 0":
		return "0" // a shell without input ends
	case command == "/bin/sh -c exit 1":
		return "1"
	case strings.Contains(command, "$(expr ${JOB_COMPLETION_INDEX} % 2)"):
		n, _ := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
		return strconv.Itoa(n % 2)
	case strings.Contains(command, "touch /data/foo\n"): // its next run succeeds
		shared := pod.Spec.Volumes[0].HostPath
		switch {
		case shared == nil:
			return "1,0"
		case c.failed[shared.Path]:
			return "0"
		}
		c.failed[shared.Path] = true
		return "1"
	}
	return ""
}

// requestTime is the time of the cluster that passes before a request about ControllerRevisions. Their test
// relies on it, as on that of a network: the controller has seen a change before the next one is made. The
// time of a bubble passes when the controllers are at rest, which they are not in each test.
const requestTime = time.Millisecond

// transport makes requests after what the commands in containers have changed.
type transport struct {
	http.RoundTripper
	api        kubernetes.Interface
	containers *containers
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.containers.execute(req.Context(), t.api); err != nil {
		return nil, err
	}
	if strings.Contains(req.URL.Path, "/controllerrevisions") {
		time.Sleep(requestTime)
	}
	return t.RoundTripper.RoundTrip(req)
}

// execute changes the readiness of the pods in whose containers the suite has executed commands.
func (c *containers) execute(ctx context.Context, api kubernetes.Interface) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	data, err := os.ReadFile(c.requests)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	lines := strings.Split(string(data), "\n")
	for ; c.read < len(lines)-1; c.read++ {
		var namespace, pod string
		var ready bool
		if _, err := fmt.Sscan(lines[c.read], &namespace, &pod, &ready); err != nil {
			return fmt.Errorf("kubectl: unexpected request %q: %w", lines[c.read], err)
		}
		c.touched[ginkgo.CurrentSpecReport().FullText()] = true
		patch := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: "%t"}}}`, kubelet.ReadyAnnotation, ready)
		if _, err := api.CoreV1().Pods(namespace).Patch(ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
