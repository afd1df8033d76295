package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
)

// TestOptionsOfTheScheduler checks --scheduler-config and --storage-capacity.
func TestOptionsOfTheScheduler(t *testing.T) {
	t.Parallel()
	const header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		testcheck.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	good := write("good.yaml", header+"podMaxBackoffSeconds: 7\n")
	tests := []struct {
		args   []string
		manual bool
		want   string // part of the error; "": none
	}{
		{args: []string{"--scheduler-config", good, "--storage-capacity", "2m"}},
		{args: []string{"--scheduler-config", good}, manual: true, want: "--by-hand does not support --scheduler-config"},
		{args: []string{"--scheduler-config", filepath.Join(dir, "none")}, want: "no such file"},
		{args: []string{"--scheduler-config", write("field.yaml", header+"colour: red\n")}, want: `field.yaml: strict decoding error: unknown field "colour"`},
		{args: []string{"--scheduler-config", write("value.yaml", header+"podMaxBackoffSeconds: 0\n")}, want: "podMaxBackoffSeconds: Invalid value: 0"},
		{args: []string{"--storage-capacity", "-1m"}, want: "invalid --storage-capacity -1m0s"},
	}
	for _, tt := range tests {
		var o worldOptions
		flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		o.addFlags(flags)
		testcheck.NoError(t, flags.Parse(tt.args))
		err := o.validate("auto", tt.manual)
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v: error %v, want %q", tt.args, err, tt.want)
			}
			continue
		}
		var cfg cluster.Config
		testcheck.NoError(t, err)
		if o.apply(&cfg); cfg.Scheduler == nil || *cfg.Scheduler.PodMaxBackoffSeconds != 7 || cfg.StorageCapacity != 2*time.Minute {
			t.Errorf("%v: got %+v", tt.args, cfg)
		}
	}
}

// TestServeAsksAnExtender has an extender in upstream's types that first answers what is no JSON. The pod has an event
// that says so, and is placed at the next attempt, on the node that the extender keeps.
func TestServeAsksAnExtender(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			fmt.Fprint(w, "garbage")
			return
		}
		var args extenderv1.ExtenderArgs
		result := extenderv1.ExtenderFilterResult{NodeNames: &[]string{"node-2"}, FailedNodes: extenderv1.FailedNodesMap{}}
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil || r.URL.Path != "/scheduler/filter" || args.NodeNames == nil {
			result.Error = fmt.Sprint("bad request: ", r.URL, err)
		}
		_ = json.NewEncoder(w).Encode(result) // the client is gone
	}))
	defer server.Close()
	dir := t.TempDir()
	kubeconfig, file := filepath.Join(dir, "config"), filepath.Join(dir, "scheduler.yaml")
	testcheck.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders: [{urlPrefix: %s/scheduler, filterVerb: filter, nodeCacheCapable: true}]
`, server.URL), 0o600))
	stop, _ := served(t, kubeconfig, "--scheduler-config", file)
	core := clientOf(t, kubeconfig).CoreV1()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	web := testcheck.Must(core.Pods("default").Create(ctx, cluster.NewPod("web"), metav1.CreateOptions{}))
	const want = "invalid character 'g' looking for beginning of value"
	events := testcheck.Must(core.Events("default").Watch(ctx, metav1.ListOptions{ResourceVersion: web.ResourceVersion, FieldSelector: "reason=FailedScheduling"}))
	defer events.Stop()
	e, ok := (<-events.ResultChan()).Object.(*corev1.Event)
	if !ok || e.Message != want {
		t.Fatalf("event %+v, want %q", e, want)
	}
	pods := testcheck.Must(core.Pods("default").Watch(ctx, metav1.ListOptions{ResourceVersion: web.ResourceVersion}))
	defer pods.Stop()
	node := ""
	for e := range pods.ResultChan() {
		if pod, ok := e.Object.(*corev1.Pod); ok && ready(pod) {
			node = pod.Spec.NodeName
			break
		}
	}
	if node != "node-2" {
		t.Errorf("the pod is on %q", node)
	}
	if status, errs := stop(); status != 0 || errs != "" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
}
