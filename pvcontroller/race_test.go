package pvcontroller_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

const seeds = 200

// forSeeds runs a test under many schedules. The invariants are checked after each write; a failure
// prints the trace.
func forSeeds(t *testing.T, run func(w *world)) {
	t.Helper()
	n := uint64(seeds)
	if testing.Short() {
		n = 20
	}
	for seed := range n {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWorld(t, sim.NewSeeded(seed))
			w.Server.OnCommit(w.checkCommit)
			run(w)
			if t.Failed() {
				t.Log(w.Host.Log().Text())
			}
		})
	}
}

// checkCommit checks one write; the IDs are those of package invariant.
func (w *world) checkCommit(c fake.Commit) {
	if c.Type == watch.Deleted {
		return
	}
	switch after := c.After.(type) {
	case *corev1.PersistentVolume:
		before, _ := c.Before.(*corev1.PersistentVolume)
		w.checkVolume(before, after)
	case *corev1.PersistentVolumeClaim:
		w.checkClaim(after)
	}
}

func (w *world) checkVolume(before, after *corev1.PersistentVolume) {
	ref := after.Spec.ClaimRef
	switch {
	case before == nil:
		return
	case ref == nil:
		if after.Status.Phase == corev1.VolumeBound && before.Status.Phase != corev1.VolumeBound {
			w.Errorf("I4: volume %s became Bound to nothing", after.Name)
		}
		return
	}
	if was := before.Spec.ClaimRef; was != nil && was.UID != "" && ref.UID != "" && was.UID != ref.UID {
		w.Errorf("I2: claimRef of %s went from %s to %s", after.Name, was.UID, ref.UID)
	}
	obj, ok := w.Server.Get("persistentvolumeclaims", ref.Namespace, ref.Name)
	if before.Spec.ClaimRef != nil || !ok || obj.GetUID() != ref.UID {
		return
	}
	claim := obj.(*corev1.PersistentVolumeClaim)
	size, request := after.Spec.Capacity.Storage(), claim.Spec.Resources.Requests.Storage()
	if size.Cmp(*request) < 0 || after.DeletionTimestamp != nil || !storagehelpers.CheckAccessModes(claim, after) ||
		storagehelpers.GetPersistentVolumeClass(after) != storagehelpers.GetPersistentVolumeClaimClass(claim) {
		w.Errorf("I5: %s does not suit %s", after.Name, claim.Name)
	}
}

func (w *world) checkClaim(claim *corev1.PersistentVolumeClaim) {
	completed := metav1.HasAnnotation(claim.ObjectMeta, storagehelpers.AnnBindCompleted)
	if claim.Status.Phase == corev1.ClaimBound && (!completed || len(claim.Status.Capacity) == 0) {
		w.Errorf("I4: claim %s is Bound, but completed is %v and its capacity %v", claim.Name,
			completed, claim.Status.Capacity)
	}
	if !completed || claim.Status.Phase == corev1.ClaimLost {
		return
	}
	obj, ok := w.Server.Get("persistentvolumes", "", claim.Spec.VolumeName)
	if !ok {
		return
	}
	if ref := obj.(*corev1.PersistentVolume).Spec.ClaimRef; ref != nil && ref.UID != claim.UID {
		w.Errorf("I3: claim %s is bound to %s, which is bound to %s", claim.Name, obj.GetName(), ref.Name)
	}
}

// checkEnd checks a world at rest.
func (w *world) checkEnd() {
	owners := map[string]string{}
	for _, obj := range w.Server.List("persistentvolumes") {
		volume := obj.(*corev1.PersistentVolume)
		want := w.wantPhase(volume)
		if volume.Status.Phase != want {
			w.Errorf("L1: volume %s is %s, want %s", volume.Name, volume.Status.Phase, want)
		}
		if want != corev1.VolumeBound {
			continue
		}
		uid := string(volume.Spec.ClaimRef.UID)
		if owners[uid] != "" {
			w.Errorf("I1: %s and %s are bound to one claim", owners[uid], volume.Name)
		}
		owners[uid] = volume.Name
	}
	for _, obj := range w.Server.List("persistentvolumeclaims") {
		claim := obj.(*corev1.PersistentVolumeClaim)
		switch {
		case !metav1.HasAnnotation(claim.ObjectMeta, storagehelpers.AnnBindCompleted):
			w.checkWaiting(claim)
		case owners[string(claim.UID)] == claim.Spec.VolumeName:
			if claim.Status.Phase != corev1.ClaimBound {
				w.Errorf("L1: claim %s is %s, want Bound", claim.Name, claim.Status.Phase)
			}
		case claim.Status.Phase != corev1.ClaimLost:
			w.Errorf("L1: claim %s is %s, want Lost", claim.Name, claim.Status.Phase)
		}
	}
}

