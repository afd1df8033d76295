package conformance_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	upstreamjob "k8s.io/kubernetes/pkg/controller/job"
)

// lateWait fails under some schedules: bob deletes a claim as soon as it is bound, and alice's wait for it may begin too late.
const lateWait = `components: pvcontroller, pvcprotection
ends: differ
user alice
  create volume v1 1Gi
  create volume v2 1Gi
  create claim c1 1Gi class=
  create claim c2 1Gi class=
  wait claim c1 Bound
  wait claim c2 Bound
user bob
  wait claim c2 Bound
  create volume v3 1Gi
  create volume v4 1Gi
  create volume v5 1Gi
  create volume v6 1Gi
  delete claim c2
`

// indexes is the number of completions of the example's Job.
const indexes = 8

// TestIndexedJob applies the manifest of examples/indexed-job as it is, to this module's API server over HTTPS and to a real
// kube-apiserver. Upstream's Job controller creates the pods, and processes of this machine stand in for them. The image's
// environment makes the search small.
func TestIndexedJob(t *testing.T) {
	program := buildCommand(t)
	for _, server := range []struct {
		name  string
		start func(t *testing.T) *clientrest.Config
	}{
		{"volsim", func(t *testing.T) *clientrest.Config { return serveBare(t).listener.Config() }},
		{"kube-apiserver", func(t *testing.T) *clientrest.Config { return realServer(t) }},
	} {
		t.Run(server.name, func(t *testing.T) {
			cfg := server.start(t)
			t.Run("the shards are the whole search", func(t *testing.T) { shardsAreTheWhole(t, cfg, program) })
			t.Run("one index finds the failure", func(t *testing.T) { oneIndexFails(t, cfg, program) })
		})
	}
}

// shardsAreTheWhole adds up the indexes of a search without a failure.
func shardsAreTheWhole(t *testing.T, cfg *clientrest.Config, program string) {
	const each = 6 // schedules of an index; the default order is one of each
	node := newJobNode(t, program, map[string]string{"SCENARIO": "two-claims-two-volumes", "COUNT": strconv.Itoa(each)})
	job, logs := node.run(cfg)
	if s := job.Status; s.Succeeded != indexes || s.Failed != 0 || s.CompletedIndexes != "0-7" || s.FailedIndexes != nil && *s.FailedIndexes != "" {
		t.Errorf("status %+v", s)
	}
	schedules, steps := 0, 0
	for i := range indexes {
		more, of := node.counts(logs[i])
		schedules, steps = schedules+more, steps+of
	}
	_, out := node.explore("--count", "1")
	_, byDefault := node.counts(out)
	_, out = node.explore("--count", strconv.Itoa(indexes*(each-1)+1))
	whole, wholeSteps := node.counts(out)
	if schedules-indexes+1 != whole || steps-(indexes-1)*byDefault != wholeSteps {
		t.Errorf("%d schedules with %d steps, of which the default order with %d steps is run %d times; the whole search has %d and %d",
			schedules, steps, byDefault, indexes, whole, wholeSteps)
	}
}

// oneIndexFails finds a failure in the shard that runs the schedule in which the whole search finds it.
func oneIndexFails(t *testing.T, cfg *clientrest.Config, program string) {
	node := newJobNode(t, program, map[string]string{"SCENARIO": "late.txt", "COUNT": "4"})
	writeFile(t, filepath.Join(node.dir, "late.txt"), []byte(lateWait))
	code, whole := node.explore("--count", "25")
	match := regexp.MustCompile(`violates L7 in schedule (\d+)`).FindStringSubmatch(whole)
	if code != 1 || match == nil {
		t.Fatalf("status %d:\n%s", code, whole)
	}
	found, err := strconv.Atoi(match[1])
	if err != nil {
		t.Fatal(err)
	}
	index := (found - 2) % indexes // the first is the default order
	job, logs := node.run(cfg)
	if s := job.Status; s.Succeeded != indexes-1 || s.Failed != 1 || s.FailedIndexes == nil || *s.FailedIndexes != strconv.Itoa(index) {
		t.Errorf("status %+v, want index %d to fail", s, index)
	}
	for i, log := range logs {
		if strings.Contains(log, "violates L7") != (i == index) {
			t.Errorf("index %d:\n%s", i, log)
		}
	}
	if got, want := replayOf(t, logs[index]), replayOf(t, whole); got != want {
		t.Errorf("index %d saved %s, the whole search %s", index, got, want)
	}
}

