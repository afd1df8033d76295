package cluster_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/kubelet/container"
	"github.com/volsim/volsim/sim"
)

// TestExecAndLogs runs in both hosts: what a container writes, others of the claim read.
func TestExecAndLogs(t *testing.T) {
	for _, tt := range []struct {
		name    string
		stepped *sim.SteppedConfig
	}{{"stepped", &sim.SteppedConfig{}}, {"live", nil}} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := t.Context()
			c := testcheck.Must(cluster.New(cluster.Config{Devices: cluster.Array, Containers: cluster.ShellContainers, Stepped: tt.stepped}))
			t.Cleanup(func() { testcheck.NoError(t, c.Close()) })
			testcheck.NoError(t, c.Start(ctx))
			_, err := c.Client().CoreV1().PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("data", "1Gi"), metav1.CreateOptions{})
			testcheck.NoError(t, err)
			pod := cluster.NewPod("web", "data")
			pod.Spec.Containers[0].Command = []string{"sh", "-c", "echo hello; echo hello > /mnt/data/f; trap exit TERM; sleep infinity"}
			_, err = c.Client().CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
			testcheck.NoError(t, err, c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
			written := testcheck.Must(c.Exec(ctx, "default", "web", "", "sh", "-c", "while [ ! -s /mnt/data/f ]; do sleep 1; done; cat /mnt/data/f; echo oops >&2; exit 3"))
			testcheck.Equal(t, "result", cluster.Result{Stdout: "hello\n", Stderr: "oops\n", Code: 3}, written)
			testcheck.Equal(t, "logs", "hello\n", testcheck.Must(c.Logs("default", "web", "main")))
			testcheck.Equal(t, "file", "hello\n", string(testcheck.Must(c.ReadFile("default", "web", "data", "f"))))

			if _, err := c.Exec(ctx, "default", "none", "", "true"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("exec in a pod that does not exist: %v", err)
			}
			if _, err := c.Logs("default", "web", "none"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("logs of a container that does not exist: %v", err)
			}
			if err := c.Finish(ctx, "default", "web", 0); err == nil {
				t.Error("a container that runs was finished by hand")
			}
		})
	}
}

// TestExecInAContainerThatHasExited is refused; its logs remain.
func TestExecInAContainerThatHasExited(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := testcheck.Must(cluster.New(cluster.Config{Devices: cluster.Array, Containers: cluster.ShellContainers, Stepped: &sim.SteppedConfig{}}))
	t.Cleanup(func() { testcheck.NoError(t, c.Close()) })
	testcheck.NoError(t, c.Start(ctx))
	pod := cluster.NewPod("once")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Containers[0].Command = []string{"echo", "done"}
	_, err := c.Client().CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	testcheck.NoError(t, err, c.WaitForPod(ctx, "default", "once", corev1.PodSucceeded))
	if _, err := c.Exec(ctx, "default", "once", "", "true"); !errors.Is(err, container.ErrNotRunning) {
		t.Errorf("exec: %v", err)
	}
	testcheck.Equal(t, "logs", "done\n", testcheck.Must(c.Logs("default", "once", "")))
}

// TestFinish lets the pods of a job fail once and then succeed, in a world without containers.
func TestFinish(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := testcheck.Must(cluster.New(cluster.Config{Devices: cluster.Array, Stepped: &sim.SteppedConfig{}}))
	t.Cleanup(func() { testcheck.NoError(t, c.Close()) })
	testcheck.NoError(t, c.Start(ctx))
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "once"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "i"}}},
	}}}
	_, err := c.Client().BatchV1().Jobs("default").Create(ctx, job, metav1.CreateOptions{})
	testcheck.NoError(t, err, c.Run(ctx))
	for _, code := range []uint8{1, 0} {
		for _, p := range testcheck.Must(c.Client().CoreV1().Pods("default").List(ctx, metav1.ListOptions{})).Items {
			if p.Status.Phase == corev1.PodRunning {
				testcheck.NoError(t, c.Finish(ctx, "default", p.Name, code))
			}
		}
		testcheck.NoError(t, c.Run(ctx))
	}
	status := testcheck.Must(c.Client().BatchV1().Jobs("default").Get(ctx, "once", metav1.GetOptions{})).Status
	testcheck.Equal(t, "failed", 1, status.Failed)
	testcheck.Equal(t, "succeeded", 1, status.Succeeded)
	if _, err := c.Exec(ctx, "default", "once", "", "true"); err == nil {
		t.Error("a command was executed without containers")
	}
}

