package cluster_test

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
)

// BenchmarkPodsWithContainers starts 1,000 pods at once in a live world in memory, each with a claim. With containers
// each writes a file to its volume, reads it and waits. It measures pods per second until all run and have read, and what a pod
// keeps in memory then, with its claim, volume, attachment and their part of the trace.
func BenchmarkPodsWithContainers(b *testing.B) {
	const count = 1000
	for _, containers := range []cluster.Containers{cluster.NoContainers, cluster.ShellContainers} {
		b.Run(string(containers), func(b *testing.B) {
			var kept uint64
			for b.Loop() {
				b.StopTimer()
				before := heapBytes()
				c, err := cluster.New(cluster.Config{Nodes: 10, Devices: cluster.Array, PreRegistered: true, Containers: containers})
				if err != nil {
					b.Fatal(err)
				}
				if err := c.Start(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				startDiaries(b, c, containers, count)
				b.StopTimer()
				kept += heapBytes() - before
				if err := c.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(count*b.N)/b.Elapsed().Seconds(), "pods/s")
			b.ReportMetric(float64(kept)/float64(count*b.N)/1024, "KiB/pod")
		})
	}
}

// startDiaries creates pods with claims, and waits until all run and, with containers, have read what they wrote.
func startDiaries(b *testing.B, c *cluster.Cluster, containers cluster.Containers, count int) {
	b.Helper()
	core := c.Client().CoreV1()
	name := func(i int) string { return fmt.Sprintf("web-%d", i) }
	for i := range count {
		pod := cluster.NewPod(name(i), name(i))
		dir := pod.Spec.Containers[0].VolumeMounts[0].MountPath
		pod.Spec.Containers[0].Command = []string{"sh", "-c", "echo written > " + dir + "/f; cat " + dir + "/f; trap exit TERM; sleep infinity"}
		if _, err := core.PersistentVolumeClaims("default").Create(b.Context(), cluster.NewClaim(name(i), "1Gi"), metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		if _, err := core.Pods("default").Create(b.Context(), pod, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	for i := range count {
		if err := c.WaitForPod(b.Context(), "default", name(i), corev1.PodRunning); err != nil {
			b.Fatal(err)
		}
	}
	if containers == cluster.NoContainers {
		return
	}
	for i := range count {
		err := c.Wait(b.Context(), "log of pod "+name(i), func() bool {
			log, err := c.Logs("default", name(i), "")
			return err == nil && log == "written\n"
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// heapBytes returns the size of all live objects.
func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
