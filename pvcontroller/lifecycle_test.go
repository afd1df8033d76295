package pvcontroller_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/sim/trace"
)

// TestMatch has the IDs of upstream's binder_test.go.
func TestMatch(t *testing.T) {
	block := func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }
	forBlock := func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }
	modes := func(modes ...corev1.PersistentVolumeAccessMode) volumeOption {
		return func(v *corev1.PersistentVolume) { v.Spec.AccessModes = modes }
	}
	labelled := func(v *corev1.PersistentVolume) { v.Labels = map[string]string{"foo": "true"} }
	selecting := func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"foo": "true"}}
	}
	tests := []struct {
		name    string
		volumes func(w *world)
		claim   []claimOption
		want    string // the claim
	}{
		{"1-1 exact", func(w *world) { w.volume("v", "1Gi") }, nil, "c Bound to v 1Gi by-controller completed"},
		{"1-2 too small", func(w *world) { w.volume("v", "500Mi") }, nil, "c Pending"},
		{"1-4 the smallest that fits", func(w *world) {
			w.volume("a", "10Gi")
			w.volume("b", "2Gi")
			w.volume("d", "500Mi")
		}, nil, "c Bound to b 2Gi by-controller completed"},
		{"the first by name of equal volumes", func(w *world) {
			w.volume("z", "2Gi")
			w.volume("m", "2048Mi")
			w.volume("n", "2Gi")
		}, nil, "c Bound to m 2Gi by-controller completed"},
		{"1-5 reserved by name, though a smaller one is there", func(w *world) {
			w.volume("a", "1Gi")
			w.volume("v", "10Gi", reservedBy("c"))
		}, nil, "c Bound to v 10Gi by-controller completed"},
		{"pre-bound to another claim", func(w *world) { w.volume("v", "1Gi", reservedBy("d")) }, nil, "c Pending"},
		{"fewest modes, although larger", func(w *world) {
			w.volume("a", "1Gi", modes(corev1.ReadWriteOnce, corev1.ReadWriteMany))
			w.volume("b", "9Gi")
		}, nil, "c Bound to b 9Gi by-controller completed"},
		{"more modes than requested", func(w *world) {
			w.volume("a", "1Gi", modes(corev1.ReadWriteMany))
			w.volume("b", "2Gi", modes(corev1.ReadWriteMany, corev1.ReadWriteOnce))
		}, nil, "c Bound to b 2Gi by-controller completed"},
		{"RWOP is not RWO", func(w *world) { w.volume("v", "1Gi", modes(corev1.ReadWriteOncePod)) }, nil, "c Pending"},
		{"1-11 selector", func(w *world) {
			w.volume("a", "1Gi")
			w.volume("v", "2Gi", labelled)
		}, []claimOption{selecting}, "c Bound to v 2Gi by-controller completed"},
		{"1-12 selector without match", func(w *world) { w.volume("v", "1Gi") }, []claimOption{selecting}, "c Pending"},
		{"13-1 class", func(w *world) {
			w.volume("a", "1Gi")
			w.volume("v", "10Gi", inClass("gold"))
		}, []claimOption{ofClass("gold")}, "c Bound to v 10Gi of gold by-controller completed"},
		{"13-2 no class", func(w *world) {
			w.volume("a", "1Gi", inClass("gold"))
			w.volume("v", "10Gi")
		}, nil, "c Bound to v 10Gi by-controller completed"},
		{"13-3 another class", func(w *world) {
			w.volume("a", "1Gi", inClass("silver"))
			w.volume("v", "10Gi", inClass("gold"))
		}, []claimOption{ofClass("gold")}, "c Bound to v 10Gi of gold by-controller completed"},
		{
			"13-4 empty class", func(w *world) { w.volume("v", "1Gi") },
			[]claimOption{ofClass("")},
			"c Bound to v 1Gi by-controller completed",
		},
		{
			"14-1 block", func(w *world) { w.volume("v", "1Gi", block) },
			[]claimOption{forBlock},
			"c Bound to v 1Gi by-controller completed",
		},
		{"14-3 no block", func(w *world) { w.volume("v", "1Gi") }, []claimOption{forBlock}, "c Pending"},
		{"14-4 block not wanted", func(w *world) { w.volume("v", "1Gi", block) }, nil, "c Pending"},
		{
			"14-7 reserved, of the mode wanted", func(w *world) { w.volume("v", "1Gi", block, reservedBy("c")) },
			[]claimOption{forBlock},
			"c Bound to v 1Gi by-controller completed",
		},
		{
			"14-8-1 reserved, of another mode",
			func(w *world) { w.volume("v", "1Gi", block, reservedBy("c")) }, nil, "c Pending",
		},
		{
			"2-1 names a volume that is not there", func(w *world) { w.volume("a", "1Gi") },
			[]claimOption{naming("v")},
			"c Pending to v",
		},
		{"2-3, 1-15 names a volume", func(w *world) {
			w.volume("a", "1Gi")
			w.volume("v", "10Gi")
		}, []claimOption{naming("v")}, "c Bound to v 10Gi completed"},
		{
			"2-4 names a volume reserved for it", func(w *world) { w.volume("v", "1Gi", reservedBy("c")) },
			[]claimOption{naming("v")},
			"c Bound to v 1Gi completed",
		},
		{
			"2-6 names a volume reserved for another", func(w *world) { w.volume("v", "1Gi", reservedBy("d")) },
			[]claimOption{naming("v")},
			"c Pending to v",
		},
		{
			"2-8 names a volume its selector does not match", func(w *world) { w.volume("v", "1Gi") },
			[]claimOption{naming("v"), selecting},
			"c Bound to v 1Gi completed",
		},
	}
	for _, tt := range tests {
		for _, late := range []bool{false, true} {
			name := tt.name
			if late {
				name += ", volumes late"
			}
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, nil)
				w.control()
				if !late {
					tt.volumes(w)
					w.Run()
				}
				w.claim("c", "1Gi", tt.claim...)
				w.Run()
				if late {
					tt.volumes(w)
					w.Run()
				}
				if got := stateOfClaim(w.claimNow("c")); got != tt.want && !late {
					t.Errorf("got %q, want %q", got, tt.want)
				} else if (w.claimNow("c").Status.Phase == corev1.ClaimBound) != (tt.want != "c Pending" &&
					tt.want != "c Pending to v") {
					t.Errorf("created late: got %q, want %q", got, tt.want)
				}
			})
		}
	}
}

