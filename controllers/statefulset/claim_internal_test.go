package statefulset

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// setWith returns the set "set" of 2 replicas with a policy, and a pod of it.
func setWith(whenDeleted, whenScaled bool, ordinal int) (*appsv1.StatefulSet, *corev1.Pod) {
	policy := func(remove bool) appsv1.PersistentVolumeClaimRetentionPolicyType {
		if remove {
			return appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		}
		return appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "set", Namespace: "default", UID: "uid-set"}}
	set.Spec.Replicas, set.Spec.Selector = ptr.To[int32](2), &metav1.LabelSelector{MatchLabels: map[string]string{"key": "value"}}
	set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenDeleted: policy(whenDeleted), WhenScaled: policy(whenScaled),
	}
	return set, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("set-%d", ordinal), Namespace: "default", UID: "uid-pod",
	}}
}

// Owner references: of the set, of the pod set-1, and of something else, as controllers or not, and
// with another UID.
var (
	ofSet, ofPod      = owner("apps/v1", "StatefulSet", "set", "uid-set", true), owner("v1", "Pod", "set-1", "uid-pod", true)
	looseSet, loosePd = owner("apps/v1", "StatefulSet", "set", "uid-set", false), owner("v1", "Pod", "set-1", "uid-pod", false)
	oldSet, oldPod    = owner("apps/v1", "StatefulSet", "set", "stale", true), owner("v1", "Pod", "set-1", "stale", true)
	other, looseOther = owner("example.com/v1", "Thing", "thing", "uid-thing", true), owner("example.com/v1", "Thing", "thing", "uid-thing", false)
)

func owner(apiVersion, kind, name string, uid types.UID, controls bool) metav1.OwnerReference {
	ref := metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid}
	if controls {
		ref.Controller, ref.BlockOwnerDeletion = ptr.To(true), ptr.To(true)
	}
	return ref
}

func owned(refs ...metav1.OwnerReference) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-set-1", Namespace: "default", OwnerReferences: refs}}
}

// TestOwnersOfClaims has the rows of upstream's TestIsClaimOwnerUpToDate and
// TestUpdateClaimOwnerRefForSetAndPod, each with all combinations of present owners.
func TestOwnersOfClaims(t *testing.T) {
	for _, test := range []struct {
		name                    string
		whenDeleted, whenScaled bool
		replicas                int32
		bySet, byPod            bool
	}{
		{"retain", false, false, 2, false, false},
		{"deleted with the set", true, false, 2, true, false},
		{"deleted when scaled, remains", false, true, 2, false, false},
		{"deleted when scaled, condemned", false, true, 1, false, true},
		{"deleted with both, remains", true, true, 2, true, false},
		{"deleted with both, condemned", true, true, 1, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			set, pod := setWith(test.whenDeleted, test.whenScaled, 1)
			set.Spec.Replicas = &test.replicas
			for i := range 8 {
				var refs []metav1.OwnerReference
				for bit, ref := range []metav1.OwnerReference{ofSet, ofPod, looseOther} {
					if i&(1<<bit) != 0 {
						refs = append(refs, ref)
					}
				}
				claim := owned(refs...)
				right := test.bySet == (i&1 != 0) && test.byPod == (i&2 != 0)
				if got := hasRightOwners(claim, set, pod); got != right {
					t.Errorf("%v: right owners: %v, want %v", refs, got, right)
				}
				fixed := withRightOwners(claim, set, pod)
				if ownedBy(fixed, set) != test.bySet || ownedBy(fixed, pod) != test.byPod || !hasRightOwners(fixed, set, pod) ||
					(len(fixed.OwnerReferences) > 0) != (test.bySet || test.byPod || i&4 != 0) {
					t.Errorf("%v: owners became %v", refs, fixed.OwnerReferences)
				}
			}
		})
	}
}

