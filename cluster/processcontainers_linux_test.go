package cluster_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/process"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/kubelet/container"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/sim"
)

// TestProcessContainersNeedRealNodes: what cannot run processes is refused.
func TestProcessContainersNeedRealNodes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, want string
		cfg        cluster.Config
	}{
		{"stepped", "need a live world", cluster.Config{Stepped: &sim.SteppedConfig{}}},
		{"memory", "are in memory", cluster.Config{Devices: cluster.Array}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := process.Check(); err != nil && tt.name == "memory" {
				t.Skip(err)
			}
			tt.cfg.Containers = cluster.ProcessContainers
			c, err := cluster.New(tt.cfg)
			if err == nil {
				testcheck.NoError(t, c.Close())
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that contains %q", err, tt.want)
			}
		})
	}
}

// TestProcessContainers runs pods whose commands are processes, on volumes of loop devices.
func TestProcessContainers(t *testing.T) {
	t.Parallel()
	if err := errors.Join(loop.Probe(), process.Check()); err != nil {
		t.Skip(err)
	}
	ctx := t.Context()
	c := testcheck.Must(cluster.New(cluster.Config{Devices: cluster.Loop, Containers: cluster.ProcessContainers, Dir: t.TempDir()}))
	t.Cleanup(func() { testcheck.NoError(t, c.Close()) })
	testcheck.NoError(t, c.Start(ctx))
	pods, claims := c.Client().CoreV1().Pods("default"), c.Client().CoreV1().PersistentVolumeClaims("default")
	block := cluster.NewClaim("disk", "16Mi")
	block.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	for _, claim := range []*corev1.PersistentVolumeClaim{cluster.NewClaim("data", "64Mi"), block} {
		_, err := claims.Create(ctx, claim, metav1.CreateOptions{})
		testcheck.NoError(t, err)
	}

	web := cluster.NewPod("web", "data", "disk")
	main := &web.Spec.Containers[0]
	for i, m := range main.VolumeMounts {
		if m.Name == "disk" {
			main.VolumeMounts = append(main.VolumeMounts[:i], main.VolumeMounts[i+1:]...)
			break
		}
	}
	main.VolumeDevices = []corev1.VolumeDevice{{Name: "disk", DevicePath: "/dev/xvda"}}
	main.Command = []string{"sh", "-c", "echo hello; echo hello >/mnt/data/f; echo raw | dd of=/dev/xvda conv=notrunc status=none; trap 'exit 3' TERM; sleep 1d & wait"}
	main.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi")}
	_, err := pods.Create(ctx, web, metav1.CreateOptions{})
	testcheck.NoError(t, err, c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
	result := testcheck.Must(c.Exec(ctx, "default", "web", "", "sh", "-c", "until [ -s /mnt/data/f ]; do sleep 0.01; done; cat /mnt/data/f; echo oops >&2; exit 3"))
	testcheck.Equal(t, "result", cluster.Result{Stdout: "hello\n", Stderr: "oops\n", Code: 3}, result)
	testcheck.Equal(t, "followed log", "hello\n", firstLogLine(t, c, "default", "web", "main"))
	testcheck.Equal(t, "logs", "hello\n", testcheck.Must(c.Logs("default", "web", "main")))
	testcheck.Equal(t, "file", "hello\n", string(testcheck.Must(c.ReadFile("default", "web", "data", "f"))))
	result = testcheck.Must(c.Exec(ctx, "default", "web", "", "sh", "-c", "until head -c 3 /dev/xvda | grep raw; do sleep 0.01; done; blockdev --getsize64 /dev/xvda"))
	testcheck.Equal(t, "block volume", cluster.Result{Stdout: "raw\n16777216\n"}, result)
	result = testcheck.Must(c.Exec(ctx, "default", "web", "", "sh", "-c", "x=0123456789abcdef; while :; do x=$x$x; done"))
	testcheck.Equal(t, "memory bomb", 137, result.Code)
	result = testcheck.Must(c.Exec(ctx, "default", "web", "", "ls", "/mnt", "/etc/shadow", "/var/lib"))
	testcheck.Equal(t, "address", "10.244.1.2", testcheck.Must(pods.Get(ctx, "web", metav1.GetOptions{})).Status.PodIP)
	testcheck.Equal(t, "what is visible", "/mnt:\ndata\n", result.Stdout)

	testcheck.NoError(t, pods.Delete(ctx, "web", metav1.DeleteOptions{}))
	testcheck.NoError(t, c.Wait(ctx, "the pod and its attachments to be gone", func() bool {
		return len(c.Server().List("pods")) == 0 && len(c.Server().List("volumeattachments")) == 0
	}))
	if _, err := c.Exec(ctx, "default", "web", "", "true"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("exec in a pod that does not exist: %v", err)
	}

	job := cluster.NewPod("job", "data")
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	job.Spec.Containers[0].Command = []string{"sh", "-c", "cat /mnt/data/f; exit 4"}
	_, err = pods.Create(ctx, job, metav1.CreateOptions{})
	testcheck.NoError(t, err, c.WaitForPod(ctx, "default", "job", corev1.PodFailed))
	testcheck.Equal(t, "logs", "hello\n", testcheck.Must(c.Logs("default", "job", "main")))
	if _, err := c.Exec(ctx, "default", "job", "", "true"); !errors.Is(err, container.ErrNotRunning) {
		t.Errorf("exec in a container that has exited: %v", err)
	}
	if _, err := os.Stat("/mnt/data"); err == nil {
		t.Error("the volume is mounted on the machine")
	}

	endless := cluster.NewPod("endless", "data")
	endless.Spec.Containers[0].Command = []string{"sh", "-c", "cd /mnt/data; exec 3>open; while :; do echo x >&3; sleep 0.01; done"}
	_, err = pods.Create(ctx, endless, metav1.CreateOptions{}) // it runs when the cluster is closed
	testcheck.NoError(t, err, c.WaitForPod(ctx, "default", "endless", corev1.PodRunning))
}

// firstLogLine follows the log of a container up to the end of its first line: the log takes in what a
// process has written a moment later.
func firstLogLine(t *testing.T, c *cluster.Cluster, namespace, pod, container string) string {
	t.Helper()
	kubelet, served := c.Server().Kubelet("node-1")
	if !served {
		t.Fatal("the kubelet has no server")
	}
	server := httptest.NewServer(kubelet)
	defer server.Close()
	url := fmt.Sprintf("%s/containerLogs/%s/%s/%s?follow=true", server.URL, namespace, pod, container)
	request := testcheck.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))
	response := testcheck.Must(http.DefaultClient.Do(request))
	defer response.Body.Close()
	return testcheck.Must(bufio.NewReader(response.Body).ReadString('\n'))
}
