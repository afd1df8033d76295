package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/lvm"
	"github.com/volsim/volsim/sim"
)

// late is a class of the driver with delayed binding.
func late(c *cluster.Cluster) *storagev1.StorageClass {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Provisioner: c.DriverName(), VolumeBindingMode: &mode}
}

// capacities returns what is published: the class, the nodes and whether there is a maximum size.
func capacities(c *cluster.Cluster) []string {
	var texts []string
	for _, obj := range c.Server().List("csistoragecapacities") {
		o := obj.(*storagev1.CSIStorageCapacity)
		texts = append(texts, fmt.Sprintf("%s/%s %s %t", o.Namespace, o.StorageClassName, metav1.FormatLabelSelector(o.NodeTopology),
			o.MaximumVolumeSize != nil && o.MaximumVolumeSize.Cmp(*o.Capacity) <= 0))
	}
	slices.Sort(texts)
	return texts
}

// announces reports whether the driver says that capacity is published.
func announces(c *cluster.Cluster) bool {
	obj, ok := c.Server().Get("csidrivers", "", c.DriverName())
	return ok && obj.(*storagev1.CSIDriver).Spec.StorageCapacity != nil && *obj.(*storagev1.CSIDriver).Spec.StorageCapacity
}

func TestStorageCapacityStepped(t *testing.T) {
	t.Parallel()
	tests := []struct {
		period time.Duration
		want   []string
	}{{0, nil}, {time.Minute, []string{"kube-system/late <none> true"}}}
	for _, tt := range tests {
		c := testcheck.Must(cluster.New(cluster.Config{StorageCapacity: tt.period, Stepped: &sim.SteppedConfig{}}))
		c.User("user", func(ctx context.Context) error {
			_, err := c.Client().StorageV1().StorageClasses().Create(ctx, late(c), metav1.CreateOptions{})
			return err
		})
		testcheck.NoError(t, c.Run(context.Background()))
		if diff := cmp.Diff(tt.want, capacities(c)); diff != "" {
			t.Errorf("every %v (-want +got):\n%s", tt.period, diff)
		}
		if got := announces(c); got != (tt.period > 0) {
			t.Errorf("every %v: CSIDriver has storageCapacity %v", tt.period, got)
		}
		testcheck.NoError(t, c.Close())
	}
}

// TestStorageCapacityLive checks that capacity is published for each node by a driver whose volumes are on
// nodes, and for all nodes by others.
func TestStorageCapacityLive(t *testing.T) {
	t.Parallel()
	for _, devices := range []cluster.Devices{cluster.Array, cluster.Loop, cluster.LVM} {
		t.Run(string(devices), func(t *testing.T) {
			t.Parallel()
			probes := map[cluster.Devices]func() error{cluster.Loop: loop.Probe, cluster.LVM: lvm.Probe}
			if probe := probes[devices]; probe != nil && probe() != nil {
				t.Skip(probe())
			}
			c := testcheck.Must(cluster.New(cluster.Config{StorageCapacity: time.Minute, Devices: devices}))
			t.Cleanup(func() { testcheck.NoError(t, c.Close()) })
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			testcheck.NoError(t, c.Start(ctx))
			testcheck.Must(c.Client().StorageV1().StorageClasses().Create(ctx, late(c), metav1.CreateOptions{}))
			want := []string{"kube-system/late <none> true"}
			if devices == cluster.LVM { // its default class has delayed binding, too
				want = nil
				for _, class := range []string{"late", cluster.ClassName} {
					for _, node := range []string{"node-1", "node-2"} {
						want = append(want, fmt.Sprintf("kube-system/%s %s true", class, segmentOf(c, node)))
					}
				}
			}
			if err := c.Wait(ctx, "capacities", func() bool { return slices.Equal(want, capacities(c)) }); err != nil {
				t.Errorf("%v; want %q, got %q", err, want, capacities(c))
			}
		})
	}
}

// segmentOf returns the segment of a node as text.
func segmentOf(c *cluster.Cluster, name string) string {
	csiNode, _ := c.Server().Get("csinodes", "", name)
	node, _ := c.Server().Get("nodes", "", name)
	key := csiNode.(*storagev1.CSINode).Spec.Drivers[0].TopologyKeys[0]
	return key + "=" + node.(*corev1.Node).Labels[key]
}

// TestSchedulerConfiguration checks which configurations of the scheduler a cluster takes.
func TestSchedulerConfiguration(t *testing.T) {
	t.Parallel()
	zero := int64(0)
	extenders := []configv1.Extender{{URLPrefix: "http://127.0.0.1:1", FilterVerb: "filter"}}
	tests := []struct {
		name string
		cfg  cluster.Config
		want string // part of the error; "": none
	}{
		{"valid", cluster.Config{Scheduler: &configv1.KubeSchedulerConfiguration{Extenders: extenders}, Devices: cluster.Array}, ""},
		{"invalid", cluster.Config{Scheduler: &configv1.KubeSchedulerConfiguration{PodMaxBackoffSeconds: &zero}, Devices: cluster.Array}, "podMaxBackoffSeconds: Invalid value: 0"},
		{"stepped with extenders", cluster.Config{Scheduler: &configv1.KubeSchedulerConfiguration{Extenders: extenders}, Stepped: &sim.SteppedConfig{}}, "a stepped world has no network"},
	}
	for _, tt := range tests {
		c, err := cluster.New(tt.cfg)
		if c != nil {
			testcheck.NoError(t, c.Close())
		}
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
}