// TestOtherControllers has the rows of upstream's TestClaimOwnerUpToDateEdgeCases,
// TestHasUnexpectedController and TestUpdateClaimControllerRef: whether a claim is left as it is, and
// otherwise the number of owners that remain.
func TestOtherControllers(t *testing.T) {
	for _, test := range []struct {
		name        string
		refs        []metav1.OwnerReference
		condemned   bool
		foreign     bool
		right       bool
		ownersAfter int
	}{
		{name: "nothing, remains", ownersAfter: 1},
		{name: "the set controls", refs: []metav1.OwnerReference{ofSet}, right: true},
		{name: "the pod controls", refs: []metav1.OwnerReference{ofPod}, condemned: true, right: true},
		{name: "the set does not control", refs: []metav1.OwnerReference{looseSet}, ownersAfter: 1},
		{name: "the pod does not control", refs: []metav1.OwnerReference{loosePd}, condemned: true, ownersAfter: 1},
		{name: "an earlier set", refs: []metav1.OwnerReference{oldSet}, foreign: true, right: true},
		{name: "an earlier pod", refs: []metav1.OwnerReference{oldPod}, condemned: true, foreign: true, right: true},
		{name: "something else controls", refs: []metav1.OwnerReference{other}, foreign: true, right: true},
		{name: "something else owns", refs: []metav1.OwnerReference{looseOther}, ownersAfter: 2},
		{name: "the set and something else control", refs: []metav1.OwnerReference{ofSet, other}, foreign: true, ownersAfter: 1},
		{name: "the pod and something else control", refs: []metav1.OwnerReference{ofPod, other}, condemned: true, foreign: true, ownersAfter: 1},
		{name: "the set controls, something else owns", refs: []metav1.OwnerReference{ofSet, looseOther}, right: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			set, pod := setWith(true, true, 1)
			if test.condemned {
				set.Spec.Replicas = ptr.To[int32](1)
			}
			claim := owned(test.refs...)
			if got := hasOtherController(claim, set, pod); got != test.foreign {
				t.Errorf("another controller: %v", got)
			}
			if got := hasRightOwners(claim, set, pod); got != test.right {
				t.Errorf("right owners: %v", got)
			}
			if fixed := withRightOwners(claim, set, pod); !test.right && len(fixed.OwnerReferences) != test.ownersAfter {
				t.Errorf("owners became %v", fixed.OwnerReferences)
			}
			set.Spec.PersistentVolumeClaimRetentionPolicy = nil
			if hasOtherController(claim, set, pod) {
				t.Error("another controller, although the claim is retained")
			}
		})
	}
}

// TestStaleClaim has the rows of upstream's TestPodClaimIsStale.
func TestStaleClaim(t *testing.T) {
	const missing, exists, stale, withRef = "missing", "exists", "stale", "with reference"
	for _, test := range []struct {
		name   string
		claims []string
		uid    types.UID
		want   bool
	}{
		{"all missing", []string{missing, missing}, "uid-pod", false},
		{"no claims", nil, "uid-pod", false},
		{"exists", []string{missing, exists}, "uid-pod", false},
		{"all references", []string{withRef, withRef}, "uid-pod", false},
		{"stale and exists", []string{stale, exists}, "uid-pod", true},
		{"stale and missing", []string{stale, missing}, "uid-pod", true},
		{"reference and stale", []string{withRef, stale}, "uid-pod", true},
		{"reference, no UID", []string{withRef}, "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, whenScaled := range []bool{true, false} {
				set, pod := setWith(false, whenScaled, 1)
				pod.UID = test.uid
				claims := map[string]*corev1.PersistentVolumeClaim{}
				for i, what := range test.claims {
					template := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", i)}}
					set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, template)
					refs := map[string][]metav1.OwnerReference{stale: {oldPod}, withRef: {ofPod}}[what]
					if what != missing {
						claims[claimName(set, &template, 1)] = owned(refs...)
					}
				}
				s := &state{set: set, claim: func(name string) *corev1.PersistentVolumeClaim { return claims[name] }}
				if got := s.hasStaleClaim(pod); got != (test.want && whenScaled) {
					t.Errorf("deleted when scaled %v: stale %v", whenScaled, got)
				}
			}
		})
	}
}

