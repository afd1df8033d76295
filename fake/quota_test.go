package fake_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// amounts parses "pods=1,requests.storage=2Gi".
func amounts(text string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for part := range strings.SplitSeq(text, ",") {
		if name, amount, ok := strings.Cut(part, "="); ok {
			list[corev1.ResourceName(name)] = resource.MustParse(amount)
		}
	}
	return list
}

// amountsText is the inverse of amounts.
func amountsText(list corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		amount := list[name]
		parts = append(parts, fmt.Sprintf("%s=%s", name, amount.String()))
	}
	return strings.Join(parts, ",")
}

// counted stores a quota that the controller has counted.
func (w *world) counted(name, hard, used string, change ...func(*corev1.ResourceQuota)) {
	w.Helper()
	q := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.ResourceQuotaSpec{Hard: amounts(hard)},
		Status:     corev1.ResourceQuotaStatus{Hard: amounts(hard), Used: amounts(used)},
	}
	for _, f := range change {
		f(q)
	}
	w.NoError(w.Server.Add(q))
}

// used returns what a quota says is used.
func (w *world) used(name string) string {
	w.Helper()
	q, ok := w.Server.Get("resourcequotas", "default", name)
	if !ok {
		w.Fatalf("no quota %s", name)
	}
	return amountsText(q.(*corev1.ResourceQuota).Status.Used)
}

func ofSize(size string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	}
}

func ofClass(class string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &class }
}

func ofAttributes(class string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = &class }
}

func scoped(operator corev1.ScopeSelectorOperator, values ...string) func(*corev1.ResourceQuota) {
	return func(q *corev1.ResourceQuota) {
		q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
			ScopeName: corev1.ResourceQuotaScopeVolumeAttributesClass, Operator: operator, Values: values,
		}}}
	}
}

