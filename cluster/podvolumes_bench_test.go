package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim"
)

// podOfKinds returns a pod on node-1 with a volume of each of the first kinds: a claim, an emptyDir
// on the disk, one in memory, a config map, a secret and a projected volume.
func podOfKinds(name string, kinds int) *corev1.Pod {
	pod := sixKinds()
	pod.Name, pod.Spec.NodeName = name, ""
	var volumes []corev1.Volume
	for _, kind := range []string{"own", "scratch", "memory", "config", "keys", "all"}[:kinds] {
		i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == kind })
		volumes = append(volumes, pod.Spec.Volumes[i])
	}
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
		return !slices.ContainsFunc(volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
	})
	pod.Spec.Volumes = volumes
	return pod
}

// volumesWorld returns a live world in memory with the objects of the pods' volumes.
func volumesWorld(b *testing.B) *cluster.Cluster {
	b.Helper()
	c, err := cluster.New(cluster.Config{Devices: cluster.Array, PreRegistered: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.Error(err)
		}
	})
	if err := c.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := c.Apply(b.Context(), configObject); err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkPodVolumes measures the time from the scheduling of a pod to Running in a live world in
// memory, one pod after the other: with a generic ephemeral volume, and with volumes of six kinds.
func BenchmarkPodVolumes(b *testing.B) {
	for _, kinds := range []int{1, 6} {
		b.Run(fmt.Sprintf("%d kinds", kinds), func(b *testing.B) {
			c := volumesWorld(b)
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				name := fmt.Sprintf("web-%d", i)
				took = append(took, startPod(b, c, podOfKinds(name, kinds)))
				b.StopTimer()
				removePod(b, c, name)
				b.StartTimer()
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
		})
	}
}

// startPod creates a pod and returns the time from its assignment to a node until it runs.
func startPod(b *testing.B, c *cluster.Cluster, pod *corev1.Pod) time.Duration {
	b.Helper()
	pods := c.Client().CoreV1().Pods("default")
	if _, err := pods.Create(b.Context(), pod, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	scheduled := func() bool {
		o, ok := c.Server().Get("pods", "default", pod.Name)
		return ok && o.(*corev1.Pod).Spec.NodeName != ""
	}
	if err := c.Wait(b.Context(), "the pod to be scheduled", scheduled); err != nil {
		b.Fatal(err)
	}
	begin := time.Now()
	if err := c.WaitForPod(b.Context(), "default", pod.Name, corev1.PodRunning); err != nil {
		b.Fatal(err)
	}
	return time.Since(begin)
}

func removePod(b *testing.B, c *cluster.Cluster, name string) {
	b.Helper()
	if err := c.Client().CoreV1().Pods("default").Delete(b.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	for resource, object := range map[string]string{"pods": name, "persistentvolumeclaims": name + "-own"} {
		if err := c.WaitForGone(b.Context(), resource, "default", object); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkThousandPods starts 1,000 pods with volumes of six kinds at once, stepped, and removes
// them.
func BenchmarkThousandPods(b *testing.B) {
	const count = 1000
	steps := 0
	for b.Loop() {
		c, err := cluster.New(cluster.Config{PreRegistered: true, Stepped: &sim.SteppedConfig{}})
		if err != nil {
			b.Fatal(err)
		}
		if err := errors.Join(c.Start(b.Context()), c.Apply(b.Context(), configObject)); err != nil {
			b.Fatal(err)
		}
		pods := c.Client().CoreV1().Pods("default")
		for _, act := range []func(ctx context.Context, name string) error{
			func(ctx context.Context, name string) error {
				_, err := pods.Create(ctx, podOfKinds(name, 6), metav1.CreateOptions{})
				return err
			},
			func(ctx context.Context, name string) error { return pods.Delete(ctx, name, metav1.DeleteOptions{}) },
		} {
			for i := range count {
				if err := act(b.Context(), fmt.Sprintf("web-%d", i)); err != nil {
					b.Fatal(err)
				}
			}
			if err := c.Run(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		if running := c.Server().List("pods"); len(running) > 0 {
			b.Fatalf("%d pods are left", len(running))
		}
		steps += c.Host().(*sim.Stepped).Steps()
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(steps)/float64(b.N*count), "steps/pod")
	b.ReportMetric(b.Elapsed().Seconds()*1000/float64(b.N*count), "ms/pod")
}
