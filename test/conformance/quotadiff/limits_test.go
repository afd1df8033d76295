package quotadiff

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	api "k8s.io/kubernetes/pkg/apis/core"
	conversion "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"

	volsim "github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// limitRange draws limits that may refuse anything.
func (d draws) limitRange() *corev1.LimitRange {
	l := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "l"}}
	names := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	l.Spec.Limits = []corev1.LimitRangeItem{
		{Type: corev1.LimitTypeContainer, Min: d.amounts(names...), Max: d.amounts(names...), Default: d.amounts(names...), DefaultRequest: d.amounts(names...)},
		{Type: corev1.LimitTypePod, Min: d.amounts(names...), Max: d.amounts(names...)},
		{Type: corev1.LimitTypePersistentVolumeClaim, Min: d.amounts(corev1.ResourceStorage), Max: d.amounts(corev1.ResourceStorage)},
	}
	for i := range 2 {
		for _, name := range names {
			if d.IntN(5) == 0 {
				l.Spec.Limits[i].MaxLimitRequestRatio = corev1.ResourceList{name: resource.MustParse("2")}
			}
		}
	}
	return l
}

// limitedPod draws a pod that is valid without limits.
func (d draws) limitedPod() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	for _, name := range []string{"b", "a"}[:1+d.IntN(2)] {
		p.Spec.Containers = append(p.Spec.Containers, d.limitedContainer(name))
	}
	if d.IntN(3) == 0 {
		p.Spec.InitContainers = []corev1.Container{d.limitedContainer("init")}
	}
	return p
}

func (d draws) limitedContainer(name string) corev1.Container {
	c := corev1.Container{Name: name, Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request := oneOf(d, "", "1", "2", "1Gi")
		if request != "" {
			c.Resources.Requests[name] = resource.MustParse(request)
		}
		if limit := oneOf(d, "", "1", "3", "3Gi"); limit != "" {
			amount := resource.MustParse(limit)
			if amount.Cmp(c.Resources.Requests[name]) >= 0 {
				c.Resources.Limits[name] = amount
			}
		}
	}
	return c
}

// agree compares an error of ours with upstream's, whose parts are in random order.
func agree(got, want error) error {
	if (got == nil) != (want == nil) {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	if got == nil {
		return nil
	}
	_, text, _ := strings.Cut(got.Error(), " is forbidden: ")
	var all utilerrors.Aggregate
	if !errors.As(want, &all) || len(text) != len(want.Error()) {
		return fmt.Errorf("got %s, want %s", text, want)
	}
	for _, part := range all.Errors() {
		if !strings.Contains(text, part.Error()) {
			return fmt.Errorf("got %s, want %s", text, want)
		}
	}
	return nil
}

// TestLimitsAgree draws limits, pods and claims. The defaults and the refusals are upstream's.
func TestLimitsAgree(t *testing.T) {
	t.Parallel()
	d := draws{rand.New(rand.NewPCG(3, 4))}
	host := sim.NewStepped(sim.SteppedConfig{})
	t.Cleanup(host.Close)
	accepted, refused := 0, 0
	for i := range 2000 {
		server := volsim.NewServer(volsim.Config{Now: host.Now, Namespaces: []string{"free"}, SkipBootstrap: true})
		client := server.Client(sim.DirectCaller()).CoreV1()
		if err := server.Add(d.limitRange()); err != nil {
			t.Fatal(err)
		}
		limits := server.List("limitranges")[0].(*corev1.LimitRange).DeepCopy() // with defaults
		pod := d.limitedPod()
		free, err := client.Pods("free").Create(t.Context(), pod, metav1.CreateOptions{})
		if err != nil {
			continue // invalid in any case
		}
		var internal api.Pod
		if err := conversion.Convert_v1_Pod_To_core_Pod(free, &internal, nil); err != nil {
			t.Fatal(err)
		}
		if err := limitranger.PodMutateLimitFunc(limits, &internal); err != nil {
			t.Fatal(err)
		}
		var want corev1.Pod
		if err := conversion.Convert_core_Pod_To_v1_Pod(&internal, &want, nil); err != nil {
			t.Fatal(err)
		}
		// What upstream's validation of pods refuses is not about limits.
		checked := want.DeepCopy()
		checked.ObjectMeta = metav1.ObjectMeta{Name: "checked"}
		if _, err := client.Pods("free").Create(t.Context(), checked, metav1.CreateOptions{}); err != nil {
			continue
		}
		got, err := client.Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
		if err := agree(err, limitranger.PodValidateLimitFunc(limits, &internal)); err != nil {
			t.Fatalf("draw %d: %v\npod %v\nlimits %v", i, err, pod.Spec, limits.Spec)
		}
		if err != nil {
			refused++
		} else {
			accepted++
			for c := range got.Spec.Containers {
				a, b := got.Spec.Containers[c].Resources, want.Spec.Containers[c].Resources
				if text(a.Requests) != text(b.Requests) || text(a.Limits) != text(b.Limits) {
					t.Fatalf("draw %d: resources %v, want %v", i, a, b)
				}
			}
			if a, b := got.Annotations["kubernetes.io/limit-ranger"], want.Annotations["kubernetes.io/limit-ranger"]; a != b {
				t.Fatalf("draw %d: annotation %s, want %s", i, a, b)
			}
		}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(oneOf(d, "1", "2", "1Gi", "3Gi"))}
		var internalClaim api.PersistentVolumeClaim
		if err := conversion.Convert_v1_PersistentVolumeClaim_To_core_PersistentVolumeClaim(claim, &internalClaim, nil); err != nil {
			t.Fatal(err)
		}
		_, err = client.PersistentVolumeClaims("default").Create(t.Context(), claim, metav1.CreateOptions{})
		if err := agree(err, limitranger.PersistentVolumeClaimValidateLimitFunc(limits, &internalClaim)); err != nil {
			t.Fatalf("draw %d: %v\nclaim %v\nlimits %v", i, err, claim.Spec, limits.Spec)
		}
	}
	if accepted < 100 || refused < 100 {
		t.Errorf("%d pods were accepted, %d refused: too few to compare", accepted, refused)
	}
}
