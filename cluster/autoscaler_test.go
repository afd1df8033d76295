package cluster_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// An autoscaler grows claims, as topolvm/pvc-autoresizer does: it reads the metrics of all kubelets by
// way of the API server, and doubles what a claim requests once 80% of its volume is used.
type autoscaler struct{ client kubernetes.Interface }

// metric is a line of Prometheus's text format about a claim.
var metric = regexp.MustCompile(`^kubelet_volume_stats_(\w+)\{namespace="([^"]*)",persistentvolumeclaim="([^"]*)"\} (\S+)$`)

// usage returns the metrics of the claims by name.
func (a autoscaler) usage(ctx context.Context) (map[types.NamespacedName]map[string]float64, error) {
	nodes, err := a.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	usage := map[types.NamespacedName]map[string]float64{}
	for _, node := range nodes.Items {
		text, err := a.client.CoreV1().RESTClient().Get().Resource("nodes").Name(node.Name).SubResource("proxy").Suffix("metrics").DoRaw(ctx)
		if err != nil {
			return nil, err
		}
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			words := metric.FindStringSubmatch(lines.Text())
			if words == nil {
				continue
			}
			claim := types.NamespacedName{Namespace: words[2], Name: words[3]}
			if usage[claim] == nil {
				usage[claim] = map[string]float64{}
			}
			if usage[claim][words[1]], err = strconv.ParseFloat(words[4], 64); err != nil {
				return nil, err
			}
		}
	}
	return usage, nil
}

// reconcile grows the claims that need it. One that is not as large yet as requested must wait.
func (a autoscaler) reconcile(ctx context.Context) error {
	usage, err := a.usage(ctx)
	if err != nil {
		return err
	}
	claims, err := a.client.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		of, measured := usage[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}]
		requested, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
		if !measured || of["available_bytes"] > 0.2*of["capacity_bytes"] || has.Cmp(requested) < 0 {
			continue
		}
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = *resource.NewQuantity(2*requested.Value(), resource.BinarySI)
		if _, err := a.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// autoscalerComponent runs an autoscaler every minute.
func autoscalerComponent() cluster.Component {
	return cluster.Component{Name: "autoscaler", Start: func(p cluster.ComponentContext) error {
		client, err := kubernetes.NewForConfig(p.RESTConfig())
		if err != nil {
			return err
		}
		queue := sim.NewQueue[string](p.Process, sim.QueueConfig{Name: "claims", Background: true})
		queue.Work(func(ctx context.Context, key string) error {
			queue.AddAfter(key, time.Minute)
			return autoscaler{client}.reconcile(ctx)
		})
		queue.Add("all")
		return nil
	}}
}

func capacityOf(c *cluster.Cluster, claim string) string {
	obj, ok := c.Server().Get("persistentvolumeclaims", "default", claim)
	if !ok {
		return ""
	}
	has := obj.(*corev1.PersistentVolumeClaim).Status.Capacity[corev1.ResourceStorage]
	return has.String()
}

// TestClaimAutoscaler fills a volume step by step, and a claim grows whenever 80% is used: by kubelets
// that measure on request and by those that measure every minute.
func TestClaimAutoscaler(t *testing.T) {
	t.Parallel()
	for _, period := range []time.Duration{0, time.Minute} {
		t.Run(fmt.Sprint(period), func(t *testing.T) {
			t.Parallel()
			c := testcheck.Must(cluster.New(cluster.Config{
				Nodes: 2, VolumeStatsPeriod: period, Extra: []cluster.Component{autoscalerComponent()},
				Stepped: &sim.SteppedConfig{StepsMax: 50_000},
			}))
			t.Cleanup(func() { testcheck.NoError(t, c.Close()) })
			testcheck.NoError(t, c.Start(t.Context()), runPodWith(t.Context(), c, "web", "data", "1Gi"),
				runPodWith(t.Context(), c, "idle", "other", "1Gi"))
			process := c.Host().Process("time")
			for _, step := range []struct {
				fill int64 // MiB
				want string
			}{{700, "1Gi"}, {820, "2Gi"}, {1600, "2Gi"}, {2000, "4Gi"}, {100, "4Gi"}, {10_000, "16Gi"}} {
				testcheck.NoError(t, c.WriteZeros("default", "web", "data", "fill", step.fill<<20))
				c.User("time", func(context.Context) error {
					process.Sleep(10 * time.Minute)
					return nil
				})
				testcheck.NoError(t, c.Run(t.Context()))
				testcheck.Equal(t, fmt.Sprintf("capacity with %d MiB used", step.fill), step.want, capacityOf(c, "data"))
			}
			testcheck.Equal(t, "capacity of a volume that is not used", "1Gi", capacityOf(c, "other"))
		})
	}
}
