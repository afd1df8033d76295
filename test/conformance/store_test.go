package conformance_test

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	clientgo "k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	runtimefake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/volsim/volsim/fake"
)

const (
	storeSize = 10_000 // initial number of claims in the store
	watchers  = 100
)

// A peer is a fake API server as used by tests of controllers.
type peer struct {
	create func(ctx context.Context, claim *corev1.PersistentVolumeClaim) error
	update func(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error)
	get    func(ctx context.Context, name string) (*corev1.PersistentVolumeClaim, error)
	list   func(ctx context.Context) (int, error)
	patch  func(ctx context.Context, name string, data []byte) error
	watch  func(ctx context.Context) (next func() error, err error)
}

// peers are volsim and its alternatives, each with claims in its store.
var peers = []struct {
	name string
	make func(claims []apiruntime.Object) peer
}{
	{"volsim", newVolsim},
	{"clientgo", func(claims []apiruntime.Object) peer { return newTyped(clientgo.NewSimpleClientset(claims...)) }},
	{"clientgo-managed", func(claims []apiruntime.Object) peer { return newTyped(clientgo.NewClientset(claims...)) }},
	{"controller-runtime", newControllerRuntime},
}

// newVolsim returns volsim with its typed client. Its watches are cursors.
func newVolsim(claims []apiruntime.Object) peer {
	c := fake.NewClientset(claims...)
	p := newTyped(c)
	p.watch = func(ctx context.Context) (func() error, error) {
		r, _ := c.Resource(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), "default")
		cursor, err := r.Watch(ctx, metav1.ListOptions{ResourceVersion: fmt.Sprint(c.Server().Revision())})
		return func() error {
			if _, ok, err := cursor.Next(); !ok {
				return fmt.Errorf("no event: %w", err)
			}
			return nil
		}, err
	}
	return p
}

// newTyped returns a server with a typed client.
func newTyped(c kubernetes.Interface) peer {
	claims := c.CoreV1().PersistentVolumeClaims("default")
	return peer{
		create: func(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
			_, err := claims.Create(ctx, claim, metav1.CreateOptions{})
			return err
		},
		update: func(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
			return claims.Update(ctx, claim, metav1.UpdateOptions{})
		},
		get: func(ctx context.Context, name string) (*corev1.PersistentVolumeClaim, error) {
			return claims.Get(ctx, name, metav1.GetOptions{})
		},
		list: func(ctx context.Context) (int, error) {
			list, err := claims.List(ctx, metav1.ListOptions{})
			return len(list.Items), err
		},
		patch: func(ctx context.Context, name string, data []byte) error {
			_, err := claims.Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{})
			return err
		},
		watch: func(ctx context.Context) (func() error, error) {
			w, err := claims.Watch(ctx, metav1.ListOptions{})
			return nextOf(w), err
		},
	}
}

func newControllerRuntime(claims []apiruntime.Object) peer {
	c := runtimefake.NewClientBuilder().WithRuntimeObjects(claims...).Build()
	return peer{
		create: func(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
			return c.Create(ctx, claim.DeepCopy())
		},
		update: func(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
			return claim, c.Update(ctx, claim)
		},
		get: func(ctx context.Context, name string) (*corev1.PersistentVolumeClaim, error) {
			claim := &corev1.PersistentVolumeClaim{}
			return claim, c.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, claim)
		},
		list: func(ctx context.Context) (int, error) {
			var list corev1.PersistentVolumeClaimList
			err := c.List(ctx, &list, client.InNamespace("default"))
			return len(list.Items), err
		},
		patch: func(ctx context.Context, name string, data []byte) error {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
			return c.Patch(ctx, claim, client.RawPatch(types.MergePatchType, data))
		},
		watch: func(ctx context.Context) (func() error, error) {
			w, err := c.Watch(ctx, &corev1.PersistentVolumeClaimList{}, client.InNamespace("default"))
			return nextOf(w), err
		},
	}
}

func nextOf(w watch.Interface) func() error {
	return func() error {
		for {
			switch e := <-w.ResultChan(); e.Type {
			case watch.Added: // initial objects
			case watch.Modified:
				return nil
			default:
				return fmt.Errorf("event %v", e)
			}
		}
	}
}