func (w *world) wantPhase(volume *corev1.PersistentVolume) corev1.PersistentVolumePhase {
	ref := volume.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		return corev1.VolumeAvailable
	}
	obj, ok := w.Server.Get("persistentvolumeclaims", ref.Namespace, ref.Name)
	if ok && obj.GetUID() == ref.UID && obj.(*corev1.PersistentVolumeClaim).Spec.VolumeName == volume.Name {
		return corev1.VolumeBound
	}
	return corev1.VolumeReleased
}

// checkWaiting looks for a volume that a pending claim should have got.
func (w *world) checkWaiting(claim *corev1.PersistentVolumeClaim) {
	for _, obj := range w.Server.List("persistentvolumes") {
		volume := obj.(*corev1.PersistentVolume)
		size, request := volume.Spec.Capacity.Storage(), claim.Spec.Resources.Requests.Storage()
		asked := claim.Spec.VolumeName == "" || claim.Spec.VolumeName == volume.Name
		if asked && volume.Spec.ClaimRef == nil && size.Cmp(*request) >= 0 &&
			storagehelpers.CheckAccessModes(claim, volume) {
			w.Errorf("L1: claim %s waits, but %s is free", claim.Name, volume.Name)
		}
	}
}

func TestTwoClaimsOneVolume(t *testing.T) {
	forSeeds(t, func(w *world) {
		w.control()
		w.users(
			func(ctx context.Context, u user) { u.makeVolume(ctx, "v", "1Gi") },
			func(ctx context.Context, u user) { u.makeClaim(ctx, "c", "1Gi") },
			func(ctx context.Context, u user) { u.makeClaim(ctx, "d", "1Gi") },
		)
		w.Run()
		w.checkEnd()
		states := w.state()
		if strings.Count(states, " Bound ") != 2 || strings.Count(states, " Pending") != 1 {
			w.Errorf("want one bound claim and one that waits, got:\n%s", states)
		}
		for _, e := range w.events() {
			if !strings.Contains(e, " Normal FailedBinding: no persistent volumes available") {
				w.Errorf("event %q", e)
			}
		}
		for _, r := range w.Host.Log().Records() {
			if r.Failed() {
				w.Errorf("a single controller conflicted with itself: %s", r)
			}
		}
	})
}

func TestTwoControllersOneClaim(t *testing.T) {
	forSeeds(t, func(w *world) {
		w.control()
		w.control()
		w.users(
			func(ctx context.Context, u user) { u.makeVolume(ctx, "v", "1Gi") },
			func(ctx context.Context, u user) { u.makeVolume(ctx, "w", "1Gi") },
			func(ctx context.Context, u user) { u.makeClaim(ctx, "c", "1Gi") },
		)
		w.Run()
		w.checkEnd()
	})
}

// A claim is deleted and recreated while it is being bound: the new one never takes over the old
// one's volume.
func TestClaimRecreated(t *testing.T) {
	forSeeds(t, func(w *world) {
		w.control()
		w.users(
			func(ctx context.Context, u user) { u.makeVolume(ctx, "v", "1Gi") },
			func(ctx context.Context, u user) {
				u.makeClaim(ctx, "c", "1Gi")
				u.deleteClaim(ctx, "c")
				u.makeClaim(ctx, "c", "1Gi")
			},
		)
		w.Run()
		w.checkEnd()
	})
}

// A volume that was provisioned for a claim is not released because of a stale claim cache (4-11,
// 4-12; kubernetes#66287, kubernetes#105131).
func TestVolumeOfUnseenClaimIsKept(t *testing.T) {
	forSeeds(t, func(w *world) {
		w.control()
		w.Server.OnCommit(func(c fake.Commit) {
			if v, ok := c.After.(*corev1.PersistentVolume); ok && v.Status.Phase == corev1.VolumeReleased {
				w.Errorf("volume %s was released", v.Name)
			}
		})
		w.claim("c", "1Gi")
		w.users(func(ctx context.Context, u user) {
			u.deleteClaim(ctx, "c")
			c := u.makeClaim(ctx, "c", "1Gi")
			d := u.makeClaim(ctx, "d", "1Gi")
			u.makeVolume(ctx, "pvc-c", "1Gi", reservedFor(c))
			u.makeVolume(ctx, "pvc-d", "1Gi", reservedFor(d))
		})
		w.Run()
		w.checkEnd()
	})
}

