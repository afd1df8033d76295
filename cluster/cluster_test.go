package cluster_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim"
)

func TestNewRejectsInvalidConfigs(t *testing.T) {
	tests := []struct {
		name string
		cfg  cluster.Config
		want string
	}{
		{"devices", cluster.Config{Devices: "zfs"}, `devices "zfs": want auto, loop, lvm or array`},
		{"nodes", cluster.Config{Nodes: -1}, "-1 nodes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := cluster.New(tt.cfg)
			if err == nil {
				c.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %q", err, tt.want)
			}
		})
	}
}

// A closed cluster can be read, but neither started nor written to.
func TestClosedCluster(t *testing.T) {
	for _, stepped := range []*sim.SteppedConfig{nil, {}} {
		c, err := cluster.New(cluster.Config{Nodes: 1, Devices: cluster.Array, Stepped: stepped})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(t.Context()); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for name, start := range map[string]func(context.Context) error{"Start": c.Start, "Run": c.Run} {
			if err := start(t.Context()); err == nil || err.Error() != "cluster: closed" {
				t.Errorf("%s after Close: error = %v", name, err)
			}
		}
		maps := c.Client().CoreV1().ConfigMaps("default")
		_, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), "host closed") {
			t.Errorf("Create after Close: error = %v", err)
		}
		if left, err := maps.List(t.Context(), metav1.ListOptions{}); err != nil || len(left.Items) != 1 { // kube-root-ca.crt
			t.Errorf("after a failed Create there are %d objects, error = %v; want 1", len(left.Items), err)
		}
	}
}