func newClaim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": "db"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: ptr.To("gold"),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
}

func newClaims(n int) []apiruntime.Object {
	claims := make([]apiruntime.Object, n)
	for i := range claims {
		claims[i] = newClaim(fmt.Sprint("claim-", i))
	}
	return claims
}

// BenchmarkStore compares requests about claims on the fake API servers that tests of controllers
// use. Compare results within one run. cpu-µs/op is the CPU time of all goroutines, including
// garbage collection.
func BenchmarkStore(b *testing.B) {
	measures := []struct {
		name string
		size int // initial claims
		run  func(b *testing.B, p peer)
	}{
		{"create", storeSize, benchmarkCreate},
		{"update", storeSize, benchmarkUpdate},
		{"get", storeSize, benchmarkGet},
		{"list", storeSize, benchmarkList},
		{"patch", storeSize, benchmarkPatch},
		{"fanout100", 1, benchmarkFanout}, // client-go's watches panic with more than 100 initial objects
	}
	claims := newClaims(storeSize)
	for _, m := range measures {
		b.Run(m.name, func(b *testing.B) {
			for _, p := range peers {
				b.Run(p.name, func(b *testing.B) {
					made := p.make(claims[:m.size])
					runtime.GC()
					began := cpu(b)
					m.run(b, made)
					b.StopTimer()
					b.ReportMetric(float64((cpu(b)-began).Microseconds())/float64(b.N), "cpu-µs/op")
				})
			}
		})
	}
}

// cpu returns the CPU time of the process.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchmarkCreate(b *testing.B, p peer) {
	ctx, claim := context.Background(), newClaim("")
	for i := 0; b.Loop(); i++ {
		claim.Name = fmt.Sprint("new-", i)
		if err := p.create(ctx, claim); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkUpdate(b *testing.B, p peer) {
	ctx := context.Background()
	claim, err := p.get(ctx, "claim-7")
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "n", fmt.Sprint(i))
		if claim, err = p.update(ctx, claim); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkGet(b *testing.B, p peer) {
	ctx := context.Background()
	for b.Loop() {
		if _, err := p.get(ctx, "claim-7"); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkList(b *testing.B, p peer) {
	ctx := context.Background()
	for b.Loop() {
		if n, err := p.list(ctx); n != storeSize || err != nil {
			b.Fatal(n, err)
		}
	}
}

func benchmarkPatch(b *testing.B, p peer) {
	ctx := context.Background()
	for i := 0; b.Loop(); i++ {
		data := fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, i)
		if err := p.patch(ctx, "claim-7", data); err != nil {
			b.Fatal(err)
		}
	}
}

// benchmarkFanout measures one update with a hundred watchers.
func benchmarkFanout(b *testing.B, p peer) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	claim, err := p.get(ctx, "claim-0")
	if err != nil {
		b.Fatal(err)
	}
	nexts := make([]func() error, watchers)
	for i := range nexts {
		if nexts[i], err = p.watch(ctx); err != nil {
			b.Fatal(err)
		}
	}
	for i := 0; b.Loop(); i++ {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "n", fmt.Sprint(i))
		if claim, err = p.update(ctx, claim); err != nil {
			b.Fatal(err)
		}
		for _, next := range nexts {
			if err := next(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.N*watchers)/b.Elapsed().Seconds(), "deliveries/s")
}

// BenchmarkHundredThousandClaims measures the cost of storing and listing a claim, which does not
// depend on their number.
func BenchmarkHundredThousandClaims(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			before := heap()
			c := fake.NewClientset()
			claims := c.CoreV1().PersistentVolumeClaims("default")
			ctx := context.Background()
			for i := range n {
				if _, err := claims.Create(ctx, newClaim(fmt.Sprint("claim-", i)), metav1.CreateOptions{}); err != nil {
					b.Fatal(err)
				}
			}
			held := heap() - before
			for b.Loop() {
				list, err := claims.List(ctx, metav1.ListOptions{})
				if err != nil || len(list.Items) != n {
					b.Fatal(len(list.Items), err)
				}
			}
			b.ReportMetric(float64(held)/float64(n), "bytes/claim")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/listed")
			runtime.KeepAlive(c)
		})
	}
}

// heap returns the bytes in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