// replayOf returns the base name of the saved failure, which contains a hash of its schedule.
func replayOf(t *testing.T, log string) string {
	t.Helper()
	match := regexp.MustCompile(`saved as (\S+\.txt)`).FindStringSubmatch(log)
	if match == nil {
		t.Fatalf("nothing was saved:\n%s", log)
	}
	if _, err := os.Stat(match[1]); err != nil {
		t.Error(err)
	}
	return filepath.Base(match[1])
}

// A jobNode is where the example's pods run.
type jobNode struct {
	t   *testing.T
	dir string
	env map[string]string // of the image
}

func newJobNode(t *testing.T, program string, env map[string]string) *jobNode {
	t.Helper()
	dir := t.TempDir()
	env = maps.Clone(env)
	env["PATH"] = filepath.Dir(program) + ":" + os.Getenv("PATH")
	env["TMPDIR"] = dir
	return &jobNode{t, dir, env}
}

// run applies the manifest and waits until the Job has ended. It returns the Job and the output of its pods by index.
func (n *jobNode) run(cfg *clientrest.Config) (*batchv1.Job, [indexes]string) {
	t := n.t
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile("../../examples/indexed-job/job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), controllersMax)
	defer cancel()
	factory := informers.NewSharedInformerFactory(client, 0)
	kubelet := startProcessKubelet(ctx, t, client, factory, n.dir, n.env)
	controller, err := upstreamjob.NewController(ctx, client, factory.Core().V1().Pods(), factory.Batch().V1().Jobs(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	kubelet.running.Go(func() { controller.Run(ctx, 2) })
	defer func() {
		cancel()
		kubelet.running.Wait()
		factory.Shutdown()
	}()
	var job batchv1.Job
	if err := client.BatchV1().RESTClient().Post().Namespace("default").Resource("jobs").
		SetHeader("Content-Type", "application/yaml").Body(manifest).Do(ctx).Into(&job); err != nil {
		t.Fatal(err)
	}
	ended := untilJob(ctx, t, client, job.Name, func(j *batchv1.Job) bool {
		for _, c := range j.Status.Conditions {
			if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
				return true
			}
		}
		return false
	})
	pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "job-name=" + job.Name})
	if err != nil || len(pods.Items) != indexes {
		t.Fatalf("%d pods: %v", len(pods.Items), err)
	}
	var logs [indexes]string
	for _, pod := range pods.Items {
		i, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
		if err != nil {
			t.Fatal(err)
		}
		logs[i] = kubelet.log(pod.Name)
	}
	background := metav1.DeletePropagationBackground
	if err := client.BatchV1().Jobs("default").Delete(ctx, job.Name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items { // no garbage collector runs
		if err := client.CoreV1().Pods("default").Delete(ctx, pod.Name, *metav1.NewDeleteOptions(0)); err != nil {
			t.Fatal(err)
		}
	}
	return ended, logs
}

// untilJob watches a Job until a condition holds.
func untilJob(ctx context.Context, t *testing.T, client kubernetes.Interface, name string, cond func(*batchv1.Job) bool) *batchv1.Job {
	t.Helper()
	source := cache.NewListWatchFromClient(client.BatchV1().RESTClient(), "jobs", "default", fields.OneTermEqualSelector("metadata.name", name))
	var last *batchv1.Job
	_, err := toolswatch.UntilWithSync(ctx, source, &batchv1.Job{}, nil, func(e watch.Event) (bool, error) {
		last = e.Object.(*batchv1.Job)
		return cond(last), nil
	})
	if err != nil {
		t.Fatalf("job %s: %v; last %+v", name, err, last)
	}
	return last
}

// explore runs the search of the example without shards. It returns the exit code and the output.
func (n *jobNode) explore(more ...string) (int, string) {
	n.t.Helper()
	args := append([]string{
		"explore", n.env["SCENARIO"], "--strategy", "random", "--seed", "1", "--faults", "conflict(0.05), crash(pvcontroller, 1)",
		"--out", filepath.Join(n.dir, "whole"),
	}, more...)
	cmd := exec.CommandContext(n.t.Context(), filepath.Join(strings.Split(n.env["PATH"], ":")[0], "volsim"), args...)
	cmd.Dir = n.dir
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		n.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// counts returns the schedules and the steps of a search without a failure.
func (n *jobNode) counts(out string) (schedules, steps int) {
	n.t.Helper()
	match := regexp.MustCompile(`(?m)^(\d+) schedules?, .*, (\d+) steps in .*: no failure$`).FindStringSubmatch(out)
	if match == nil {
		n.t.Fatalf("no summary:\n%s", out)
	}
	for i, number := range []*int{&schedules, &steps} {
		var err error
		if *number, err = strconv.Atoi(match[i+1]); err != nil {
			n.t.Fatal(err)
		}
	}
	return schedules, steps
}