func TestUnknownContainers(t *testing.T) {
	t.Parallel()
	_, err := cluster.New(cluster.Config{Devices: cluster.Array, Containers: "docker", Stepped: &sim.SteppedConfig{}})
	if err == nil || !strings.Contains(err.Error(), `containers "docker": want "none", "shell" or "process"`) {
		t.Errorf("got %v", err)
	}
}

// TestExecAtOnce executes commands as soon as the statuses say that the containers run. In a live world the kubelet may not
// have started them.
func TestExecAtOnce(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := testcheck.Must(cluster.New(cluster.Config{Nodes: 1, Devices: cluster.Array, Containers: cluster.ShellContainers}))
	t.Cleanup(func() { testcheck.NoError(t, c.Close()) })
	testcheck.NoError(t, c.Start(ctx))
	for i := range 100 {
		name := fmt.Sprintf("web-%d", i)
		_, err := c.Client().CoreV1().Pods("default").Create(ctx, cluster.NewPod(name), metav1.CreateOptions{})
		testcheck.NoError(t, err, c.WaitForPod(ctx, "default", name, corev1.PodRunning))
		testcheck.Equal(t, "result", cluster.Result{Stdout: name + "\n"}, testcheck.Must(c.Exec(ctx, "default", name, "", "hostname")))
	}
}

// TestDataOutlivesContainers follows a file by its hash, which commands in containers compute: through the end of a container
// and its restart, the deletion of its pod and a move to another node.
func TestDataOutlivesContainers(t *testing.T) {
	for _, tt := range []struct {
		devices    cluster.Devices
		containers cluster.Containers
		stepped    *sim.SteppedConfig
	}{
		{cluster.Array, cluster.ShellContainers, &sim.SteppedConfig{}},
		{cluster.Array, cluster.ShellContainers, nil},
		{cluster.Loop, cluster.ShellContainers, nil},
		{cluster.Loop, cluster.ProcessContainers, nil},
	} {
		t.Run(fmt.Sprintf("%s on %s, stepped %t", tt.containers, tt.devices, tt.stepped != nil), func(t *testing.T) {
			ctx := t.Context()
			c, err := cluster.New(cluster.Config{Devices: tt.devices, Containers: tt.containers, Stepped: tt.stepped})
			if err != nil && tt.devices == cluster.Loop {
				t.Skip(err)
			}
			testcheck.NoError(t, err)
			t.Cleanup(func() { testcheck.NoError(t, c.Close()) })
			testcheck.NoError(t, c.Start(ctx))
			_, err = c.Client().CoreV1().PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{})
			testcheck.NoError(t, err)
			run := func(node string) {
				t.Helper()
				pod := cluster.NewPod("web", "data")
				pod.Spec.NodeName = node
				pod.Spec.Containers[0].Command = []string{"sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1; done"}
				_, err := c.Client().CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
				testcheck.NoError(t, err, c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
			}
			command := func(script string) string {
				t.Helper()
				result := testcheck.Must(c.Exec(ctx, "default", "web", "", "sh", "-c", script))
				testcheck.Equal(t, "code of "+script, int32(0), result.Code)
				return result.Stdout
			}
			run("node-1")
			want := command("head -c 300000 /dev/urandom >/mnt/data/f; sync; sha256sum /mnt/data/f")
			check := func(after string) {
				t.Helper()
				testcheck.Equal(t, "hash after "+after, want, command("sha256sum /mnt/data/f"))
			}
			check("writing")
			end := testcheck.Must(c.Exec(ctx, "default", "web", "", "sh", "-c", "kill -TERM 1"))
			testcheck.Equal(t, "stderr", "", end.Stderr)
			restarted := func() bool {
				pod := testcheck.Must(c.Client().CoreV1().Pods("default").Get(ctx, "web", metav1.GetOptions{}))
				return pod.Status.ContainerStatuses[0].RestartCount == 1 && pod.Status.ContainerStatuses[0].State.Running != nil
			}
			testcheck.NoError(t, c.Wait(ctx, "restart", restarted))
			check("the end of the container")
			testcheck.NoError(t, c.Client().CoreV1().Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}), c.WaitForGone(ctx, "pods", "default", "web"))
			run("node-2")
			check("a move")
		})
	}
}
