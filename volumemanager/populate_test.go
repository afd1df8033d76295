package volumemanager_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
)

// ephemeralPod returns a pod with an ephemeral volume.
func ephemeralPod(uid types.UID) *corev1.Pod {
	pod := newPod(uid, "data")
	pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{},
	}}
	return pod
}

// TestEphemeralVolume is mounted for the pod that owns its claim, and for no other.
func TestEphemeralVolume(t *testing.T) {
	t.Parallel()
	controls := true
	owner := func(uid types.UID, controller *bool) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "pod-a", UID: uid, Controller: controller}}
	}
	tests := []struct {
		name   string
		owners []metav1.OwnerReference
		fits   bool
	}{
		{"the pod's own", owner("a", &controls), true},
		{"without an owner", nil, false},
		{"an earlier pod's of that name", owner("old", &controls), false},
		{"the pod's, which does not control it", owner("a", nil), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.disk("pod-a-data")
			claims := w.User.CoreV1().PersistentVolumeClaims("default")
			claim, err := claims.Get(t.Context(), "pod-a-data", metav1.GetOptions{})
			w.NoError(err)
			claim.OwnerReferences = tt.owners
			_, err = claims.Update(t.Context(), claim, metav1.UpdateOptions{})
			w.NoError(err)
			w.attach("pod-a-data")
			w.manager.AddPod(ephemeralPod("a"))
			w.kubelet.Wake()
			w.pass(time.Second)
			w.pod("a", tt.fits, tt.fits)
			want := []string{"PVC default/pod-a-data was not created for pod default/pod-a (pod is not owner)"}
			if tt.fits {
				want = nil
			}
			testcheck.Equal(w, "errors", want, w.manager.PopPodErrors("a"))
			testcheck.Equal(w, "errors, taken", nil, w.manager.PopPodErrors("a"))
		})
	}
}

// TestErrorsOfAPod checks that at most ten are returned at once, without duplicates, until they are
// popped.
func TestErrorsOfAPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	var claims []string
	for i := range 12 {
		claims = append(claims, fmt.Sprintf("missing-%02d", i))
	}
	w.add("a", claims...)
	w.pass(100 * ms)
	errs := w.manager.PopPodErrors("a")
	testcheck.Equal(w, "how many", 10, len(errs))
	testcheck.Equal(w, "the first", `error processing PVC default/missing-00: failed to fetch PVC from API server: `+
		`persistentvolumeclaims "missing-00" not found`, errs[0])
	testcheck.Equal(w, "taken", nil, w.manager.PopPodErrors("a"))
	w.pass(2 * time.Second) // the pod is processed again
	testcheck.Equal(w, "again", 10, len(w.manager.PopPodErrors("a")))
	testcheck.Equal(w, "of a pod that is not there", nil, w.manager.PopPodErrors("b"))
}

// TestWrongVolumeMode checks that mounting a block volume, and using a file system as a device, are
// errors.
func TestWrongVolumeMode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		mode corev1.PersistentVolumeMode
		use  func(*corev1.Container)
		want string
	}{
		{
			"a device is mounted", corev1.PersistentVolumeBlock, func(*corev1.Container) {},
			"volume disk-1 has volumeMode Block, but is specified in volumeMounts",
		},
		{
			"a file system is used as a device", corev1.PersistentVolumeFilesystem, func(c *corev1.Container) {
				c.VolumeMounts, c.VolumeDevices = nil, []corev1.VolumeDevice{{Name: "disk-1", DevicePath: "/dev/x"}}
			},
			"volume disk-1 has volumeMode Filesystem, but is specified in volumeDevices",
		},
		{
			"the first container mounts it, the second uses it as a device",
			corev1.PersistentVolumeFilesystem, func(c *corev1.Container) {
				c.VolumeDevices = []corev1.VolumeDevice{{Name: "disk-1", DevicePath: "/dev/x"}}
			},
			"volume disk-1 has volumeMode Filesystem, but is specified in volumeDevices",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.claim("disk-1")
			w.volume("disk-1", func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = &tt.mode })
			w.bind("disk-1")
			pod := newPod("a", "disk-1")
			tt.use(&pod.Spec.Containers[0])
			w.manager.AddPod(pod)
			w.kubelet.Wake()
			w.pass(time.Second)
			testcheck.Equal(w, "errors", []string{tt.want}, w.manager.PopPodErrors("a"))
			w.pod("a", false, false)
		})
	}
}

// TestInTreeVolumeIsMountedByItsDriver translates a volume to CSI; its unique name has the driver.
func TestInTreeVolumeIsMountedByItsDriver(t *testing.T) {
	t.Parallel()
	const handle = "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk-1"
	w := newWorld(t, nil)
	w.claim("disk-1")
	w.volume("disk-1", func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
			GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "disk-1"},
		}
	})
	w.bind("disk-1")
	w.attach(handle)
	w.add("a", "disk-1")
	w.Until("the volume to be in use", func() bool { return len(w.node().Status.VolumesInUse) > 0 })
	w.inUse(handle)
}

