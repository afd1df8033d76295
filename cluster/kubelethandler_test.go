package cluster_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// runPodWith creates a pod with a claim and waits until it runs.
func runPodWith(ctx context.Context, c *cluster.Cluster, name, claim, size string) error {
	if _, err := c.Client().CoreV1().PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim(claim, size), metav1.CreateOptions{}); err != nil {
		return err
	}
	pod := cluster.NewPod(name, claim)
	pod.Spec.NodeName = "node-1"
	if _, err := c.Client().CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	return c.WaitForPod(ctx, "default", name, corev1.PodRunning)
}

// usage is what the metrics say of the claim data.
const (
	capacityLine  = `kubelet_volume_stats_capacity_bytes{namespace="default",persistentvolumeclaim="data"} 1.073741824e+09`
	usedLine      = `kubelet_volume_stats_used_bytes{namespace="default",persistentvolumeclaim="data"} 1.048576e+06`
	availableLine = `kubelet_volume_stats_available_bytes{namespace="default",persistentvolumeclaim="data"} 1.072693248e+09`
)

func wantLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
}

func TestKubeletHandler(t *testing.T) {
	t.Parallel()
	c := testcheck.Must(cluster.New(cluster.Config{Nodes: 2, Stepped: &sim.SteppedConfig{}}))
	t.Cleanup(func() { testcheck.NoError(t, c.Close()) })
	testcheck.NoError(t, c.Start(t.Context()), runPodWith(t.Context(), c, "web", "data", "1Gi"),
		c.WriteZeros("default", "web", "data", "fill", 1<<20))
	get := func(node, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		c.KubeletHandler(node).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	metrics := get("node-1", "/metrics")
	testcheck.Equal(t, "type", "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", metrics.Header().Get("Content-Type"))
	wantLines(t, metrics.Body.String(), capacityLine, usedLine, availableLine)
	testcheck.Equal(t, "metrics of the other node", "", get("node-2", "/metrics").Body.String())
	var summary stats.Summary
	testcheck.NoError(t, json.Unmarshal(get("node-1", "/stats/summary").Body.Bytes(), &summary))
	testcheck.Equal(t, "used", uint64(1<<20), *summary.Pods[0].VolumeStats[0].UsedBytes)
	testcheck.NoError(t, c.Stop("kubelet(node-2)"))
	for _, tt := range []struct {
		node, path string
		code       int
	}{
		{"node-1", "/healthz", http.StatusOK},
		{"node-1", "/pods", http.StatusNotFound},
		{"node-2", "/healthz", http.StatusServiceUnavailable},
		{"node-2", "/metrics", http.StatusServiceUnavailable},
		{"node-3", "/metrics", http.StatusNotFound},
		{"node-3", "/healthz", http.StatusNotFound},
	} {
		testcheck.Equal(t, "answer for "+tt.path+" of "+tt.node, tt.code, get(tt.node, tt.path).Code)
	}
}

// TestKubeletByTheAPIServer asks a kubelet by way of the API server: from outside, from a user's task
// and in a live world.
func TestKubeletByTheAPIServer(t *testing.T) {
	t.Parallel()
	metrics := func(ctx context.Context, c *cluster.Cluster, node string) (string, error) {
		client, err := kubernetes.NewForConfig(c.RESTConfig())
		if err != nil {
			return "", err
		}
		text, err := client.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("metrics").DoRaw(ctx)
		return string(text), err
	}
	for name, stepped := range map[string]*sim.SteppedConfig{"stepped": {}, "live": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testcheck.Must(cluster.New(cluster.Config{Nodes: 2, Devices: cluster.Array, Stepped: stepped}))
			t.Cleanup(func() { testcheck.NoError(t, c.Close()) })
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			testcheck.NoError(t, c.Start(ctx), runPodWith(ctx, c, "web", "data", "1Gi"),
				c.WriteZeros("default", "web", "data", "fill", 1<<20))
			wantLines(t, testcheck.Must(metrics(ctx, c, "node-1")), capacityLine, usedLine, availableLine)
			wantLines(t, testcheck.Must(metrics(ctx, c, "https:node-1:10250")), usedLine)
			var seen string
			c.User("user", func(ctx context.Context) (err error) {
				seen, err = metrics(ctx, c, "node-1")
				return err
			})
			testcheck.NoError(t, c.Run(ctx))
			wantLines(t, seen, usedLine)
			if _, err := metrics(ctx, c, "node-3"); !apierrors.IsNotFound(err) {
				t.Errorf("unknown node: %v", err)
			}
			testcheck.NoError(t, c.Stop("kubelet(node-2)"))
			if _, err := metrics(ctx, c, "node-2"); !apierrors.IsServiceUnavailable(err) {
				t.Errorf("a kubelet that is down: %v", err)
			}
			testcheck.NoError(t, c.PartitionNode("node-1"))
			if _, err := metrics(ctx, c, "node-1"); !apierrors.IsServiceUnavailable(err) {
				t.Errorf("a partitioned node: %v", err)
			}
		})
	}
}