// TestNewClaim: the labels of a claim are those of its template and of the set's selector.
func TestNewClaim(t *testing.T) {
	set, _ := setWith(false, false, 0)
	template := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "data", Labels: map[string]string{"a": "b", "key": "other"}, Annotations: map[string]string{"c": "d"},
	}}
	claim := newClaim(set, template, 1)
	if claim.Name != "data-set-1" || claim.Namespace != "default" || claim.Labels["a"] != "b" || claim.Labels["key"] != "value" ||
		claim.Annotations["c"] != "d" || len(claim.OwnerReferences) > 0 {
		t.Errorf("claim %+v", claim.ObjectMeta)
	}
	if template.Labels["key"] != "other" || template.Name != "data" {
		t.Errorf("the template was changed: %+v", template.ObjectMeta)
	}
	template.Labels = nil
	if claim := newClaim(set, template, 0); claim.Labels["key"] != "value" || len(set.Spec.Selector.MatchLabels) != 1 {
		t.Errorf("claim %+v", claim.ObjectMeta)
	}
}

// TestNames has the rows of upstream's TestGetParentNameAndOrdinal, and names without an ordinal.
func TestNames(t *testing.T) {
	for _, test := range []struct {
		name, parent string
		ordinal      int
	}{
		{"set-1", "set", 1},
		{"set-a-10", "set-a", 10},
		{"set", "", -1},
		{"set-", "", -1},
		{"1", "", -1},
		{"set-a", "", -1},
		{"set-01", "set", -1},
		{"set-99999999999", "set", -1},
		{"-1", "", 1},
	} {
		if parent, ordinal := splitName(test.name); parent != test.parent || ordinal != test.ordinal {
			t.Errorf("%s: %q, %d, want %q, %d", test.name, parent, ordinal, test.parent, test.ordinal)
		}
	}
}

// TestIdentityAndVolumes has the cases of upstream's TestIdentityMatches, TestStorageMatches,
// TestUpdateIdentity and TestUpdateStorage.
func TestIdentityAndVolumes(t *testing.T) {
	set, _ := setWith(false, false, 0)
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	set.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "home"}, {Name: "data"}}
	fresh := func() *corev1.Pod { return newPod(set, "revision", 1) }
	if pod := fresh(); !hasIdentity(set, pod) || !hasVolumes(set, pod) || len(pod.Spec.Volumes) != 2 || revisionOf(pod) != "revision" {
		t.Errorf("a new pod %+v", pod)
	}
	for name, change := range map[string]func(pod *corev1.Pod){
		"name":      func(pod *corev1.Pod) { pod.Name = "other" },
		"ordinal":   func(pod *corev1.Pod) { pod.Name = "set-2" },
		"namespace": func(pod *corev1.Pod) { pod.Namespace = "other" },
		"label":     func(pod *corev1.Pod) { delete(pod.Labels, appsv1.StatefulSetPodNameLabel) },
		"no labels": func(pod *corev1.Pod) { pod.Labels = nil },
	} {
		pod := fresh()
		if change(pod); hasIdentity(set, pod) {
			t.Errorf("%s: identity matches", name)
		}
		if setIdentity(set, pod, 1); !hasIdentity(set, pod) || pod.Labels[appsv1.PodIndexLabel] != "1" {
			t.Errorf("%s: identity does not match: %+v", name, pod.ObjectMeta)
		}
	}
	for name, change := range map[string]func(pod *corev1.Pod){
		"no volumes":    func(pod *corev1.Pod) { pod.Spec.Volumes = nil },
		"another name":  func(pod *corev1.Pod) { pod.Spec.Volumes[0].Name = "other" },
		"another kind":  func(pod *corev1.Pod) { pod.Spec.Volumes[0].PersistentVolumeClaim = nil },
		"another claim": func(pod *corev1.Pod) { pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "data-set-2" },
	} {
		pod := fresh()
		if change(pod); hasVolumes(set, pod) {
			t.Errorf("%s: volumes match", name)
		}
		setVolumes(set, pod)
		if n := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "data" }); n != 0 || !hasVolumes(set, pod) {
			t.Errorf("%s: volumes %+v", name, pod.Spec.Volumes)
		}
	}
	if pod := (&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "other"}}); hasVolumes(set, pod) {
		t.Error("volumes of a pod without ordinal match")
	}
}
