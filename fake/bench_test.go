package fake_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

// direct is a caller whose calls take effect at once, at the start of the simulated time.
var direct = testworld.ImmediateCaller(func() time.Time { return sim.Epoch })

func newServer(tb testing.TB, namespaces ...string) (*fake.Server, *fake.Clientset) {
	tb.Helper()
	s := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }, Namespaces: namespaces})
	return s, s.Client(direct)
}

// newClaim returns a claim as users write it.
func newClaim(name string, change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": "db"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: ptr.To("gold"),
			Resources:        corev1.VolumeResourceRequirements{Requests: storage("1Gi")},
		},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func storage(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

func BenchmarkClaimCreate(b *testing.B) {
	_, c := newServer(b)
	claims := c.CoreV1().PersistentVolumeClaims("default")
	claim := newClaim("x")
	ctx := context.Background()
	for i := 0; b.Loop(); i++ {
		claim.Name = fmt.Sprint("claim-", i)
		if _, err := claims.Create(ctx, claim, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkClaimGet(b *testing.B) {
	_, c := newServer(b)
	claims := c.CoreV1().PersistentVolumeClaims("default")
	ctx := context.Background()
	if _, err := claims.Create(ctx, newClaim("x"), metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := claims.Get(ctx, "x", metav1.GetOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkClaimUpdate(b *testing.B) {
	_, c := newServer(b)
	claims := c.CoreV1().PersistentVolumeClaims("default")
	ctx := context.Background()
	claim, err := claims.Create(ctx, newClaim("x"), metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "n", fmt.Sprint(i))
		if claim, err = claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkClaimUpdateStatus(b *testing.B) {
	_, c := newServer(b)
	claims := c.CoreV1().PersistentVolumeClaims("default")
	ctx := context.Background()
	claim, err := claims.Create(ctx, newClaim("x"), metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		claim.Status.Phase = []corev1.PersistentVolumeClaimPhase{corev1.ClaimBound, corev1.ClaimPending}[i%2]
		if claim, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkClaimList10000(b *testing.B) {
	_, c := newServer(b)
	claims := c.CoreV1().PersistentVolumeClaims("default")
	ctx := context.Background()
	for i := range 10_000 {
		if _, err := claims.Create(ctx, newClaim(fmt.Sprint("claim-", i)), metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		list, err := claims.List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 10_000 {
			b.Fatal(len(list.Items), err)
		}
	}
}

func BenchmarkClaimPatchMerge(b *testing.B) {
	_, c := newServer(b)
	claims := c.CoreV1().PersistentVolumeClaims("default")
	ctx := context.Background()
	if _, err := claims.Create(ctx, newClaim("x"), metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, i)
		if _, err := claims.Patch(ctx, "x", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFanout100 measures one event delivered to the informers of a hundred processes.
func BenchmarkFanout100(b *testing.B) {
	host := sim.NewStepped(sim.SteppedConfig{StepsMax: 1 << 60})
	defer host.Close()
	s, c := newServer(b)
	seen := 0
	for i := range 100 {
		informer := s.Informers(host.Process(fmt.Sprint("c", i))).Core().V1().PersistentVolumeClaims().Informer()
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { seen++ }})
	}
	claims := c.CoreV1().PersistentVolumeClaims("default")
	ctx := context.Background()
	claim, err := claims.Create(ctx, newClaim("x"), metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	if err := host.Run(); err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "n", fmt.Sprint(i))
		if claim, err = claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		if err := host.Run(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(seen)/float64(b.N), "events/op")
}

func BenchmarkNewServerAndClient(b *testing.B) {
	for b.Loop() {
		s := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }})
		_ = s.Client(direct)
	}
}

func BenchmarkClient(b *testing.B) {
	s, _ := newServer(b)
	for b.Loop() {
		_ = s.Client(direct).CoreV1().PersistentVolumes()
	}
}
