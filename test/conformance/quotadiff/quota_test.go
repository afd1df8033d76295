package quotadiff

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	upstream "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/quota"
)

// now is the time of all requests.
var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// draws draws objects and quotas.
type draws struct{ *rand.Rand }

func oneOf[T any](d draws, all ...T) T { return all[d.IntN(len(all))] }

func (d draws) amounts(names ...corev1.ResourceName) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, name := range names {
		if d.IntN(3) == 0 {
			list[name] = resource.MustParse(oneOf(d, "0", "1", "2", "1500m", "1Gi", "3Gi"))
		}
	}
	return list
}

func (d draws) class() *string { return oneOf(d, nil, ptr.To(""), ptr.To("gold"), ptr.To("tin")) }

func (d draws) claim() *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}}
	c.Spec.StorageClassName, c.Spec.VolumeAttributesClassName = d.class(), d.class()
	c.Status.CurrentVolumeAttributesClassName = d.class()
	if d.IntN(4) == 0 {
		c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "gold"}
	}
	if d.IntN(4) == 0 {
		c.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: "gold"}
	}
	c.Spec.Resources.Requests = d.amounts(corev1.ResourceStorage, corev1.ResourceStorage)
	c.Status.AllocatedResources = d.amounts(corev1.ResourceStorage)
	return c
}

func (d draws) container(name string) corev1.Container {
	names := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, "hugepages-2Mi", "example.com/gpu", "deviceclass.resource.kubernetes.io/gold"}
	c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: d.amounts(names...), Limits: d.amounts(names...)}}
	if name == "sidecar" {
		c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	}
	return c
}

func (d draws) pod() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	p.Spec.Containers = []corev1.Container{d.container("b"), d.container("a")}[:1+d.IntN(2)]
	p.Spec.InitContainers = []corev1.Container{d.container("sidecar"), d.container("init")}[:d.IntN(3)]
	p.Spec.Overhead = d.amounts(corev1.ResourceCPU)
	p.Spec.PriorityClassName = oneOf(d, "", "gold", "tin")
	p.Spec.ActiveDeadlineSeconds = oneOf(d, nil, nil, ptr.To[int64](5))
	p.Status.Phase = oneOf(d, corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed)
	if d.IntN(5) == 0 {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: d.amounts(corev1.ResourceCPU), Limits: d.amounts(corev1.ResourceMemory)}
	}
	if d.IntN(3) == 0 {
		p.DeletionTimestamp = &metav1.Time{Time: now.Add(time.Duration(d.IntN(90)-60) * time.Second)}
		p.DeletionGracePeriodSeconds = ptr.To[int64](30)
	}
	if d.IntN(4) == 0 {
		terms := []corev1.PodAffinityTerm{{Namespaces: oneOf(d, nil, []string{"x"}), NamespaceSelector: oneOf(d, nil, &metav1.LabelSelector{})}}
		p.Spec.Affinity = oneOf(d, &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}},
			&corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: terms[0]}}}})
	}
	return p
}

func (d draws) service() *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}}
	s.Spec.Type = oneOf(d, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer)
	s.Spec.AllocateLoadBalancerNodePorts = oneOf(d, nil, ptr.To(true), ptr.To(false))
	s.Spec.Ports = []corev1.ServicePort{{Port: 1, NodePort: oneOf[int32](d, 0, 30000)}, {Port: 2}}[:d.IntN(3)]
	return s
}

// devices draws a claim of devices.
func (d draws) devices() *resourcev1.ResourceClaim {
	mode := func() resourcev1.DeviceAllocationMode {
		return oneOf[resourcev1.DeviceAllocationMode](d, "ExactCount", "ExactCount", "All", "Future")
	}
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "devices"}}
	for range d.IntN(4) {
		var r resourcev1.DeviceRequest
		if d.IntN(2) == 0 {
			r.Exactly = &resourcev1.ExactDeviceRequest{DeviceClassName: oneOf(d, "gold", "tin"), AllocationMode: mode(), Count: int64(d.IntN(3))}
		}
		for range d.IntN(4) {
			r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{
				DeviceClassName: oneOf(d, "gold", "tin"), AllocationMode: mode(), Count: int64(d.IntN(3)),
			})
		}
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, r)
	}
	return c
}

