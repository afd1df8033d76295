package fake_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/testcheck"
)

func (w *world) limits(name string, items ...corev1.LimitRangeItem) {
	w.Helper()
	_, err := w.User.CoreV1().LimitRanges("default").Create(w.Context(), &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.LimitRangeSpec{Limits: items},
	}, metav1.CreateOptions{})
	w.NoError(err)
}

func TestLimitsOfClaims(t *testing.T) {
	w := newWorld(t)
	w.limits("l", corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim, Min: amounts("storage=1Gi"), Max: amounts("storage=5Gi")})
	for _, test := range []struct{ name, size, err string }{
		{name: "exact-min", size: "1Gi"},
		{name: "exact-max", size: "5Gi"},
		{"too-small", "100Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 100Mi"},
		{"too-large", "6Gi", "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 6Gi"},
	} {
		_, err := w.claims.Create(w.Context(), newClaim(test.name, ofSize(test.size)), metav1.CreateOptions{})
		if test.err == "" {
			testcheck.NoError(t, err)
			continue
		}
		expectError(t, err, apierrors.IsForbidden, `persistentvolumeclaims "`+test.name+`" is forbidden: `+test.err)
	}
	claim := testcheck.Must(w.claims.Get(w.Context(), "exact-max", metav1.GetOptions{}))
	ofSize("6Gi")(claim)
	claim.Status.Phase = corev1.ClaimBound
	claim = w.updateStatus(claim)
	ofSize("6Gi")(claim)
	_, err := w.claims.Update(w.Context(), claim, metav1.UpdateOptions{})
	expectError(t, err, apierrors.IsForbidden, "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 6Gi")
}

// A claim that is being deleted may be changed, whatever the limits: its finalizer must go.
func TestLimitsSpareWhatIsDeleted(t *testing.T) {
	w := newWorld(t)
	w.create("data", ofSize("9Gi"))
	w.limits("l", corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim, Max: amounts("storage=5Gi")})
	claim := testcheck.Must(w.claims.Get(w.Context(), "data", metav1.GetOptions{}))
	claim.Labels = map[string]string{"a": "b"}
	_, err := w.claims.Update(w.Context(), claim, metav1.UpdateOptions{})
	expectError(t, err, apierrors.IsForbidden, "but request is 9Gi")
	w.NoError(w.claims.Delete(w.Context(), "data", metav1.DeleteOptions{}))
	claim = testcheck.Must(w.claims.Get(w.Context(), "data", metav1.GetOptions{}))
	claim.Finalizers = nil
	w.update(claim)
}

func TestLimitsOfPods(t *testing.T) {
	type list = corev1.ResourceList
	container := func(name string, requests, limits list) corev1.Container {
		return corev1.Container{Name: name, Image: "i", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
	}
	perContainer := func(item corev1.LimitRangeItem) corev1.LimitRangeItem {
		item.Type = corev1.LimitTypeContainer
		return item
	}
	for _, test := range []struct {
		name             string
		item             corev1.LimitRangeItem
		containers, init []corev1.Container
		requests, limits string // of the first container
		annotation, err  string
		quality          corev1.PodQOSClass
	}{
		{
			name: "defaults", item: perContainer(corev1.LimitRangeItem{Default: amounts("cpu=2,memory=1Gi"), DefaultRequest: amounts("cpu=1")}),
			containers: []corev1.Container{container("a", nil, nil), container("b", amounts("cpu=500m"), nil)}, init: []corev1.Container{container("i", nil, amounts("cpu=1,memory=1"))},
			requests: "cpu=1,memory=1Gi", limits: "cpu=2,memory=1Gi", quality: corev1.PodQOSBurstable,
			annotation: "LimitRanger plugin set: cpu, memory request for container a; cpu, memory limit for container a; memory request for container b; cpu, memory limit for container b",
		},
		{
			name: "no request", item: perContainer(corev1.LimitRangeItem{Max: amounts("cpu=2"), Min: amounts("memory=1Mi")}), containers: []corev1.Container{container("a", nil, amounts("cpu=3,memory=1Ki"))},
			err: "[minimum memory usage per Container is 1Mi, but request is 1Ki, maximum cpu usage per Container is 2, but limit is 3]",
		},
		{
			name: "ratio", item: perContainer(corev1.LimitRangeItem{MaxLimitRequestRatio: amounts("cpu=2")}), containers: []corev1.Container{container("a", amounts("cpu=1"), amounts("cpu=3"))},
			err: "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
		},
		{
			name: "ratio without limit", item: perContainer(corev1.LimitRangeItem{MaxLimitRequestRatio: amounts("cpu=2")}), containers: []corev1.Container{container("a", amounts("cpu=1"), nil)},
			err: "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
		},
		{
			name: "sum", item: corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: amounts("cpu=2")}, containers: []corev1.Container{container("a", nil, amounts("cpu=1")), container("b", nil, amounts("cpu=1100m"))},
			err: "maximum cpu usage per Pod is 2, but limit is 2100m",
		},
		{
			name: "sum without limit", item: corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: amounts("cpu=2")}, containers: []corev1.Container{container("a", amounts("cpu=1"), nil)},
			err: "maximum cpu usage per Pod is 2.  No limit is specified",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.limits("l", test.item)
			pod, err := w.User.CoreV1().Pods("default").Create(w.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: test.containers, InitContainers: test.init},
			}, metav1.CreateOptions{})
			if test.err != "" {
				expectError(t, err, apierrors.IsForbidden, `pods "web" is forbidden: `+test.err)
				return
			}
			testcheck.NoError(t, err)
			first := pod.Spec.Containers[0].Resources
			testcheck.Equal(t, "requests", test.requests, amountsText(first.Requests))
			testcheck.Equal(t, "limits", test.limits, amountsText(first.Limits))
			testcheck.Equal(t, "annotation", test.annotation, pod.Annotations["kubernetes.io/limit-ranger"])
			testcheck.Equal(t, "quality", test.quality, pod.Status.QOSClass)
			pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](5)
			_, err = w.User.CoreV1().Pods("default").Update(w.Context(), pod, metav1.UpdateOptions{})
			testcheck.NoError(t, err)
		})
	}
}

func TestLimitRangeValidation(t *testing.T) {
	const path = "spec.limits[0]."
	for _, test := range []struct {
		name string
		item corev1.LimitRangeItem
		err  string
	}{
		{"valid", corev1.LimitRangeItem{MaxLimitRequestRatio: amounts("cpu=2"), Min: amounts("cpu=1"), Max: amounts("cpu=2")}, ""},
		{"less than 1", corev1.LimitRangeItem{MaxLimitRequestRatio: amounts("cpu=500m")}, path + `maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1`},
		{"impossible", corev1.LimitRangeItem{MaxLimitRequestRatio: amounts("cpu=3"), Min: amounts("cpu=1"), Max: amounts("cpu=2")}, path + `maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = 2.000000`},
		{"no overcommitment", corev1.LimitRangeItem{Default: amounts("example.com/gpu=2"), DefaultRequest: amounts("example.com/gpu=1")}, path + `defaultRequest[example.com/gpu]: Invalid value: "1": default value 2 must equal to defaultRequest value 1 in example.com/gpu`},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			test.item.Type = corev1.LimitTypeContainer
			_, err := w.User.CoreV1().LimitRanges("default").Create(w.Context(), &corev1.LimitRange{
				ObjectMeta: metav1.ObjectMeta{Name: "l"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{test.item}},
			}, metav1.CreateOptions{})
			if test.err == "" {
				testcheck.NoError(t, err)
				return
			}
			expectError(t, err, apierrors.IsInvalid, test.err)
		})
	}
}
