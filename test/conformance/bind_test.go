package conformance_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/pvcontroller"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/test/conformance/upstreampv"
)

// bindRecords is the number of trace records to keep.
const bindRecords = 1_000

// A bindWorld is an API server and a PersistentVolume controller.
type bindWorld interface {
	// client returns the user's client.
	client() kubernetes.Interface
	// control starts the controller.
	control() error
	// stop stops the controller, if it runs, and waits until it has ended.
	stop()
}

// bindVariants are volsim's and upstream's controllers. Upstream's runs on client-go's fake
// clientset and on volsim's API server, with client-go's informers. Each reports writes to a tally.
var bindVariants = []struct {
	name string
	make func(*tally) bindWorld
	most int // pairs that BenchmarkBind binds
}{
	{"volsim", newOurBinding, 100_000},
	{"upstream/clientset", newClientsetBinding, 10_000},
	{"upstream/server", newServerBinding, 10_000},
}

// An ourBinding runs volsim's controller on the live host.
type ourBinding struct {
	host   *sim.Live
	server *fake.Server
}

func newOurBinding(t *tally) bindWorld {
	host := sim.NewLive(sim.LiveConfig{Log: &trace.Log{Max: bindRecords}})
	server := fake.NewServer(fake.Config{Now: host.Now})
	server.OnCommit(func(c fake.Commit) { t.observe(c.After) })
	return &ourBinding{host: host, server: server}
}

func (w *ourBinding) client() kubernetes.Interface { return w.server.Client(w.host.ExternalCaller()) }

func (w *ourBinding) control() error {
	component := w.host.Process("pvcontroller")
	client := w.server.Client(component).WithoutCopies()
	pvcontroller.New(pvcontroller.Config{
		Process:   component,
		Client:    client,
		Informers: w.server.Informers(component),
		Recorder:  events.New(events.Config{Process: component, Client: client, Source: pvcontroller.EventSource}),
	})
	w.host.Start()
	return nil
}

func (w *ourBinding) stop() { w.host.Close() }

// An upstreamBinding runs upstream's controller on any server.
type upstreamBinding struct {
	api    kubernetes.Interface
	cancel context.CancelFunc
	wait   func()
}

func newClientsetBinding(t *tally) bindWorld {
	return &upstreamBinding{api: newVersionedClientset(t.observe)}
}

func newServerBinding(t *tally) bindWorld {
	server := fake.NewServer(fake.Config{Now: time.Now})
	server.OnCommit(func(c fake.Commit) { t.observe(c.After) })
	return &upstreamBinding{api: server.Client(sim.DirectCaller())}
}

func (w *upstreamBinding) client() kubernetes.Interface { return w.api }

func (w *upstreamBinding) control() (err error) {
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(context.Background())
	w.wait, err = upstreampv.Start(ctx, upstreampv.Config{Client: w.api})
	return err
}

func (w *upstreamBinding) stop() {
	if w.wait != nil {
		w.cancel()
		w.wait()
	}
}

// A tally counts Available and Bound volumes and Bound claims as they are written, so that tests
// need not poll the server. In these worlds each object is written once per phase.
type tally struct {
	mu        sync.Mutex
	available int
	bound     int // volumes and claims
	until     func() bool
	reached   chan struct{} // closed when until holds
}

func (t *tally) observe(obj any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch o := obj.(type) {
	case *corev1.PersistentVolume:
		switch {
		case o.Status.Phase == corev1.VolumeAvailable && o.Spec.ClaimRef == nil:
			t.available++
		case o.Status.Phase == corev1.VolumeBound:
			t.bound++
		}
	case *corev1.PersistentVolumeClaim:
		if o.Status.Phase == corev1.ClaimBound {
			t.bound++
		}
	}
	t.look()
}

func (t *tally) look() {
	if t.until != nil && t.until() {
		close(t.reached)
		t.until = nil
	}
}

// wait waits until the counts satisfy until.
func (t *tally) wait(ctx context.Context, until func() bool) error {
	t.mu.Lock()
	t.until, t.reached = until, make(chan struct{})
	reached := t.reached
	t.look()
	t.mu.Unlock()
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		return fmt.Errorf("%d volumes Available, %d volumes and claims Bound: %w", t.available, t.bound, ctx.Err())
	}
}