func (d draws) quota() *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "q"}}
	all := []corev1.ResourceName{
		"pods", "count/pods", "cpu", "memory", "requests.cpu", "limits.cpu", "limits.memory", "requests.ephemeral-storage", "hugepages-2Mi",
		"requests.hugepages-2Mi", "requests.example.com/gpu", "requests.deviceclass.resource.kubernetes.io/gold", "example.com/gpu", "persistentvolumeclaims",
		"requests.storage", "gold.storageclass.storage.k8s.io/requests.storage", "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
		"count/persistentvolumeclaims", "services", "services.nodeports", "services.loadbalancers", "count/services", "secrets", "count/secrets",
		"gold.deviceclass.resource.k8s.io/devices", "tin.deviceclass.resource.k8s.io/devices", "count/resourceclaims.resource.k8s.io",
	}
	d.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	q.Status.Hard, q.Status.Used = corev1.ResourceList{}, corev1.ResourceList{}
	for _, name := range all[:1+d.IntN(6)] {
		q.Status.Hard[name] = resource.MustParse(oneOf(d, "0", "1", "2", "3", "2Gi", "4Gi"))
		if d.IntN(20) > 0 {
			q.Status.Used[name] = resource.MustParse(oneOf(d, "0", "1", "1Gi"))
		}
	}
	q.Spec.Hard = q.Status.Hard
	scopes := []corev1.ResourceQuotaScope{
		corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort,
		corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity, corev1.ResourceQuotaScopeVolumeAttributesClass,
	}
	switch d.IntN(4) {
	case 0:
		q.Spec.Scopes = []corev1.ResourceQuotaScope{oneOf(d, scopes...)}
	case 1:
		operator := oneOf(d, corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn, corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist)
		requirement := corev1.ScopedResourceSelectorRequirement{ScopeName: oneOf(d, scopes...), Operator: operator}
		if operator == corev1.ScopeSelectorOpIn || operator == corev1.ScopeSelectorOpNotIn {
			requirement.Values = oneOf(d, []string{"gold"}, []string{"gold", "tin"})
		}
		q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{requirement}}
	}
	return q
}

// object is one that evaluators measure.
type object interface {
	metav1.Object
	runtime.Object
}

// request draws a write of one kind.
func (d draws) request() quota.Request {
	kind := oneOf(d, "persistentvolumeclaims", "persistentvolumeclaims", "pods", "pods", "services", "secrets", "resourceclaims")
	draw := func() metav1.Object {
		switch kind {
		case "persistentvolumeclaims":
			return d.claim()
		case "pods":
			return d.pod()
		case "services":
			return d.service()
		case "resourceclaims":
			return d.devices()
		}
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}}
	}
	r := quota.Request{Resource: schema.GroupResource{Resource: kind}, Object: draw(), Now: now}
	if kind == "resourceclaims" {
		r.Resource = quota.DeviceClaims
	}
	if d.IntN(2) == 0 {
		r.Old = draw()
		r.Old.SetResourceVersion("1")
		r.Status = d.IntN(3) == 0
	}
	return r
}

func text(list corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		amount := list[name]
		parts = append(parts, fmt.Sprintf("%s=%s", name, amount.String()))
	}
	return strings.Join(parts, ",")
}

// evaluators returns upstream's evaluators by resource, which list nothing.
func evaluators(t *testing.T) map[string]upstream.Evaluator {
	t.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	all, err := core.NewEvaluators(generic.ListerFuncForResourceFunc(factory.ForResource), factory, nil)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]upstream.Evaluator{}
	for _, e := range all {
		by[e.GroupResource().Resource] = e
	}
	by["pods"] = core.NewPodEvaluator(nil, testingclock.NewFakeClock(now))
	return by
}

// TestQuotasAgree draws writes and quotas. Usage, refusals and what is used afterwards are upstream's.
func TestQuotasAgree(t *testing.T) {
	t.Parallel()
	by := evaluators(t)
	d := draws{rand.New(rand.NewPCG(1, 2))}
	charged, refused := 0, 0
	for i := range 15_000 {
		r, q := d.request(), d.quota()
		evaluator := by[r.Resource.Resource]
		wantUsage, err := evaluator.Usage(r.Object.(object))
		if err != nil {
			t.Fatal(err)
		}
		if got := quota.Usage(r.Resource, r.Object, now); text(got) != text(wantUsage) {
			t.Fatalf("draw %d: usage of %v:\ngot  %s\nwant %s", i, r.Object, text(got), text(wantUsage))
		}
		subresource := ""
		if r.Status {
			subresource = "status"
		}
		operation, old := admission.Create, runtime.Object(nil)
		if r.Old != nil {
			operation, old = admission.Update, r.Old.(object)
		}
		attributes := admission.NewAttributesRecord(r.Object.(object), old, schema.GroupVersionKind{}, "default", r.Object.GetName(),
			r.Resource.WithVersion("v1"), subresource, operation, nil, false, nil)
		if concerns := r.Concerns(); concerns != evaluator.Handles(attributes) {
			t.Fatalf("draw %d: concerned by a write of %s (status %v): got %v", i, r.Resource, r.Status, concerns)
		} else if !concerns {
			continue
		}
		after, wantErr := resourcequota.CheckRequest([]corev1.ResourceQuota{*q.DeepCopy()}, attributes, evaluator, nil)
		used, gotErr := quota.Charge(q, r)
		switch {
		case (gotErr == nil) != (wantErr == nil), gotErr != nil && !strings.HasSuffix(wantErr.Error(), gotErr.Error()):
			t.Fatalf("draw %d: %v\nquota %v\ngot  %v\nwant %v", i, r.Object, q, gotErr, wantErr)
		case gotErr != nil:
			refused++
			continue
		case used == nil:
			used = q.Status.Used
		default:
			charged++
		}
		if text(used) != text(after[0].Status.Used) {
			t.Fatalf("draw %d: used after %v\nbefore %v\nquota %v\ngot  %s\nwant %s", i, r.Object, r.Old, q, text(used), text(after[0].Status.Used))
		}
	}
	if charged < 500 || refused < 500 {
		t.Errorf("%d requests were charged, %d refused: too few to compare", charged, refused)
	}
}
