package fake_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

var onePod = map[string]string{"a": "true"}

// podOn returns a pod on a node, in a phase.
func podOn(name string, phase corev1.PodPhase, ready bool) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: onePod},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status:     corev1.PodStatus{Phase: phase},
	}
	if ready {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return pod
}

// budget returns a budget that has been counted.
func budget(name string, selector map[string]string, status policyv1.PodDisruptionBudgetStatus) *policyv1.PodDisruptionBudget {
	one := intstr.FromInt32(1)
	status.ObservedGeneration = 1
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Generation: 1},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: selector}},
		Status:     status,
	}
}

// errorText returns an error with its causes.
func errorText(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return fmt.Sprint(err)
	}
	text := err.Error() + ": " + string(status.Status().Reason)
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			text += ": " + string(cause.Type) + ": " + cause.Message
		}
	}
	return text
}

func TestEviction(t *testing.T) {
	const tooMany = "Cannot evict pod as it would violate the pod's disruption budget.: TooManyRequests: DisruptionBudget: "
	const ifHealthy, always = policyv1.IfHealthyBudget, policyv1.AlwaysAllow
	both := []policyv1.UnhealthyPodEvictionPolicyType{"", ifHealthy}
	all := append(both, always)
	type status = policyv1.PodDisruptionBudgetStatus
	failed := func(reason string) []metav1.Condition {
		return []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: reason, Message: "because"}}
	}
	for _, test := range []struct {
		name     string
		selector map[string]string
		status   status
		change   func(*policyv1.PodDisruptionBudget)
		phase    corev1.PodPhase
		ready    bool
		deleting bool
		policies []policyv1.UnhealthyPodEvictionPolicyType
		err      string
		allowed  int32 // afterwards
	}{
		{name: "matching pdbs with no disruptions allowed, pod running", phase: corev1.PodRunning, policies: both, err: tooMany + "The disruption budget foo needs 0 healthy pods and has 0 currently"},
		{name: "matching pdbs with no disruptions allowed, pod pending", phase: corev1.PodPending, policies: all},
		{name: "matching pdbs with no disruptions allowed, pod succeeded", phase: corev1.PodSucceeded, policies: all},
		{name: "matching pdbs with no disruptions allowed, pod failed", phase: corev1.PodFailed, policies: all},
		{name: "matching pdbs with disruptions allowed", status: status{DisruptionsAllowed: 2, CurrentHealthy: 3, DesiredHealthy: 1}, phase: corev1.PodRunning, ready: true, policies: all, allowed: 1},
		{name: "non-matching pdbs", selector: map[string]string{"b": "true"}, phase: corev1.PodRunning, ready: true, policies: all},
		{name: "matching pdbs with no disruptions allowed, pod running, empty selector", selector: map[string]string{}, phase: corev1.PodRunning, policies: both, err: tooMany + "The disruption budget foo needs 0 healthy pods and has 0 currently"},
		{name: "matching pdbs with no disruptions allowed, pod running, pod healthy, unhealthy pod not ours", status: status{CurrentHealthy: 2, DesiredHealthy: 2}, phase: corev1.PodRunning, ready: true, policies: all, err: tooMany + "The disruption budget foo needs 2 healthy pods and has 2 currently"},
		{name: "matching pdbs with no disruptions allowed, pod running, pod unhealthy, unhealthy pod ours", status: status{CurrentHealthy: 2, DesiredHealthy: 2}, phase: corev1.PodRunning, policies: all},
		{name: "matching pdbs with no disruptions allowed, pod terminating", phase: corev1.PodRunning, ready: true, deleting: true, policies: all},
		{name: "unready, and too few healthy", status: status{CurrentHealthy: 1, DesiredHealthy: 2}, phase: corev1.PodRunning, policies: both, err: tooMany + "The disruption budget foo needs 2 healthy pods and has 1 currently"},
		{name: "unready, and too few healthy, which is always allowed", status: status{CurrentHealthy: 1, DesiredHealthy: 2}, phase: corev1.PodRunning, policies: []policyv1.UnhealthyPodEvictionPolicyType{always}},
		{name: "the error is about sync failure when the condition reason is SyncFailedReason", status: status{CurrentHealthy: 3, DesiredHealthy: 5, Conditions: failed(policyv1.SyncFailedReason)}, phase: corev1.PodRunning, ready: true, policies: all, err: tooMany + "The disruption budget foo does not allow evicting pods currently because it failed sync: because"},
		{name: "the error includes the reason when the condition.Status is False", status: status{CurrentHealthy: 3, DesiredHealthy: 1, Conditions: failed("Other")}, phase: corev1.PodRunning, ready: true, policies: all, err: tooMany + "The disruption budget foo does not allow evicting pods currently (Other): because"},
		{name: "no reason", status: status{CurrentHealthy: 3, DesiredHealthy: 1}, phase: corev1.PodRunning, ready: true, policies: all, err: tooMany + "The disruption budget foo does not allow evicting pods currently"},
		{name: "not counted yet", status: status{DisruptionsAllowed: 1}, change: func(b *policyv1.PodDisruptionBudget) { b.Generation = 2 }, phase: corev1.PodRunning, ready: true, policies: all, allowed: 1, err: tooMany + "The disruption budget foo is still being processed by the server."},
		{name: "negative", status: status{DisruptionsAllowed: -1}, phase: corev1.PodRunning, ready: true, policies: all, allowed: -1, err: `poddisruptionbudget.policy "foo" is forbidden: pdb disruptions allowed is negative: Forbidden`},
	} {
		for _, policy := range test.policies {
			t.Run(test.name+" with policy "+string(policy), func(t *testing.T) {
				w := newWorld(t)
				if test.selector == nil {
					test.selector = onePod
				}
				b := budget("foo", test.selector, test.status)
				if policy != "" {
					b.Spec.UnhealthyPodEvictionPolicy = ptr.To(policy)
				}
				if test.change != nil {
					test.change(b)
				}
				pod := podOn("web", test.phase, test.ready)
				if test.deleting {
					pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: sim.Epoch}, ptr.To[int64](30)
				}
				w.NoError(w.Server.Add(pod, b))
				pods := w.User.CoreV1().Pods("default")
				for _, dryRun := range [][]string{{metav1.DryRunAll}, nil} {
					err := pods.EvictV1(w.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "web"}, DeleteOptions: &metav1.DeleteOptions{DryRun: dryRun, GracePeriodSeconds: ptr.To[int64](0)}})
					if test.err == "" {
						testcheck.NoError(t, err)
					} else if got := errorText(err); got != test.err {
						t.Errorf("got  %s\nwant %s", got, test.err)
					}
				}
				_, err := pods.Get(w.Context(), "web", metav1.GetOptions{})
				testcheck.Equal(t, "evicted", test.err == "", apierrors.IsNotFound(err))
				obj, _ := w.Server.Get("poddisruptionbudgets", "default", "foo")
				testcheck.Equal(t, "allowed", test.allowed, obj.(*policyv1.PodDisruptionBudget).Status.DisruptionsAllowed)
			})
		}
	}
}

