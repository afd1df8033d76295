package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// TestLogWithoutContainers asks for the log of a pod in clusters that run no containers: from outside, and from a user's
// task.
func TestLogWithoutContainers(t *testing.T) {
	t.Parallel()
	const want = "this cluster runs no containers, so there is neither a log nor a command to execute " +
		"(start it with --containers=shell, or cluster.Config.Containers)"
	for name, stepped := range map[string]*sim.SteppedConfig{"stepped": {}, "live": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testcheck.Must(cluster.New(cluster.Config{Nodes: 1, Devices: cluster.Array, Stepped: stepped}))
			t.Cleanup(func() { testcheck.NoError(t, c.Close()) })
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			testcheck.NoError(t, c.Start(ctx), runPodWith(ctx, c, "web", "data", "1Gi"))
			log := func(ctx context.Context, pod string) string {
				client := testcheck.Must(kubernetes.NewForConfig(c.RESTConfig()))
				_, err := client.CoreV1().Pods("default").GetLogs(pod, &corev1.PodLogOptions{}).Stream(ctx)
				return fmt.Sprint(err)
			}
			testcheck.Equal(t, "from outside", want, log(ctx, "web"))
			testcheck.Equal(t, "unknown pod", `pods "gone" not found`, log(ctx, "gone"))
			var seen string
			c.User("user", func(ctx context.Context) error {
				seen = log(ctx, "web")
				return nil
			})
			testcheck.NoError(t, c.Run(ctx))
			testcheck.Equal(t, "from a task", want, seen)
			handler := c.KubeletHandler("node-1")
			testcheck.NoError(t, c.Stop("kubelet(node-1)"))
			testcheck.Equal(t, "kubelet is down", "error dialing backend: kubelet of node-1: connection refused", log(ctx, "web"))
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/exec/default/web/app?command=ls&output=1", nil))
			testcheck.Equal(t, "code of a kubelet that has stopped", http.StatusServiceUnavailable, w.Code)
		})
	}
}
