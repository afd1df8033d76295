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

// bindRecords is how many records of a world are kept, however many pairs it binds.
const bindRecords = 1_000

// bindWorld is an API server and a PersistentVolume controller.
type bindWorld interface {
	// client is the user's.
	client() kubernetes.Interface
	// control starts the controller.
	control() error
	// stop ends the controller, if there is one, and returns when it has ended.
	stop()
}

// bindVariants are ours and upstream's controller; upstream's on client-go's fake clientset and on our API server, both
// with client-go's informers. Each tells a tally of what is written.
var bindVariants = []struct {
	name string
	make func(*tally) bindWorld
	most int // pairs that BenchmarkBind binds
}{
	{"volsim", newOurBinding, 100_000},
	{"upstream/clientset", newClientsetBinding, 10_000},
	{"upstream/server", newServerBinding, 10_000},
}

// ourBinding is ours, on our live host.
type ourBinding struct {
	host   *sim.Live
	server *fake.Server
}

func newOurBinding(t *tally) bindWorld {
	host := sim.NewLive(sim.LiveConfig{Log: &trace.Log{Max: bindRecords}})
	server := fake.NewServer(fake.Config{Now: host.Now})
	server.OnCommit(func(c fake.Commit) { t.saw(c.After) })
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

// upstreamBinding is upstream's, on any server.
type upstreamBinding struct {
	api    kubernetes.Interface
	cancel context.CancelFunc
	wait   func()
}

func newClientsetBinding(t *tally) bindWorld {
	return &upstreamBinding{api: newVersionedClientset(t.saw)}
}

func newServerBinding(t *tally) bindWorld {
	server := fake.NewServer(fake.Config{Now: time.Now})
	server.OnCommit(func(c fake.Commit) { t.saw(c.After) })
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

// tally counts the volumes that are Available or Bound and the claims that are Bound, as they are written, so that nobody
// need ask the server. Each is written in each phase once in these worlds.
type tally struct {
	mu        sync.Mutex
	available int
	bound     int // volumes and claims
	until     func() bool
	reached   chan struct{} // closed when until holds
}

func (t *tally) saw(obj any) {
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

// wait returns when what is counted satisfies until.
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
		return fmt.Errorf("%d volumes were Available, %d volumes and claims Bound: %w", t.available, t.bound, ctx.Err())
	}
}

// bindPairs has the controller run, makes n volumes, waits until all are Available, makes n claims, and waits until all
// is Bound.
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

// BenchmarkBind binds n volumes to n claims, from nothing. The same is timed for all: the server and the controller are
// made and started, a user makes the volumes, waits until they are Available, since upstream looks at a claim that came
// too early no sooner than at its resync, makes the claims, and waits until all is Bound. That is seven writes a pair, two
// of them the user's. Upstream's controller starts by polling its caches each 100 ms; that is part of it.
//
// cpu-µs/pair is what all goroutines together took, the collector's included, which the load of the machine changes least;
// held-B/pair is what is in use afterwards, world included and still alive, and B/op what was ever allocated.
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

// TestBind has each variant bind what the benchmark binds.
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
				t.Errorf("claims name %v; want %d volumes", named, n)
			}
		})
	}
}

// startBindStop is a controller that finds a volume that is Available and a claim, binds them, and stops.
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

// BenchmarkStartBindStop is what a test of one binding takes: the server, a volume, a claim, the controller from its start
// to its end, all timed.
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