// The last allowed disruption changes the condition, earlier ones do not.
func TestEvictionPDBStatus(t *testing.T) {
	w := newWorld(t)
	then := metav1.NewTime(sim.Epoch.Add(-1))
	w.NoError(w.Server.Add(podOn("a", corev1.PodRunning, true), podOn("b", corev1.PodRunning, true), budget("foo", onePod, policyv1.PodDisruptionBudgetStatus{
		DisruptionsAllowed: 2, CurrentHealthy: 3, Conditions: []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionTrue, Reason: policyv1.SufficientPodsReason, LastTransitionTime: then}},
	})))
	for i, want := range []struct{ pod, reason string }{{"a", policyv1.SufficientPodsReason}, {"b", policyv1.InsufficientPodsReason}} {
		w.NoError(w.User.CoreV1().Pods("default").EvictV1(w.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: want.pod}}))
		obj, _ := w.Server.Get("poddisruptionbudgets", "default", "foo")
		status := obj.(*policyv1.PodDisruptionBudget).Status
		testcheck.Equal(t, "reason", want.reason, status.Conditions[0].Reason)
		testcheck.Equal(t, "disrupted", i+1, len(status.DisruptedPods))
		testcheck.Equal(t, "disrupted at", sim.Epoch.Unix(), status.DisruptedPods[want.pod].Unix())
	}
	if obj, _ := w.Server.Get("poddisruptionbudgets", "default", "foo"); obj.(*policyv1.PodDisruptionBudget).Status.Conditions[0].LastTransitionTime.Unix() != sim.Epoch.Unix() {
		t.Error("the condition has another time than the world")
	}
}

func TestRefusedEvictions(t *testing.T) {
	w := newWorld(t)
	w.NoError(w.Server.Add(podOn("web", corev1.PodRunning, true), budget("a", onePod, policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1}), budget("b", onePod, policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1})))
	pods := w.User.CoreV1().Pods("default")
	err := pods.EvictV1(w.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "web"}})
	testcheck.Equal(t, "error", "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.: ", errorText(err))
	err = pods.EvictV1(w.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "web"}, DeleteOptions: &metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: ptr.To(true)}})
	expectError(t, err, apierrors.IsInvalid, "can not be set for pod eviction, try after removing the option")
	client, _ := w.User.Resource(corev1.SchemeGroupVersion.WithResource("pods"), "default")
	_, err = client.CreateSubresource(w.Context(), "web", "eviction", &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{})
	expectError(t, err, apierrors.IsBadRequest, "name in URL does not match name in Eviction object")
}

// Concurrent evictions never exceed what a budget allows.
func TestConcurrentEvictions(t *testing.T) {
	host := sim.NewLive(sim.LiveConfig{})
	t.Cleanup(host.Close)
	server := fake.NewServer(fake.Config{Now: host.Now})
	testcheck.NoError(t, server.Add(budget("foo", onePod, policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 5, CurrentHealthy: 20, DesiredHealthy: 15})))
	for i := range 20 {
		testcheck.NoError(t, server.Add(podOn(fmt.Sprintf("web-%d", i), corev1.PodRunning, true)))
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	evicted := 0
	for i := range 20 {
		wg.Go(func() {
			err := server.Client(sim.DirectCaller()).CoreV1().Pods("default").EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", i)}})
			switch {
			case err == nil:
				mu.Lock()
				defer mu.Unlock()
				evicted++
			case !strings.Contains(err.Error(), "disruption budget"):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	testcheck.Equal(t, "evicted", 5, evicted)
}