// Each row creates one claim, data, of 2Gi.
func TestQuotasOfClaims(t *testing.T) {
	forbidden := `persistentvolumeclaims "data" is forbidden: `
	for _, test := range []struct {
		name       string
		hard, used string
		quota      func(*corev1.ResourceQuota)
		claim      func(*corev1.PersistentVolumeClaim)
		want       string // used afterwards
		err        string
	}{
		{name: "there is room", hard: "persistentvolumeclaims=2,requests.storage=3Gi", used: "persistentvolumeclaims=1,requests.storage=1Gi", want: "persistentvolumeclaims=2,requests.storage=3Gi"},
		{
			name: "too many", hard: "persistentvolumeclaims=1,requests.storage=3Gi", used: "persistentvolumeclaims=1,requests.storage=1Gi",
			err: "exceeded quota: q, requested: persistentvolumeclaims=1, used: persistentvolumeclaims=1, limited: persistentvolumeclaims=1",
		},
		{
			name: "too many and too large", hard: "persistentvolumeclaims=1,requests.storage=2Gi", used: "persistentvolumeclaims=1,requests.storage=1Gi",
			err: "exceeded quota: q, requested: persistentvolumeclaims=1,requests.storage=2Gi, used: persistentvolumeclaims=1,requests.storage=1Gi, limited: persistentvolumeclaims=1,requests.storage=2Gi",
		},
		{name: "count", hard: "count/persistentvolumeclaims=1", used: "count/persistentvolumeclaims=0", want: "count/persistentvolumeclaims=1"},
		{
			name: "of its class", hard: "gold.storageclass.storage.k8s.io/requests.storage=1Gi", used: "gold.storageclass.storage.k8s.io/requests.storage=0", claim: ofClass("gold"),
			err: "exceeded quota: q, requested: gold.storageclass.storage.k8s.io/requests.storage=2Gi, used: gold.storageclass.storage.k8s.io/requests.storage=0, limited: gold.storageclass.storage.k8s.io/requests.storage=1Gi",
		},
		{
			name: "number of its class", hard: "gold.storageclass.storage.k8s.io/persistentvolumeclaims=5", used: "gold.storageclass.storage.k8s.io/persistentvolumeclaims=0", claim: ofClass("gold"),
			want: "gold.storageclass.storage.k8s.io/persistentvolumeclaims=1",
		},
		{name: "of another class", hard: "gold.storageclass.storage.k8s.io/requests.storage=1Gi", used: "gold.storageclass.storage.k8s.io/requests.storage=0", claim: ofClass("tin"), want: "gold.storageclass.storage.k8s.io/requests.storage=0"},
		{name: "of other objects", hard: "pods=0,count/secrets=0", used: "pods=0,count/secrets=0", want: "count/secrets=0,pods=0"},
		{name: "in scope", hard: "persistentvolumeclaims=5", used: "persistentvolumeclaims=0", quota: scoped(corev1.ScopeSelectorOpIn, "fast"), claim: ofAttributes("fast"), want: "persistentvolumeclaims=1"},
		{name: "in another scope", hard: "persistentvolumeclaims=0", used: "persistentvolumeclaims=0", quota: scoped(corev1.ScopeSelectorOpIn, "fast"), claim: ofAttributes("slow"), want: "persistentvolumeclaims=0"},
		{name: "in no scope", hard: "persistentvolumeclaims=0", used: "persistentvolumeclaims=0", quota: scoped(corev1.ScopeSelectorOpExists), want: "persistentvolumeclaims=0"},
		{name: "without attributes", hard: "persistentvolumeclaims=5", used: "persistentvolumeclaims=0", quota: scoped(corev1.ScopeSelectorOpDoesNotExist), want: "persistentvolumeclaims=1"},
		{name: "by a scope that exists", hard: "persistentvolumeclaims=5", used: "persistentvolumeclaims=0", claim: ofAttributes("fast"), quota: func(q *corev1.ResourceQuota) {
			q.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeVolumeAttributesClass}
		}, want: "persistentvolumeclaims=1"},
		{name: "not counted yet", hard: "persistentvolumeclaims=0", used: "", want: "", err: "status unknown for quota: q, resources: persistentvolumeclaims"},
		{name: "not seen by the controller yet", hard: "persistentvolumeclaims=0", used: "", quota: func(q *corev1.ResourceQuota) { q.Status = corev1.ResourceQuotaStatus{} }, want: ""},
		{name: "a fraction of a byte counts", hard: "requests.storage=5Gi", used: "requests.storage=0", claim: ofSize("1500m"), want: "requests.storage=2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			if test.quota == nil {
				test.quota = func(*corev1.ResourceQuota) {}
			}
			if test.claim == nil {
				test.claim = func(*corev1.PersistentVolumeClaim) {}
			}
			w.counted("q", test.hard, test.used, test.quota)
			claim := newClaim("data", ofSize("2Gi"), test.claim)
			_, err := w.claims.Create(w.Context(), claim.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			before := w.used("q")
			if (err != nil) != (test.err != "") {
				t.Errorf("dry run: %v", err)
			}
			if _, err = w.claims.Create(w.Context(), claim, metav1.CreateOptions{}); test.err != "" {
				expectError(t, err, apierrors.IsForbidden, forbidden+test.err)
				test.want = before
			} else if err != nil {
				t.Fatal(err)
			}
			testcheck.Equal(t, "used", test.want, w.used("q"))
		})
	}
}

// An expansion is charged by its difference, also through a patch. What the resizer allocates beyond
// the request is charged and never refused.
func TestQuotasOfExpansions(t *testing.T) {
	w := newWorld(t)
	w.NoError(w.Server.Add(&storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gold"}, Provisioner: "d.example.com", AllowVolumeExpansion: ptr.To(true),
	}))
	w.counted("q", "requests.storage=5Gi", "requests.storage=0")
	claim := w.create("data", ofSize("2Gi"), ofClass("gold"))
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: claim.Spec.Resources.Requests}
	claim = w.updateStatus(claim)
	grown := claim.DeepCopy()
	ofSize("4Gi")(grown)
	grown = w.update(grown)
	testcheck.Equal(t, "used", "requests.storage=4Gi", w.used("q"))
	_, err := w.claims.Patch(w.Context(), "data", types.MergePatchType, []byte(`{"spec":{"resources":{"requests":{"storage":"6Gi"}}}}`), metav1.PatchOptions{})
	expectError(t, err, apierrors.IsForbidden, `persistentvolumeclaims "data" is forbidden: exceeded quota: q, requested: requests.storage=2Gi, used: requests.storage=4Gi, limited: requests.storage=5Gi`)
	grown.Status.AllocatedResources = amounts("storage=9Gi")
	grown.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInProgress}
	w.updateStatus(grown)
	testcheck.Equal(t, "used", "requests.storage=9Gi", w.used("q"))
}