// TestCrowd combines everything: users create and delete claims and volumes with the same names,
// over one controller or two.
func TestCrowd(t *testing.T) {
	for controllers := 1; controllers <= 2; controllers++ {
		t.Run(fmt.Sprint(controllers, " controllers"), func(t *testing.T) {
			forSeeds(t, func(w *world) {
				for range controllers {
					w.control()
				}
				w.users(
					func(ctx context.Context, u user) {
						u.makeVolume(ctx, "v", "1Gi")
						u.makeVolume(ctx, "w", "2Gi")
						u.deleteVolume(ctx, "v")
						u.makeVolume(ctx, "v", "3Gi")
					},
					func(ctx context.Context, u user) {
						u.makeClaim(ctx, "c", "1Gi")
						u.makeClaim(ctx, "d", "2Gi")
						u.deleteClaim(ctx, "c")
						u.makeClaim(ctx, "c", "2Gi")
						u.deleteClaim(ctx, "d")
					},
					func(ctx context.Context, u user) {
						u.makeClaim(ctx, "e", "1Gi", naming("y"))
						u.makeVolume(ctx, "x", "1Gi", reservedBy("c"))
						u.makeVolume(ctx, "y", "1Gi")
						u.deleteVolume(ctx, "y")
						u.makeVolume(ctx, "y", "1Gi")
						f := u.makeClaim(ctx, "f", "1Gi")
						u.makeVolume(ctx, "f1", "1Gi", reservedFor(f))
						u.makeVolume(ctx, "f2", "1Gi", reservedFor(f),
							marked(storagehelpers.AnnBoundByController, "yes"))
						u.point(ctx, "f", "f2")
					},
				)
				w.Run()
				w.checkEnd()
			})
		})
	}
}

// users runs scripts, each in its own task.
func (w *world) users(acts ...func(context.Context, user)) {
	component := w.Host.Process("people")
	for i, act := range acts {
		component.User(fmt.Sprint("user", i), func(ctx context.Context) {
			act(ctx, user{w, w.Server.Client(component)})
		})
	}
}

// user performs one request after the other, each in its own step.
type user struct {
	*world
	client *fake.Clientset
}

func (u user) makeVolume(ctx context.Context, name, size string, options ...volumeOption) {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	volume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: name}
	for _, option := range options {
		option(volume)
	}
	testcheck.Must(u.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}))
}

// point sets a claim's volumeName, as a user's own binder, unless the claim is bound already.
func (u user) point(ctx context.Context, claim, volume string) {
	patch := fmt.Sprintf(`{"spec":{"volumeName":%q}}`, volume)
	_, _ = u.client.CoreV1().PersistentVolumeClaims("default").
		Patch(ctx, claim, mergePatch, []byte(patch), metav1.PatchOptions{})
}

func (u user) makeClaim(ctx context.Context, name, size string, options ...claimOption) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	for _, option := range options {
		option(claim)
	}
	return testcheck.Must(u.client.CoreV1().PersistentVolumeClaims("default").Create(ctx,
		claim, metav1.CreateOptions{}))
}

// deleteClaim deletes a claim, which has no finalizer.
func (u user) deleteClaim(ctx context.Context, name string) {
	claims := u.client.CoreV1().PersistentVolumeClaims("default")
	testcheck.Must(claims.Patch(ctx, name, mergePatch, noFinalizers, metav1.PatchOptions{}))
	testcheck.Must(0, claims.Delete(ctx, name, metav1.DeleteOptions{}))
}

// deleteVolume deletes a volume, which has no finalizer.
func (u user) deleteVolume(ctx context.Context, name string) {
	volumes := u.client.CoreV1().PersistentVolumes()
	testcheck.Must(volumes.Patch(ctx, name, mergePatch, noFinalizers, metav1.PatchOptions{}))
	testcheck.Must(0, volumes.Delete(ctx, name, metav1.DeleteOptions{}))
}

// TestSameSeedSameTrace checks that the same choices give the same trace, byte for byte.
func TestSameSeedSameTrace(t *testing.T) {
	run := func() string {
		w := newWorld(t, sim.NewSeeded(1))
		w.control()
		w.control()
		w.users(
			func(ctx context.Context, u user) {
				for i := range 5 {
					u.makeVolume(ctx, fmt.Sprint("v", i), "1Gi")
				}
			},
			func(ctx context.Context, u user) {
				for i := range 5 {
					u.makeClaim(ctx, fmt.Sprint("c", i), "1Gi")
				}
				u.deleteClaim(ctx, "c2")
			},
		)
		w.Run()
		w.checkEnd()
		return w.Host.Log().Text()
	}
	if first, second := run(), run(); first != second {
		t.Errorf("first:\n%s\nsecond:\n%s", first, second)
	}
}