func bound(t *testing.T, options ...volumeOption) *world {
	w := newWorld(t, nil)
	w.control()
	w.volume("v", "1Gi", options...)
	w.claim("c", "1Gi")
	w.Run()
	w.wantState(boundVolume, boundClaim)
	return w
}

// A claim is Lost when its volume is deleted, and recovers when a volume with that name is created
// for it (3-2, 3-3).
func TestLostClaimRecovers(t *testing.T) {
	w := bound(t)
	w.deleteVolume("v")
	w.Run()
	w.wantState("c Lost to v by-controller completed")
	w.wantEvents("c Warning ClaimLost: Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	w.volume("v", "1Gi")
	w.Run()
	w.wantState(boundVolume, boundClaim)
	w.deleteVolume("v")
	w.volume("v", "1Gi", reservedBy("another"))
	w.Run()
	w.wantState("v Available for another by name", "c Lost to v by-controller completed")
}

// A claimRef that another client removed is written again.
func TestClaimRefIsRestored(t *testing.T) {
	w := bound(t)
	w.editVolume("v", func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil })
	w.Run()
	w.wantState(boundVolume, boundClaim)
}

func TestRetainedVolumeIsReleasedUntilFreed(t *testing.T) {
	w := bound(t)
	w.deleteClaim("c")
	w.Run()
	w.wantState("v Released for c by-controller")
	w.claim("c", "1Gi") // not the claim it was bound to
	w.Run()
	w.wantState("v Released for c by-controller", "c Pending")
	w.editVolume("v", func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil })
	w.Run()
	w.wantState(boundVolume, boundClaim)
}

// A deletion and a creation that reach the cache as one update are recognized as two claims.
func TestClaimRecreatedInOneUpdate(t *testing.T) {
	w := bound(t)
	w.deleteClaim("c")
	w.claim("c", "1Gi")
	w.Run()
	w.wantState("v Released for c by-controller", "c Pending")
}

func TestReclaimWithoutPlugin(t *testing.T) {
	hostPath := func(v *corev1.PersistentVolume) {
		v.Spec.CSI, v.Spec.HostPath = nil, &corev1.HostPathVolumeSource{Path: "/data"}
	}
	tests := []struct {
		name    string
		options []volumeOption
		phase   string
		events  []string
	}{
		{"8-10-2 external provisioner deletes", []volumeOption{toDelete}, "Released", nil},
		{"8-3 no plugin deletes", []volumeOption{toDelete, hostPath}, "Failed", []string{
			`v Warning VolumeFailedDelete: error getting deleter volume plugin for volume "v": no volume plugin matched`,
		}},
		{"6-3 no plugin recycles", []volumeOption{func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRecycle
		}, hostPath}, "Failed", []string{"v Warning VolumeFailedRecycle: No recycler plugin found for the volume!"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := bound(t, tt.options...)
			w.deleteClaim("c")
			w.Run()
			w.wantState("v " + tt.phase + " for c by-controller")
			w.wantEvents(tt.events...)
		})
	}
}

func TestDefaultClassIsAssignedLater(t *testing.T) {
	w := newWorld(t, nil)
	w.control()
	w.claim("c", "1Gi")
	w.claim("none", "1Gi", ofClass(""))
	w.claim("beta", "1Gi", annotated(corev1.BetaStorageClassAnnotation, "old"))
	w.Run()
	w.class("gold", "disk.example.com", storagev1.VolumeBindingWaitForFirstConsumer, true)
	w.Run()
	w.wantState("beta Pending", "c Pending of gold", "none Pending")
	w.class("silver", "disk.example.com", storagev1.VolumeBindingImmediate, true)
	w.Run()
	w.wantState("beta Pending", "c Pending of gold", "none Pending")
}

