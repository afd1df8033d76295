package invariant_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/volsim/volsim/fake"
)

// quota stores a quota of claims that has been counted.
func (s *scene) quota(hard, used string) {
	of := func(amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: resource.MustParse(amount)}
	}
	s.store(&corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: of(hard)},
		Status: corev1.ResourceQuotaStatus{Hard: of(hard), Used: of(used)},
	})
}

// store stores objects without admission.
func (s *scene) store(objects ...runtime.Object) {
	if err := s.server.Add(objects...); err != nil {
		panic(err)
	}
}

func (s *scene) setUsed(amount string) {
	s.server.UpdateStored("resourcequotas", "default", "q", func(stored fake.Object) fake.Object {
		q := stored.(*corev1.ResourceQuota).DeepCopy()
		q.Status.Used[corev1.ResourcePersistentVolumeClaims] = resource.MustParse(amount)
		return q
	})
}

// guarded stores three ready pods and a budget that has been counted.
func (s *scene) guarded(desired int32, allowed int32) {
	labels, two := map[string]string{"app": "web"}, intstr.FromInt32(desired)
	for _, name := range []string{"web-0", "web-1", "web-2"} {
		s.store(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels},
			Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		})
	}
	s.store(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b", Generation: 1},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &two, Selector: &metav1.LabelSelector{MatchLabels: labels}},
		Status:     policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DesiredHealthy: desired, CurrentHealthy: 3, DisruptionsAllowed: allowed},
	})
}

func (s *scene) evict(name string) {
	if err := s.user.CoreV1().Pods("default").EvictV1(context.Background(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		panic(err)
	}
}

func TestQuotaRules(t *testing.T) {
	playAll(t, []claimRow{
		{"I54", "through admission", func(s *scene) {
			s.quota("2", "0")
			s.claim("a", "1Gi")
			s.claim("b", "1Gi")
		}, ""},
		{"I54", "not charged", func(s *scene) {
			s.quota("2", "0")
			s.store(newClaim("a", "1Gi"))
		}, "persistentvolumeclaims/default/a uses 1 of persistentvolumeclaims, which quota q was not charged"},
		{"I54", "charged once for two", func(s *scene) {
			s.quota("2", "0")
			s.claim("a", "1Gi")
			s.store(newClaim("b", "1Gi"))
		}, "persistentvolumeclaims/default/b uses 1 of persistentvolumeclaims, which quota q was not charged"},
		{"I54", "charged, and not refused", func(s *scene) {
			s.quota("2", "2")
			s.setUsed("3")
			s.store(newClaim("a", "1Gi"))
		}, "persistentvolumeclaims/default/a was stored although quota q has used 3 of 2 persistentvolumeclaims"},
		{"I55", "within the budget", func(s *scene) {
			s.guarded(2, 1)
			s.evict("web-0")
		}, ""},
		{"I55", "beyond the budget", func(s *scene) {
			s.guarded(2, 2)
			s.evict("web-0")
			s.evict("web-1")
		}, "pod default/web-1 was evicted, which leaves 1 healthy pods; budget b needs 2"},
		{"I55", "another pod was deleted", func(s *scene) {
			s.guarded(2, 1)
			if err := s.user.CoreV1().Pods("default").Delete(context.Background(), "web-2", metav1.DeleteOptions{}); err != nil {
				panic(err)
			}
			s.evict("web-0")
		}, ""},
		{"L14", "counted", func(s *scene) {
			s.controller("resourcequota")
			s.quota("2", "0")
			s.claim("a", "1Gi")
			s.settle()
		}, ""},
		{"L14", "no controller runs", func(s *scene) {
			s.quota("2", "2")
		}, ""},
		{"L14", "not counted again", func(s *scene) {
			s.controller("resourcequota")
			s.quota("2", "2")
			s.settle()
		}, "resourcequotas/default/q has used 0 of persistentvolumeclaims, in its status 2 (L14)"},
	})
}
