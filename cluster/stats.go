package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/volsim/volsim/internal/kubeletserver"
	"github.com/volsim/volsim/kubelet"
	"github.com/volsim/volsim/sim"
)

// VolumeStats asks a node's kubelet for the usage of its pods' volumes, and lets the world run
// meanwhile. With Config.VolumeStatsPeriod it is that of the last measurement. The error matches
// ErrUnknownComponent for an unknown node and for a kubelet that is down.
func (c *Cluster) VolumeStats(ctx context.Context, node string) (*stats.Summary, error) {
	return askKubelet(ctx, c, node, aboutVolumes, (*kubelet.Kubelet).Summary)
}

// A kubeletQuestion names a task of askKubelet, and says what is waited for: "node-1: volumes are measured".
type kubeletQuestion struct{ task, what string }

var aboutVolumes = kubeletQuestion{"stats", "volumes are measured"}

// askKubelet runs a function in a task of a node's kubelet, and lets the world run until it returns.
func askKubelet[V any](ctx context.Context, c *Cluster, node string, about kubeletQuestion,
	ask func(k *kubelet.Kubelet, ctx context.Context) V,
) (V, error) {
	var none V
	n, err := c.node(node)
	if err != nil {
		return none, err
	}
	p, err := c.component(kubeletName(node))
	if err != nil {
		return none, err
	}
	process, k := p.process.Load(), n.kubelet.Load()
	if process == nil {
		return none, ErrUnknownComponent
	}
	answer := make(chan V, 1)
	process.Spawn(about.task, func(ctx context.Context) { answer <- ask(k, ctx) })
	err = c.Wait(ctx, node+": "+about.what, func() bool {
		return len(answer) > 0 || p.process.Load() != process
	})
	switch {
	case err != nil:
		return none, err
	case len(answer) == 0:
		return none, fmt.Errorf("%w: the kubelet of %s stopped", ErrUnknownComponent, node)
	default:
		return <-answer, nil
	}
}

// KubeletHandler returns the HTTP server of a node's kubelet, for /metrics, /stats/summary, /healthz,
// and those of its containers: /containerLogs and /exec. Of the metrics it has those of volumes with claims, in Prometheus's text format:
// kubelet_volume_stats_available_bytes, capacity_bytes, used_bytes, inodes, inodes_free, inodes_used
// and, with Config.HealthMonitor, health_status_abnormal. Of the summary it has the volumes of pods.
// A request lets the world run until the kubelet has answered. It is answered with 503 while the
// kubelet is down and with 404 for an unknown node.
//
// Clients of the API server get the same by nodes/NAME/proxy, such as
// kubectl get --raw /api/v1/nodes/node-1/proxy/metrics.
//
// Upstream: pkg/kubelet/server (v1.36).
func (c *Cluster) KubeletHandler(node string) http.Handler {
	mux := http.NewServeMux()
	serve := func(path, contentType string, ask func(k *kubelet.Kubelet, ctx context.Context) []byte) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			text, err := askKubelet(r.Context(), c, node, aboutVolumes, ask)
			if err != nil {
				c.refuseKubeletRequest(w, node, err)
				return
			}
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write(text) // an error means that the client disconnected
		})
	}
	serve("/metrics", "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", (*kubelet.Kubelet).VolumeMetrics)
	serve("/stats/summary", "application/json", func(k *kubelet.Kubelet, ctx context.Context) []byte {
		return encodeSummary(k.Summary(ctx))
	})
	kubeletserver.Register(mux, containerHost{c, node})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !c.isKubeletUp(node) {
			c.refuseKubeletRequest(w, node, ErrUnknownComponent)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok"))
	})
	return mux
}

func (c *Cluster) refuseKubeletRequest(w http.ResponseWriter, node string, err error) {
	code := http.StatusServiceUnavailable
	if _, unknown := c.node(node); unknown != nil {
		code = http.StatusNotFound
	} else if !errors.Is(err, ErrUnknownComponent) && !errors.Is(err, context.Canceled) && !errors.Is(err, sim.ErrQuiescent) {
		code = http.StatusInternalServerError
	}
	http.Error(w, err.Error(), code)
}

// encodeSummary returns a summary as JSON.
func encodeSummary(summary *stats.Summary) []byte {
	text, err := json.MarshalIndent(summary, "", " ")
	if err != nil {
		panic("cluster: encode a summary: " + err.Error()) // its fields always encode
	}
	return text
}

// isKubeletUp reports whether the kubelet of a node runs.
func (c *Cluster) isKubeletUp(node string) bool {
	p, err := c.component(kubeletName(node))
	return err == nil && p.process.Load() != nil
}

// reachableKubelets are the kubelets of a cluster as the API server sees them.
type reachableKubelets Cluster

// Kubelet returns the HTTP server of a node's kubelet: nil while it is down, and while the node is
// partitioned.
func (r *reachableKubelets) Kubelet(node string) http.Handler {
	c := (*Cluster)(r)
	n, err := c.node(node)
	if err != nil || n.partitioned.Load() || !c.isKubeletUp(node) {
		return nil
	}
	return c.KubeletHandler(node)
}
