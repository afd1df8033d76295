package volumemanager

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
)

// askedOften is a plugin that counts the queries for device mount paths.
type askedOften struct{ asked int }

func (a *askedOften) DeviceMountPath(spec *plugins.Spec) (string, error) {
	a.asked++
	return "/devices/" + spec.Name(), nil
}

func (a *askedOften) CanDeviceMount(*plugins.Spec) (bool, error) { return true, nil }

func (a *askedOften) MountDevice(context.Context, *plugins.Spec, string, plugins.MountOptions) error {
	return nil
}

func (a *askedOften) UnmountDevice(context.Context, string) error { return nil }

// full returns a manager with a number of pods, each with its own volume and claim.
func full(pods int) (*Manager, *askedOften) {
	plugin := &askedOften{}
	component := sim.NewStepped(sim.SteppedConfig{}).Process("kubelet")
	m := &Manager{desired: newDesiredState(), actual: newActualState(), ready: true}
	m.pods = sim.NewQueue[types.UID](component, sim.QueueConfig{Name: "pods"})
	m.volumes = sim.NewQueue[corev1.UniqueVolumeName](component, sim.QueueConfig{Name: "volumes"})
	for i := range pods {
		pod := podOfOne(i)
		m.desired.addPod(pod)
		spec := &plugins.Spec{PersistentVolume: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("volume-", i)}}}
		name := corev1.UniqueVolumeName(spec.Name())
		mount := desiredMount{pod: pod, spec: spec, outerName: "data"}
		m.desired.pods[pod.UID].volumes["data"] = name
		m.desired.volumes[name] = &desiredVolume{
			name: name, caps: plugins.Capabilities{DeviceMounter: plugin}, deviceMountable: true,
			pods: map[types.UID]desiredMount{pod.UID: mount},
		}
		m.actual.setMount(m.actual.add(m.desired.volumes[name], ""), mount, mounted)
	}
	return m, plugin
}

func podOfOne(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", UID: types.UID(fmt.Sprint("pod-", i))},
		Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("claim-", i)},
			}}},
			Containers: []corev1.Container{{
				Name:         "main",
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			}},
		},
	}
}

// TestDeviceMountPathIsQueriedOnce starts a kubelet that reconstructs as many devices as its pods
// want volumes.
func TestDeviceMountPathIsQueriedOnce(t *testing.T) {
	t.Parallel()
	const volumes = 50
	m, plugin := full(volumes)
	for i := range volumes {
		m.orphans.devices = append(m.orphans.devices, foundDevice{path: fmt.Sprint("/devices/volume-", i)})
	}
	m.cleanOrphans()
	if plugin.asked != volumes {
		t.Errorf("the plugin was queried %d times for %d volumes", plugin.asked, volumes)
	}
}

// TestOrphansOfAnActivePodAreNone: volumes of a pod that uses them are not orphaned, and those of
// others stay orphaned.
func TestOrphansOfAnActivePodAreNone(t *testing.T) {
	t.Parallel()
	m, _ := full(3)
	m.orphans.add(&foundVolume{pod: "pod-1", specName: "volume-1"})
	m.orphans.add(&foundVolume{pod: "pod-2", specName: "other"})
	m.cleanOrphans()
	if len(m.orphans.volumes) != 1 || len(m.orphans.volumes["pod-2"]) != 1 {
		t.Errorf("orphans %v; want the other volume of pod-2", m.orphans.volumes)
	}
}

// TestClaimantsAreTheExistingPods until the last of them is removed.
func TestClaimantsAreTheExistingPods(t *testing.T) {
	t.Parallel()
	d := newDesiredState()
	pods := []*corev1.Pod{podOfOne(7), podOfOne(7)}
	pods[1].UID = "another"
	claim := types.NamespacedName{Namespace: "default", Name: "claim-7"}
	for i, pod := range pods {
		d.addPod(pod)
		d.addPod(pod.DeepCopy()) // seen again
		if got := len(d.claimants[claim]); got != i+1 {
			t.Errorf("%d pods have the claim; want %d", got, i+1)
		}
	}
	for _, pod := range pods {
		d.removePod(pod.UID)
	}
	if len(d.claimants) > 0 {
		t.Errorf("removed pods have claims: %v", d.claimants)
	}
}

// BenchmarkClaimResized changes one claim of many pods: the cost does not depend on their number.
func BenchmarkClaimResized(b *testing.B) {
	for _, pods := range []int{10, 10_000} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			m, _ := full(pods)
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default",
				Name:      "claim-7", ResourceVersion: "9",
			}}
			b.ReportAllocs()
			for b.Loop() {
				m.ClaimResized(claim)
			}
			if !m.desired.pods["pod-7"].stale.Has("data") {
				b.Error("the pod's volume is not processed again")
			}
		})
	}
}

// BenchmarkRemains starts a kubelet that has found a volume of each pod which it could not
// reconstruct: the time per pod does not depend on their number.
func BenchmarkRemains(b *testing.B) {
	for _, pods := range []int{10, 10_000} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			m, _ := full(pods)
			for b.Loop() {
				for i := range pods {
					m.orphans.add(&foundVolume{
						pod:      types.UID(fmt.Sprint("pod-", i)),
						specName: fmt.Sprint("volume-", i),
					})
				}
				m.cleanOrphans()
				if len(m.orphans.volumes) > 0 {
					b.Fatal("volumes of pods are treated as orphans")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pods), "ns/pod")
		})
	}
}
