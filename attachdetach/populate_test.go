package attachdetach_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
)

// TestOnlyBoundClaimsAreWanted lets a pod come before its claim and volume, in the ways they can be late or wrong.
func TestOnlyBoundClaimsAreWanted(t *testing.T) {
	t.Parallel()
	attach := []string{"0s Attach disk-1 node-1"}
	for _, test := range []struct {
		name  string
		world func(w *world)
		want  []string
	}{{
		name:  "no claim",
		world: func(*world) {},
	}, {
		name:  "claim without volume",
		world: func(w *world) { w.claim(newClaim("disk-1", rwo)) },
	}, {
		name: "claim that is not bound yet",
		world: func(w *world) {
			w.volume("disk-1", w.claim(newClaim("disk-1", rwo)).UID, rwo)
		},
	}, {
		name: "volume that is bound to another claim of that name",
		world: func(w *world) {
			w.claim(newClaim("disk-1", rwo))
			w.phase("disk-1", corev1.ClaimBound)
			w.volume("disk-1", "another", rwo)
		},
	}, {
		name:  "claim that gets bound",
		world: func(w *world) { w.disk("disk-1", rwo) },
		want:  attach,
	}, {
		name: "volume that comes after the claim is bound",
		world: func(w *world) {
			claim := w.claim(newClaim("disk-1", rwo))
			w.phase("disk-1", corev1.ClaimBound)
			w.run()
			w.volume("disk-1", claim.UID, rwo)
		},
		want: attach,
	}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.node("node-1")
			w.start()
			w.pod("a", "node-1", "disk-1")
			w.run()
			test.world(w)
			w.run()
			w.same("calls", test.want, w.backend.calls)
			w.quiet()
		})
	}
}

// TestEphemeralClaimMustBeThePods is I29.
func TestEphemeralClaimMustBeThePods(t *testing.T) {
	t.Parallel()
	for _, owned := range []bool{false, true} {
		w := newWorld(t, nil)
		w.node("node-1")
		w.kubelet("node-1").dead = true // it knows nothing of ephemeral volumes
		w.start()
		pod := newPod("a", "node-1")
		pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
				Spec: newClaim("", rwo).Spec,
			}},
		}}, {Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		pod.Spec.Volumes[0].Ephemeral.VolumeClaimTemplate.Spec.VolumeName = ""
		pod, err := w.user.CoreV1().Pods("default").Create(context.Background(), pod, metav1.CreateOptions{})
		w.must(err)
		claim := newClaim("a-scratch", rwo)
		var want []string
		if owned {
			claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
			want = []string{"0s Attach a-scratch node-1"}
		}
		w.volume("a-scratch", w.claim(claim).UID, rwo)
		w.phase("a-scratch", corev1.ClaimBound)
		w.run()
		w.same("calls", want, w.backend.calls)
	}
}

// A driver's volumes may cease to need attaching: what is attached is detached when it is used no more.
func TestVolumeThatNeedsNoAttachingAnyMore(t *testing.T) {
	t.Parallel()
	w := oneNode(t)
	w.kubelet("node-1").dead = true
	w.status("node-1", "volumesInUse", nil)
	w.kubelet("node-1").mounts = nil
	w.backend.local = true
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "disk.example.com"}}
	_, err := w.user.StorageV1().CSIDrivers().Create(context.Background(), driver, metav1.CreateOptions{})
	w.must(err)
	w.run()
	w.quiet()
	w.same("calls", []string{"0s Attach disk-1 node-1", "0s Detach disk-1 node-1"}, w.backend.calls)
}

// TestPluginsComeAndGo has a plugin come after the pods that need it, go while they run, and come back.
func TestPluginsComeAndGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.node("node-1")
	w.disk("disk-1", rwo)
	w.disk("disk-2", rwo)
	manager := &plugins.Manager{}
	var component *sim.Component
	w.start(func(cfg *attachdetach.Config) { component, cfg.Plugins = cfg.Component, manager })
	change := func(f func()) {
		component.Spawn("change", func(context.Context) { f() })
		w.run()
	}
	put := func() { w.must(manager.Put(disk{c: component, b: w.backend})) }

	w.pod("a", "node-1", "disk-1")
	w.run()
	w.same("calls while there is no plugin", nil, w.backend.calls)
	change(put)
	want := []string{"0s Attach disk-1 node-1"}
	w.same("calls when it has come", want, w.backend.calls)
	w.quiet()

	change(func() { manager.Remove(diskName) })
	w.pod("b", "node-1", "disk-2")
	w.run()
	w.same("calls when it has gone", want, w.backend.calls)
	w.same("attached, as the node is told", []string{diskName + "/disk-1=/dev/disk-1"}, w.attachedIn("node-1"))
	change(put)
	w.same("calls when it is back", append(want, "0s Attach disk-2 node-1"), w.backend.calls)
	w.quiet()
}