// TestDriverNoLongerRequiresAttachment mounts a volume that waited for its attachment.
func TestDriverNoLongerRequiresAttachment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.disk("disk-1")
	w.add("a", "disk-1")
	w.Run()
	w.pod("a", false, false)
	w.inUse("disk-1")
	w.backend.attachable = false
	w.manager.DriversChanged()
	w.kubelet.Wake()
	w.Run()
	w.pod("a", true, true)
	w.inUse()
	w.quiet()
}

// TestMayNotBeMounted has upstream's message for each reason.
func TestMayNotBeMounted(t *testing.T) {
	t.Parallel()
	elsewhere := &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key:      "zone",
			Operator: corev1.NodeSelectorOpIn, Values: []string{"b"},
		}},
	}}}}
	tests := []struct {
		name    string
		options bool
		volume  func(*corev1.PersistentVolume)
		want    string
	}{
		{
			"mount options, and a plugin without support", false,
			func(v *corev1.PersistentVolume) { v.Spec.MountOptions = []string{"noatime"} },
			`MountVolume.MountOptionSupport check failed for volume "disk-1" : mount options are not supported for this volume type`,
		},
		{
			"mount options, and a plugin with support", true,
			func(v *corev1.PersistentVolume) { v.Spec.MountOptions = []string{"noatime"} }, "",
		},
		{
			"a volume of another node", true, func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = elsewhere },
			`MountVolume.NodeAffinity check failed for volume "disk-1" : no matching NodeSelectorTerms`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, func(b *backend) { b.mountOptions = tt.options })
			w.claim("disk-1")
			w.volume("disk-1", tt.volume)
			w.bind("disk-1")
			w.attach("disk-1")
			w.add("a", "disk-1")
			w.pass(100 * ms)
			w.pod("a", tt.want == "", tt.want == "")
			want := []string{"x1 Warning FailedMount pod-a: " + tt.want}
			if tt.want == "" {
				want = nil
			}
			testcheck.Equal(w, "events", want, w.events())
		})
	}
}

// TestVolumeOfOnePod mounts a ReadWriteOncePod volume for the second pod after it is unmounted from
// the first.
func TestVolumeOfOnePod(t *testing.T) {
	t.Parallel()
	const once, alone = corev1.ReadWriteOnce, corev1.ReadWriteOncePod
	tests := []struct {
		name  string
		modes []corev1.PersistentVolumeAccessMode
		waits bool
	}{
		{"ReadWriteOncePod", []corev1.PersistentVolumeAccessMode{alone}, true},
		{"ReadWriteOnce", []corev1.PersistentVolumeAccessMode{once}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.claim("disk-1")
			w.volume("disk-1", func(v *corev1.PersistentVolume) { v.Spec.AccessModes = tt.modes })
			w.bind("disk-1")
			w.attach("disk-1")
			w.add("a", "disk-1")
			w.Run()
			w.add("b", "disk-1")
			w.pass(100 * ms)
			w.pod("a", true, true)
			w.pod("b", !tt.waits, !tt.waits)
			if !tt.waits {
				return
			}
			testcheck.Equal(w, "events", []string{
				`x1 Warning FailedMount pod-b: MountVolume.SetUp failed for volume "disk-1" : ` +
					"volume uses the ReadWriteOncePod access mode and is already in use by another pod",
			}, w.events())
			w.backend.faults = []fault{{"TearDown disk-1 a", errUncertain, false}}
			w.remove("a")
			w.Until("the first try to unmount", func() bool { return len(w.backend.faults) == 0 })
			w.pass(0)
			w.pod("b", false, false) // it may still be mounted for a
			w.Run()
			w.pod("b", true, true)
			w.quiet()
		})
	}
}

// TestClaimIsReadAgain when it changes. The volumes of a pod stay mounted when the claim is no
// longer usable.
func TestClaimIsReadAgain(t *testing.T) {
	t.Parallel()
	w := growingWorld(t)
	w.add("a", "disk-1")
	w.Run()
	w.expansions()
	w.Server.UpdateStored("persistentvolumes", "", "disk-1", func(stored fake.Object) fake.Object {
		v := stored.DeepCopyObject().(*corev1.PersistentVolume)
		v.Spec.ClaimRef.UID = "other"
		return v
	})
	w.updateClaim(claimed{"2Gi", "1Gi", "2Gi", pending}.write)
	w.Run()
	w.pod("a", true, true)
	testcheck.Equal(w, "errors", 1, len(w.manager.PopPodErrors("a")))
	testcheck.Equal(w, "calls", nil, w.expansions())
	w.idle()
}