// bindPairs starts the controller, creates n volumes, waits until all are Available, creates n
// claims, and waits until all are Bound.
func bindPairs(ctx context.Context, w bindWorld, t *tally, n int) error {
	if err := w.control(); err != nil {
		return err
	}
	user := w.client()
	for i := range n {
		if _, err := user.CoreV1().PersistentVolumes().Create(ctx, bindVolume(i), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	if err := t.wait(ctx, func() bool { return t.available == n }); err != nil {
		return err
	}
	for i := range n {
		_, err := user.CoreV1().PersistentVolumeClaims("default").Create(ctx, bindClaim(i), metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	return t.wait(ctx, func() bool { return t.bound == 2*n })
}

func bindVolume(i int) *corev1.PersistentVolume {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("volume-%06d", i)}}
	volume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: volume.Name}
	return volume
}

func bindClaim(i int) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("claim-%06d", i), Namespace: "default"},
	}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return claim
}

// BenchmarkBind binds n volumes to n claims. It measures the same work for all variants: create and
// start the server and the controller, create the volumes, wait until they are Available, create
// the claims, and wait until all are Bound. The claims come last because upstream retries an early
// claim only at its resync. There are seven writes per pair, two by the user. Upstream's controller
// starts by polling its caches every 100 ms, which is included.
//
// cpu-µs/pair is the CPU time of all goroutines, including garbage collection; it depends least on
// the machine's load. held-B/pair is the memory in use at the end, including the world. B/op is the
// total allocation.
func BenchmarkBind(b *testing.B) {
	for _, v := range bindVariants {
		for _, n := range []int{100, 1_000, 3_000, 10_000, 30_000, 100_000} {
			if n > v.most {
				continue
			}
			b.Run(fmt.Sprint(v.name, "/", n), func(b *testing.B) {
				b.ReportAllocs()
				var held int64
				var busy time.Duration
				for b.Loop() {
					b.StopTimer()
					before, began := heap(), cpu(b)
					b.StartTimer()
					t := &tally{}
					w := v.make(t)
					if err := bindPairs(b.Context(), w, t, n); err != nil {
						b.Fatal(err)
					}
					b.StopTimer()
					busy += cpu(b) - began
					held += heap() - before
					w.stop()
					runtime.KeepAlive(w)
					b.StartTimer()
				}
				b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "pairs/s")
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/pair")
				b.ReportMetric(float64(busy.Microseconds())/float64(b.N*n), "cpu-µs/pair")
				b.ReportMetric(float64(held)/float64(b.N*n), "held-B/pair")
			})
		}
	}
}

// TestBind runs the benchmark's workload with each variant.
func TestBind(t *testing.T) {
	for _, v := range bindVariants {
		t.Run(v.name, func(t *testing.T) {
			const n = 20
			count := &tally{}
			w := v.make(count)
			defer w.stop()
			if err := bindPairs(t.Context(), w, count, n); err != nil {
				t.Fatal(err)
			}
			claims, err := w.client().CoreV1().PersistentVolumeClaims("default").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			named := map[string]bool{}
			for _, claim := range claims.Items {
				named[claim.Spec.VolumeName] = claim.Status.Phase == corev1.ClaimBound
			}
			if len(named) != n || named[""] {
				t.Errorf("claims are bound to %v, want %d volumes", named, n)
			}
		})
	}
}

// startBindStop runs a controller that finds an Available volume and a claim, binds them, and
// stops.
func startBindStop(ctx context.Context, variant func(*tally) bindWorld) error {
	t := &tally{}
	w := variant(t)
	defer w.stop()
	user := w.client().CoreV1()
	volume, err := user.PersistentVolumes().Create(ctx, bindVolume(0), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	volume.Status.Phase = corev1.VolumeAvailable
	if _, err := user.PersistentVolumes().UpdateStatus(ctx, volume, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if _, err := user.PersistentVolumeClaims("default").Create(ctx, bindClaim(0), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := w.control(); err != nil {
		return err
	}
	return t.wait(ctx, func() bool { return t.bound == 2 })
}

// BenchmarkStartBindStop measures a test of one binding: create the server, a volume and a claim,
// then start and stop the controller.
func BenchmarkStartBindStop(b *testing.B) {
	for _, v := range bindVariants {
		b.Run(v.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := startBindStop(b.Context(), v.make); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestStartBindStop(t *testing.T) {
	for _, v := range bindVariants {
		t.Run(v.name, func(t *testing.T) {
			if err := startBindStop(t.Context(), v.make); err != nil {
				t.Error(err)
			}
		})
	}
}