// A create that fails after admission stays charged, as upstream.
func TestFailedCreateStaysCharged(t *testing.T) {
	w := newWorld(t)
	w.counted("q", "persistentvolumeclaims=5", "persistentvolumeclaims=0")
	w.create("data")
	_, err := w.claims.Create(w.Context(), newClaim("data"), metav1.CreateOptions{})
	expectError(t, err, apierrors.IsAlreadyExists, `"data" already exists`)
	testcheck.Equal(t, "used", "persistentvolumeclaims=2", w.used("q"))
}

// If one of two quotas is exceeded, neither is charged.
func TestTwoQuotas(t *testing.T) {
	w := newWorld(t)
	w.counted("a", "persistentvolumeclaims=5", "persistentvolumeclaims=0")
	w.counted("b", "persistentvolumeclaims=1", "persistentvolumeclaims=0")
	w.create("one")
	_, err := w.claims.Create(w.Context(), newClaim("two"), metav1.CreateOptions{})
	expectError(t, err, apierrors.IsForbidden, "exceeded quota: b,")
	testcheck.Equal(t, "used", "persistentvolumeclaims=1", w.used("a"))
	testcheck.Equal(t, "used", "persistentvolumeclaims=1", w.used("b"))
}

func TestQuotasOfPods(t *testing.T) {
	container := func(name, requests, limits string) corev1.Container {
		return corev1.Container{Name: name, Image: "i", Resources: corev1.ResourceRequirements{Requests: amounts(requests), Limits: amounts(limits)}}
	}
	for _, test := range []struct {
		name       string
		hard, used string
		scopes     []corev1.ResourceQuotaScope
		containers []corev1.Container
		want, err  string
	}{
		{
			name: "sum", hard: "pods=2,requests.cpu=3,limits.memory=4Gi,cpu=3", used: "pods=0,requests.cpu=1,limits.memory=0,cpu=1",
			containers: []corev1.Container{container("a", "cpu=1", "cpu=2,memory=1Gi"), container("b", "cpu=500m", "cpu=2,memory=1Gi")},
			want:       "cpu=2500m,limits.memory=2Gi,pods=1,requests.cpu=2500m",
		},
		{
			name: "too much", hard: "requests.cpu=1", used: "requests.cpu=500m", containers: []corev1.Container{container("a", "cpu=1", "")},
			err: "exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=500m, limited: requests.cpu=1",
		},
		{
			name: "not stated", hard: "requests.cpu=1,limits.memory=1Gi", used: "requests.cpu=0,limits.memory=0", containers: []corev1.Container{container("b", "", ""), container("a", "cpu=1", "")},
			err: "failed quota: q: must specify limits.memory for: a,b; requests.cpu for: b",
		},
		{name: "best effort", hard: "pods=0", used: "pods=0", scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}, containers: []corev1.Container{container("a", "cpu=1", "")}, want: "pods=0"},
		{
			name: "not best effort", hard: "pods=0", used: "pods=0", scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeNotBestEffort}, containers: []corev1.Container{container("a", "cpu=1", "")},
			err: "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0",
		},
		{name: "terminating", hard: "pods=0", used: "pods=0", scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}, containers: []corev1.Container{container("a", "", "")}, want: "pods=0"},
		{
			name: "extended", hard: "requests.example.com/gpu=1,count/pods=9", used: "requests.example.com/gpu=0,count/pods=0", containers: []corev1.Container{container("a", "example.com/gpu=1", "example.com/gpu=1")},
			want: "count/pods=1,requests.example.com/gpu=1",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.counted("q", test.hard, test.used, func(q *corev1.ResourceQuota) { q.Spec.Scopes = test.scopes })
			_, err := w.User.CoreV1().Pods("default").Create(w.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: test.containers},
			}, metav1.CreateOptions{})
			if test.err != "" {
				expectError(t, err, apierrors.IsForbidden, `pods "web" is forbidden: `+test.err)
				return
			}
			testcheck.NoError(t, err)
			testcheck.Equal(t, "used", test.want, w.used("q"))
		})
	}
}

