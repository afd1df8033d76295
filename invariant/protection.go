package invariant

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about objects in use.
var protectionRules = []builtIn{
	{"I28", "the protection finalizer removed from a claim or volume in use", beginProtection},
}

const (
	finalizerClaim  = "kubernetes.io/pvc-protection"
	finalizerVolume = "kubernetes.io/pv-protection"
)

// users records the scheduled pods by the claims they name.
type users struct {
	*Checker
	pods map[string]map[string]usage // claim, pod: both namespace/name
}

// A usage is a pod's use of a claim.
type usage struct {
	uid   types.UID
	since int64 // revision at which the pod was scheduled
}

func (u *users) observe(e fake.Commit) {
	pod := e.After.(*corev1.Pod)
	before, _ := e.Before.(*corev1.Pod)
	placed := before != nil && before.Spec.NodeName != ""
	gone := e.Type == "DELETED"
	if pod.Spec.NodeName == "" || placed && !gone {
		return
	}
	for i := range pod.Spec.Volumes {
		claim := claimBehind(pod, &pod.Spec.Volumes[i])
		if claim == "" {
			continue
		}
		key, name := pod.Namespace+"/"+claim, pod.Namespace+"/"+pod.Name
		if gone {
			if delete(u.pods[key], name); len(u.pods[key]) == 0 {
				delete(u.pods, key)
			}
			continue
		}
		if u.pods[key] == nil {
			u.pods[key] = map[string]usage{}
		}
		u.pods[key][name] = usage{pod.UID, e.Revision}
	}
}

// claimBehind returns the name of the claim behind a pod's volume; "" if there is none.
func claimBehind(pod *corev1.Pod, volume *corev1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, volume)
	default:
		return ""
	}
}

// using returns the first pod by name that protects a claim and was scheduled by a revision; nil if
// there is none.
func (u *users) using(claim *corev1.PersistentVolumeClaim, revision int64) *corev1.Pod {
	pods := u.pods[claim.Namespace+"/"+claim.Name]
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		if pods[name].since > revision {
			continue
		}
		obj, ok := u.API.Get("pods", claim.Namespace, name[len(claim.Namespace)+1:])
		if ok && obj.GetUID() == pods[name].uid && keeps(obj.(*corev1.Pod), claim) {
			return obj.(*corev1.Pod)
		}
	}
	return nil
}

// keeps reports whether a scheduled pod protects a claim it names. A claim of an ephemeral volume
// is protected only by its own pod, and until that is shut down.
//
// Upstream: pkg/controller/volume/pvcprotection podUsesPVCForDeletion (v1.36).
func keeps(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.PersistentVolumeClaim != nil && volume.PersistentVolumeClaim.ClaimName == claim.Name {
			return true
		}
	}
	ended := pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
	return metav1.IsControlledBy(claim, pod) && !ended
}

// beginProtection checks that a controller removes the protection finalizer of a claim only if the
// claim is being deleted and no scheduled pod uses it, by the list of pods that it requested in the
// same sync. It may remove that of a volume only if the volume is being deleted and is not Bound.
//
// A pod scheduled after the list is ignored: the scheduler's cache may lag, too.
func beginProtection(c *Checker) watcher {
	u := &users{c, reuse.Map[string, map[string]usage](c.Reuse)}
	return watcher{
		commits: []string{"pods"},
		commit:  u.observe,
		writes:  claimsAndVolumes,
		write: func(r trace.Record) {
			if r.After == nil || r.Before == nil || !tookEffect(r) {
				return
			}
			u.note(r)
			if !c.controllers.includes(r) {
				return
			}
			switch before := r.Before.(type) {
			case *corev1.PersistentVolumeClaim:
				u.checkClaim(r, before)
			case *corev1.PersistentVolume:
				u.checkVolume(r, before)
			}
		},
	}
}

// note notes whether what is being deleted from now on is in use. A world without pods has nothing to say
// of claims.
func (u *users) note(r trace.Record) {
	was, before := r.Before.(metav1.Object)
	is, after := r.After.(metav1.Object)
	if !before || !after || was.GetDeletionTimestamp() != nil || is.GetDeletionTimestamp() == nil {
		return
	}
	switch object := r.Before.(type) {
	case *corev1.PersistentVolumeClaim:
		if u.API.Count("pods") > 0 {
			u.Log.Sometimes("I28: a claim is deleted while a scheduled pod uses it", u.using(object, u.API.Revision()) != nil)
		}
	case *corev1.PersistentVolume:
		u.Log.Sometimes("I28: a volume is deleted while it is Bound", object.Status.Phase == corev1.VolumeBound)
	}
}

func (u *users) checkClaim(r trace.Record, before *corev1.PersistentVolumeClaim) {
	if !removedFinalizer(r, finalizerClaim) {
		return
	}
	if before.DeletionTimestamp == nil {
		u.report("I28", "%s removed the finalizer of claim %s/%s, which is not being deleted", r.Task,
			before.Namespace, before.Name)
		return
	}
	revision, asked := u.podListRevision(r, before)
	switch pod := u.using(before, revision); {
	case pod == nil:
	case asked:
		u.report("I28", "%s removed the finalizer of claim %s/%s although it listed pod %s on %s, which uses it",
			r.Task, before.Namespace, before.Name, pod.Name, pod.Spec.NodeName)
	default:
		u.report("I28", "%s removed the finalizer of claim %s/%s without listing pods, although pod %s on %s uses it",
			r.Task, before.Namespace, before.Name, pod.Name, pod.Spec.NodeName)
	}
}

// podListRevision returns the revision of the list of pods that a task requested when it took up a
// claim. Without a request it returns the current revision and false.
func (u *users) podListRevision(r trace.Record, claim *corev1.PersistentVolumeClaim) (int64, bool) {
	for s := range u.Log.Backward() {
		switch {
		case startsSync(s, r.Task, claim.Namespace+"/"+claim.Name):
			return u.API.Revision(), false
		case s.Kind == trace.KindAPI && s.Task == r.Task && s.Verb == "list" && s.Err == nil &&
			(s.Object == "pods/"+claim.Namespace || s.Object == "pods"):
			return revisionInDetail(s.Detail), true
		}
	}
	return u.API.Revision(), false
}

func (u *users) checkVolume(r trace.Record, before *corev1.PersistentVolume) {
	if !removedFinalizer(r, finalizerVolume) {
		return
	}
	switch {
	case before.DeletionTimestamp == nil:
		u.report("I28", "%s removed the finalizer of volume %s, which is not being deleted", r.Task, before.Name)
	case before.Status.Phase == corev1.VolumeBound:
		u.report("I28", "%s removed the finalizer of volume %s, which is Bound", r.Task, before.Name)
	}
}

// removedFinalizer reports whether a write removed a finalizer.
func removedFinalizer(r trace.Record, finalizer string) bool {
	before, ok := r.Before.(metav1.Object)
	return ok && slices.Contains(before.GetFinalizers(), finalizer) && !slices.Contains(finalizersAfter(r), finalizer)
}

// finalizersAfter returns the finalizers after a write; none for a deleted object, whose recorded
// state is the one before its last finalizer was removed.
func finalizersAfter(r trace.Record) []string {
	after, ok := r.After.(metav1.Object)
	if !ok || r.Gone {
		return nil
	}
	return after.GetFinalizers()
}