func TestDelayedBinding(t *testing.T) {
	const provisioner = "disk.example.com"
	w := newWorld(t, nil)
	w.control()
	w.class("gold", provisioner, storagev1.VolumeBindingWaitForFirstConsumer, false)
	w.volume("a", "1Gi", inClass("gold")) // left to the scheduler (1-13)
	w.claim("c", "1Gi", ofClass("gold"))
	w.Run()
	first := "c Normal WaitForFirstConsumer: waiting for first consumer to be created before binding"
	w.wantEvents(first)
	w.pod("p", "c")
	w.Run()
	second := "c Normal WaitForPodScheduled: waiting for pod p to be scheduled"
	w.wantEvents(first, second)
	since := w.Host.Log().Len()
	w.editClaim("c", annotated(storagehelpers.AnnSelectedNode, "node-1"))
	w.Run()
	w.wantEvents("c Normal ExternalProvisioning: Waiting for a volume to be created either by the external provisioner "+
		"'disk.example.com' or manually by the system administrator. If volume creation is delayed, please verify that the "+
		"provisioner is running and correctly registered.", first, second)
	w.wantRequests(since, "update persistentvolumeclaims/default/c: provisioner=disk.example.com")
	claim := w.claimNow("c")
	if got := claim.Annotations[storagehelpers.AnnBetaStorageProvisioner]; got != provisioner {
		t.Errorf("beta annotation: got %q, want %q", got, provisioner)
	}
	w.volume("v", "1Gi", inClass("gold"), reservedFor(claim),
		marked(storagehelpers.AnnDynamicallyProvisioned, provisioner))
	w.Run()
	w.wantState("a Available", "v Bound for c", "c Bound to v 1Gi of gold by-controller completed")
}

func TestClassCreatedLater(t *testing.T) {
	w := newWorld(t, nil)
	w.control()
	w.claim("c", "1Gi", ofClass("gold"))
	w.Run()
	missing := `c Warning ProvisioningFailed: storageclass.storage.k8s.io "gold" not found`
	w.wantEvents(missing)
	w.class("gold", storagehelpers.NotSupportedProvisioner, storagev1.VolumeBindingImmediate, false)
	w.Run()
	w.wantEvents("c Warning ProvisioningFailed: no volume plugin matched name: kubernetes.io/no-provisioner", missing)
}

// A conflict while the provisioner annotation is written is recorded, and the write is retried.
func TestProvisionerAnnotationIsRetried(t *testing.T) {
	w := newWorld(t, nil)
	changed := false
	w.control(func(a trace.Action) {
		if !changed && a.Verb == "update" {
			changed = true
			w.editClaim("c", annotated("user", "was here"))
		}
	})
	w.class("gold", "disk.example.com", storagev1.VolumeBindingImmediate, false)
	w.claim("c", "1Gi", ofClass("gold"))
	w.Run()
	w.wantRequests(0,
		"update persistentvolumeclaims/default/c: failed",
		"update persistentvolumeclaims/default/c: provisioner=disk.example.com")
	told := strings.Join(w.events(), "\n")
	for _, part := range []string{
		"c Warning ProvisioningFailed: Error saving claim: ",
		"c Normal ExternalProvisioning: ",
	} {
		if !strings.Contains(told, part) {
			t.Errorf("no event %q in\n%s", part, told)
		}
	}
}

// If another client writes the claim while the default class is set, the class is set again, but
// never over another (I13).
func TestDefaultClassDoesNotOverwrite(t *testing.T) {
	w := newWorld(t, nil)
	w.control(func(a trace.Action) {
		if a.Verb == "update" {
			w.editClaim("c", ofClass("silver"))
		}
	})
	w.claim("c", "1Gi")
	w.Run()
	w.class("silver", "kubernetes.io/no-provisioner", storagev1.VolumeBindingImmediate, false)
	w.class("gold", "kubernetes.io/no-provisioner", storagev1.VolumeBindingImmediate, true)
	w.Run()
	w.wantState("c Pending of silver")
}

// 6-11, 6-12: a volume is recycled only after the pods that use its previous claim.
func TestRecyclingWaitsForPods(t *testing.T) {
	w := newWorld(t, nil)
	w.control()
	w.volume("v", "1Gi", func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRecycle
		v.Spec.CSI, v.Spec.NFS = nil, &corev1.NFSVolumeSource{Server: "nfs.example.com", Path: "/"}
	})
	w.claim("c", "1Gi")
	w.Run()
	w.pod("p", "c")
	w.deleteClaim("c")
	w.Run()
	w.wantState("v Released for c by-controller")
	w.wantEvents("v Normal VolumeFailedRecycle: Volume is used by pods: default/p")
	since := w.Host.Now()
	if err := w.User.CoreV1().Pods("default").Delete(ctx, "p",
		metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	const failed = "v Failed for c by-controller"
	for w.state() != failed && w.Host.Step() {
	}
	w.wantState(failed)
	if waited := w.Host.Now().Sub(since); waited != 0 {
		t.Errorf("waited %v after the pod was deleted: until the resync", waited)
	}
}