// Objects of any kind count, also by the older names, and custom objects.
func TestQuotasOfCounts(t *testing.T) {
	w := newWorld(t)
	w.counted("q", "count/secrets=2,secrets=1,services=5,services.nodeports=5,count/leases.coordination.k8s.io=1", "count/secrets=0,secrets=0,services=0,services.nodeports=0,count/leases.coordination.k8s.io=0")
	core := w.User.CoreV1()
	secret := func(name string) error {
		_, err := core.Secrets("default").Create(w.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}
	testcheck.NoError(t, secret("a"))
	expectError(t, secret("b"), apierrors.IsForbidden, `secrets "b" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=1, limited: secrets=1`)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "a", Port: 80}, {Name: "b", Port: 81}}}}
	service = testcheck.Must(core.Services("default").Create(w.Context(), service, metav1.CreateOptions{}))
	testcheck.Equal(t, "used", "count/leases.coordination.k8s.io=0,count/secrets=1,secrets=1,services=1,services.nodeports=0", w.used("q"))
	service.Spec.Type = corev1.ServiceTypeNodePort
	testcheck.Must(core.Services("default").Update(w.Context(), service, metav1.UpdateOptions{}))
	testcheck.Equal(t, "used", "count/leases.coordination.k8s.io=0,count/secrets=1,secrets=1,services=1,services.nodeports=2", w.used("q"))
}

// Writers of a live world never exceed a quota together.
func TestQuotaOfConcurrentWriters(t *testing.T) {
	host := sim.NewLive(sim.LiveConfig{})
	t.Cleanup(host.Close)
	server := fake.NewServer(fake.Config{Now: host.Now})
	testcheck.NoError(t, server.Add(&corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: amounts("persistentvolumeclaims=20")},
		Status: corev1.ResourceQuotaStatus{Hard: amounts("persistentvolumeclaims=20"), Used: amounts("persistentvolumeclaims=0")},
	}))
	var wg sync.WaitGroup
	for writer := range 8 {
		claims := server.Client(sim.DirectCaller()).CoreV1().PersistentVolumeClaims("default")
		wg.Go(func() {
			for i := range 8 {
				_, err := claims.Create(t.Context(), newClaim(fmt.Sprintf("c-%d-%d", writer, i)), metav1.CreateOptions{})
				if err != nil && !strings.Contains(err.Error(), "exceeded quota") {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	q, _ := server.Get("resourcequotas", "default", "q")
	testcheck.Equal(t, "used", "persistentvolumeclaims=20", amountsText(q.(*corev1.ResourceQuota).Status.Used))
	testcheck.Equal(t, "claims", 20, len(server.List("persistentvolumeclaims")))
}

func TestQuotaValidation(t *testing.T) {
	const path = "spec.scopeSelector.matchExpressions"
	for _, test := range []struct {
		name, hard string
		scope      corev1.ResourceQuotaScope
		operator   corev1.ScopeSelectorOperator
		values     []string
		err        string
	}{
		{"valid", "persistentvolumeclaims=1", corev1.ResourceQuotaScopeVolumeAttributesClass, corev1.ScopeSelectorOpIn, []string{"fast"}, ""},
		{"no such scope", "pods=1", "Other", corev1.ScopeSelectorOpExists, nil, path + `.scopeName: Invalid value: "Other": unsupported scope`},
		{"another resource", "pods=1", corev1.ResourceQuotaScopeVolumeAttributesClass, corev1.ScopeSelectorOpExists, nil, "unsupported scope applied to resource"},
		{"no such operator", "pods=1", corev1.ResourceQuotaScopePriorityClass, "Is", nil, path + `.operator: Invalid value: "Is": not a valid selector operator`},
		{"no value", "pods=1", corev1.ResourceQuotaScopePriorityClass, corev1.ScopeSelectorOpIn, nil, path + ".values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"},
		{"a value", "pods=1", corev1.ResourceQuotaScopePriorityClass, corev1.ScopeSelectorOpExists, []string{"high"}, path + `.values: Invalid value: ["high"]: must be no value when`},
		{"not existing", "pods=1", corev1.ResourceQuotaScopeTerminating, corev1.ScopeSelectorOpDoesNotExist, nil, path + `.operator: Invalid value: "DoesNotExist": must be 'Exists' when scope is any of`},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			_, err := w.User.CoreV1().ResourceQuotas("default").Create(w.Context(), &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: amounts(test.hard), ScopeSelector: &corev1.ScopeSelector{
					MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{ScopeName: test.scope, Operator: test.operator, Values: test.values}},
				}},
			}, metav1.CreateOptions{})
			if test.err == "" {
				testcheck.NoError(t, err)
				return
			}
			expectError(t, err, apierrors.IsInvalid, test.err)
		})
	}
}