func TestClusterStartsWithNodesDriverAndClass(t *testing.T) {
	c, err := cluster.New(cluster.Config{Nodes: 3, Stepped: &sim.SteppedConfig{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"node-1", "node-2", "node-3"} {
		node, ok := c.Server().Get("nodes", "", name)
		if !ok || node.GetAnnotations()["volumes.kubernetes.io/controller-managed-attach-detach"] != "true" {
			t.Errorf("node %s: %v", name, node)
		}
		registered, ok := c.Server().Get("csinodes", "", name)
		if !ok {
			t.Errorf("no CSINode %s", name)
			continue
		}
		drivers := registered.(*storagev1.CSINode).Spec.Drivers
		if len(drivers) != 1 || drivers[0].Name != c.DriverName() || drivers[0].NodeID != name {
			t.Errorf("drivers of %s: %+v", name, drivers)
		}
	}
	class, ok := c.Server().Get("storageclasses", "", cluster.ClassName)
	if !ok || class.(*storagev1.StorageClass).Provisioner != c.DriverName() {
		t.Errorf("default class: %v", class)
	}
	if kind, why := c.Devices(); kind != cluster.Array || !strings.Contains(why, "stepped") {
		t.Errorf("devices: %s, %s", kind, why)
	}
}

func TestFilesOfAnUnmountedVolume(t *testing.T) {
	c, err := cluster.New(cluster.Config{Stepped: &sim.SteppedConfig{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	check := func(when string, want error) {
		t.Helper()
		if _, err := c.ReadFile("default", "web", "data", "f"); !errors.Is(err, want) {
			t.Errorf("%s: error = %v, want %v", when, err, want)
		}
	}
	check("no pod", fs.ErrNotExist)
	if _, err := c.Client().CoreV1().Pods("default").Create(ctx, cluster.NewPod("web", "data"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	check("no claim", fs.ErrNotExist)
	if _, err := c.Client().CoreV1().PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("data", "1Gi"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	check("not bound", cluster.ErrNotMounted)
	if err := c.WaitForClaim(ctx, "default", "data", corev1.ClaimBound); err != nil {
		t.Fatal(err)
	}
	check("not mounted", cluster.ErrNotMounted)
	if err := c.WaitForPod(ctx, "default", "web", corev1.PodRunning); err != nil {
		t.Fatal(err)
	}
	check("no file", fs.ErrNotExist)
	if err := c.WriteFile("default", "web", "data", "f", []byte("x")); err != nil {
		t.Error(err)
	}
	check("all there", nil)
}

// The error of a wait that cannot end describes the wait and what is pending.
func TestWaitThatCannotEnd(t *testing.T) {
	c, err := cluster.New(cluster.Config{Stepped: &sim.SteppedConfig{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client().CoreV1().Pods("default").Create(ctx, cluster.NewPod("web", "missing"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err = c.WaitForRest(ctx)
	if !errors.Is(err, sim.ErrQuiescent) || !strings.Contains(err.Error(), "pod default/web is not running") {
		t.Errorf("error = %v, want one that names the pod", err)
	}
}

// Retain: the volume outlives its claim, Released, with its data.
func TestRetainedVolumeStays(t *testing.T) {
	c, err := cluster.New(cluster.Config{Stepped: &sim.SteppedConfig{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	retain, class := corev1.PersistentVolumeReclaimRetain, "kept"
	if _, err := c.Client().StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: c.DriverName(), ReclaimPolicy: &retain,
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim := cluster.NewClaim("data", "1Gi")
	claim.Spec.StorageClassName = &class
	claims := c.Client().CoreV1().PersistentVolumeClaims("default")
	if _, err := claims.Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitForClaim(ctx, "default", "data", corev1.ClaimBound); err != nil {
		t.Fatal(err)
	}
	if err := claims.Delete(ctx, "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Run(ctx); err != nil {
		t.Fatal(err)
	}
	volumes := c.Server().List("persistentvolumes")
	if len(volumes) != 1 || volumes[0].(*corev1.PersistentVolume).Status.Phase != corev1.VolumeReleased {
		t.Errorf("volumes: %v, want one that is Released", volumes)
	}
	left, err := c.Leaks()
	if err != nil || len(left) != 2 {
		t.Errorf("leaks: %v, %v; want the PersistentVolume and the volume", left, err)
	}
}

// WaitForFirstConsumer: nothing is provisioned before a pod is scheduled.
func TestDelayedBinding(t *testing.T) {
	c, err := cluster.New(cluster.Config{Stepped: &sim.SteppedConfig{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	mode, class := storagev1.VolumeBindingWaitForFirstConsumer, "late"
	if _, err := c.Client().StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: c.DriverName(), VolumeBindingMode: &mode,
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim := cluster.NewClaim("data", "1Gi")
	claim.Spec.StorageClassName = &class
	if _, err := c.Client().CoreV1().PersistentVolumeClaims("default").Create(ctx, claim,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if n := len(c.Server().List("persistentvolumes")); n != 0 {
		t.Fatalf("%d volumes without a consumer", n)
	}
	if _, err := c.Client().CoreV1().Pods("default").Create(ctx, cluster.NewPod("web", "data"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitForPod(ctx, "default", "web", corev1.PodRunning); err != nil {
		t.Fatal(err)
	}
	bound, ok := c.Server().Get("persistentvolumeclaims", "default", "data")
	if !ok || bound.GetAnnotations()["volume.kubernetes.io/selected-node"] != "node-1" {
		t.Errorf("claim: %v, want node-1 selected", bound)
	}
}

// A kubelet polls for a claim that is not bound, since no watch reports it. That does not keep the
// world from quiescence.
func TestPodWithAClaimBoundLate(t *testing.T) {
	c, err := cluster.New(cluster.Config{Stepped: &sim.SteppedConfig{StepsMax: 5000}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	pod := cluster.NewPod("web", "data")
	pod.Spec.NodeName = "node-2"
	if _, err := c.Client().CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitForPod(ctx, "default", "web", corev1.PodRunning); !errors.Is(err, sim.ErrQuiescent) {
		t.Fatalf("without a claim: %v, want ErrQuiescent", err)
	}
	if _, err := c.Client().CoreV1().PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("data", "1Gi"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitForPod(ctx, "default", "web", corev1.PodRunning); err != nil {
		t.Fatal(err)
	}
}
