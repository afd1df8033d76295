package scheddiff

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	volsim "github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/scheduler"
)

// blind returns a mutant: a scheduler whose cache of a kind has objects that are changed.
func blind[T runtime.Object](informer func(scheduler.Config) cache.SharedIndexInformer, change func(T)) func(*scheduler.Config) {
	return func(cfg *scheduler.Config) {
		err := informer(*cfg).SetTransform(func(obj any) (any, error) {
			changed := obj.(T).DeepCopyObject().(T)
			change(changed)
			return changed, nil
		})
		if err != nil {
			panic(err)
		}
	}
}

// drawn is a world and the pods to be created in it.
type drawn struct {
	objects []volsim.Object
	pods    []*corev1.Pod
}

// TestMutants: the comparison finds schedulers that do not see a part of the world.
func TestMutants(t *testing.T) {
	nodes := func(c scheduler.Config) cache.SharedIndexInformer { return c.Informers.Core().V1().Nodes().Informer() }
	pods := func(c scheduler.Config) cache.SharedIndexInformer { return c.Informers.Core().V1().Pods().Informer() }
	volumes := func(c scheduler.Config) cache.SharedIndexInformer {
		return c.Informers.Core().V1().PersistentVolumes().Informer()
	}
	claims := func(c scheduler.Config) cache.SharedIndexInformer {
		return c.Informers.Core().V1().PersistentVolumeClaims().Informer()
	}
	classes := func(c scheduler.Config) cache.SharedIndexInformer {
		return c.Informers.Storage().V1().StorageClasses().Informer()
	}
	drivers := func(c scheduler.Config) cache.SharedIndexInformer {
		return c.Informers.Storage().V1().CSIDrivers().Informer()
	}
	csiNodes := func(c scheduler.Config) cache.SharedIndexInformer {
		return c.Informers.Storage().V1().CSINodes().Informer()
	}
	capacities := func(c scheduler.Config) cache.SharedIndexInformer {
		return c.Informers.Storage().V1().CSIStorageCapacities().Informer()
	}
	worlds := rapid.Custom(func(t *rapid.T) drawn {
		objects, pods := drawWorld(t)
		return drawn{objects, pods}
	})
	for name, mutate := range map[string]func(*scheduler.Config){
		"taints":         blind(nodes, func(n *corev1.Node) { n.Spec.Taints = nil }),
		"cordoned nodes": blind(nodes, func(n *corev1.Node) { n.Spec.Unschedulable = false }),
		"resources of nodes": blind(nodes, func(n *corev1.Node) {
			n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("100")
		}),
		"number of pods": blind(nodes, func(n *corev1.Node) {
			n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
		}),
		"zones":           blind(nodes, func(n *corev1.Node) { delete(n.Labels, corev1.LabelTopologyZone) }),
		"host ports":      blind(pods, func(p *corev1.Pod) { p.Spec.Containers[0].Ports = nil }),
		"node affinity":   blind(pods, func(p *corev1.Pod) { p.Spec.NodeSelector = nil }),
		"affinity":        blind(pods, func(p *corev1.Pod) { p.Spec.Affinity = nil }),
		"topology spread": blind(pods, func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = nil }),
		"priorities":      blind(pods, func(p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](0) }),
		"times of pods":   blind(pods, func(p *corev1.Pod) { p.Status.StartTime = nil }),
		"affinity of volumes": blind(volumes, func(v *corev1.PersistentVolume) {
			v.Spec.NodeAffinity = nil
		}),
		"zones of volumes": blind(volumes, func(v *corev1.PersistentVolume) { v.Labels = nil }),
		"sizes of volumes": blind(volumes, func(v *corev1.PersistentVolume) {
			v.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("5Gi")
		}),
		"nodes of claims": blind(claims, func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }),
		"access modes": blind(claims, func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = modes[:1]
		}),
		"topologies of classes": blind(classes, func(c *storagev1.StorageClass) { c.AllowedTopologies = nil }),
		"capacity":              blind(drivers, func(d *storagev1.CSIDriver) { d.Spec.StorageCapacity = ptr.To(false) }),
		"size of capacity": blind(capacities, func(c *storagev1.CSIStorageCapacity) {
			c.Capacity = ptr.To(resource.MustParse("5Gi"))
		}),
		"largest volume": blind(capacities, func(c *storagev1.CSIStorageCapacity) { c.MaximumVolumeSize = nil }),
		"limits":         blind(csiNodes, func(n *storagev1.CSINode) { n.Spec.Drivers = nil }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range 2000 {
				w := worlds.Example(i)
				if difference := compare(t, w.objects, w.pods, mutate, map[string]int{}); difference != "" {
					t.Logf("world %d: %s", i, difference)
					return
				}
			}
			t.Error("no difference")
		})
	}
}
