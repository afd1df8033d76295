package volumemanager_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
)

// TestUnmappingThatDidNotBegin checks that a device is unchanged after a teardown that failed
// because the driver was missing, and is not set up again for the next pod. One that may have been
// torn down is uncertain.
func TestUnmappingThatDidNotBegin(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{errTransient: 1, errUncertain: 2} {
		w, p := newScriptedWorld(t, script{undoing: []error{err}}, block)
		w.addDevicePod("a")
		w.remove("a")
		w.Until("the device not to be torn down", func() bool { return p.calls["TearDownDevice"] == 1 })
		w.addDevicePod("b")
		w.pod("b", true, true)
		testcheck.Equal(w, "set up", want, p.calls["SetUpDevice"])
	}
}

// TestDeviceIsSetUpWithOptions checks that the plugin's options have the pod's use of the volume,
// and that nothing was reconstructed.
func TestDeviceIsSetUpWithOptions(t *testing.T) {
	t.Parallel()
	w, p := newScriptedWorld(t, script{device: []error{errTransient, nil}}, block)
	pod := devicePod("a")
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64)}
	w.manager.AddPod(pod)
	w.kubelet.Wake()
	w.pass(10 * time.Second)
	w.pod("a", true, true)
	testcheck.Equal(w, "tries", 2, len(p.uses))
	for _, use := range p.uses {
		if use.DevicePath != "/dev/v" || use.Reconstructed || use.Remount || use.FSGroup == nil || use.Recorder == nil {
			t.Errorf("options %+v", use)
		}
	}
}

// TestBlockVolumeIsExpanded expands a volume while a pod uses it as a device, and when it is
// mapped.
func TestBlockVolumeIsExpanded(t *testing.T) {
	t.Parallel()
	for _, inUse := range []bool{true, false} {
		w, p := newScriptedWorld(t, script{expands: true}, block)
		grow := func() {
			ten := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
			w.Server.UpdateStored("persistentvolumes", "", "v", func(o fake.Object) fake.Object {
				v := o.DeepCopyObject().(*corev1.PersistentVolume)
				v.Spec.Capacity = ten
				return v
			})
			w.Server.UpdateStored("persistentvolumeclaims", "default", "v", func(o fake.Object) fake.Object {
				c := o.DeepCopyObject().(*corev1.PersistentVolumeClaim)
				c.Spec.Resources.Requests, c.Status.AllocatedResources = ten, ten
				c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: pending}
				return c
			})
			object, _ := w.Server.Get("persistentvolumeclaims", "default", "v")
			w.manager.ClaimResized(object.(*corev1.PersistentVolumeClaim))
			w.kubelet.Wake()
		}
		if !inUse {
			grow()
		}
		w.manager.AddPod(devicePod("a"))
		w.kubelet.Wake()
		if inUse {
			w.pass(10 * time.Second)
			testcheck.Equal(w, "grown", nil, p.grown)
			grow()
		}
		w.Until("the volume to grow", func() bool { return p.calls["NodeExpand"] > 0 })
		w.pod("a", inUse, true)
		w.pass(10 * time.Second)
		w.pod("a", true, true)
		testcheck.Equal(w, "grown", []string{"1Gi to 10Gi for a"}, p.grown)
		object, _ := w.Server.Get("persistentvolumeclaims", "default", "v")
		has := object.(*corev1.PersistentVolumeClaim).Status.Capacity[corev1.ResourceStorage]
		testcheck.Equal(w, "the claim has", "10Gi", has.String())
		testcheck.Equal(w, "what was mapped stays", []int{1, 0},
			[]int{p.calls["MapPodDevice"], p.calls["UnmapPodDevice"]})
		if !slices.Contains(w.events(), `x1 Normal FileSystemResizeSuccessful pod-a: MountVolume.NodeExpandVolume succeeded for volume "v" node-1`) {
			t.Errorf("events %q", w.events())
		}
	}
}

// TestDeviceOfOnePod maps a ReadWriteOncePod device for the second pod after it is unmapped from
// the first.
func TestDeviceOfOnePod(t *testing.T) {
	t.Parallel()
	w, p := newScriptedWorld(t, script{}, block)
	w.Server.UpdateStored("persistentvolumes", "", "v", func(o fake.Object) fake.Object {
		v := o.DeepCopyObject().(*corev1.PersistentVolume)
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		return v
	})
	w.addDevicePod("a")
	w.addDevicePod("b")
	w.pod("a", true, true)
	w.pod("b", false, false)
	testcheck.Equal(w, "mapped", 1, p.calls["MapPodDevice"])
	const refused = `Warning FailedMapVolume pod-b: MapVolume.SetUpDevice failed for volume "v" : ` +
		"volume uses the ReadWriteOncePod access mode and is already in use by another pod"
	if !slices.ContainsFunc(w.events(), func(e string) bool { return strings.HasSuffix(e, refused) }) {
		t.Errorf("events %q, want %q", w.events(), refused)
	}
	w.remove("a")
	w.pass(3 * time.Minute)
	w.pod("b", true, true)
}
