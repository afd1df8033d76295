package conformance_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/test/conformance/upstreamad"
)

// podsPerNode is the number of pods on a node, each with one volume.
const podsPerNode = 10

// An attachWorld is an API server and an attach/detach controller.
type attachWorld interface {
	// add creates objects before the controller starts.
	add(ctx context.Context, objects ...runtime.Object) error
	// client returns the attacher's client.
	client() kubernetes.Interface
	// control starts the controller.
	control() error
	// stop stops the controller, if it runs, and waits until it has ended.
	stop()
}

// attachVariants are volsim's and upstream's controllers. Upstream's runs on client-go's fake
// clientset and on volsim's API server, with client-go's informers. Each reports writes to a
// census.
var attachVariants = []struct {
	name string
	make func(*census) attachWorld
	most int // nodes of BenchmarkAttach
}{
	{"volsim", newOurAttaching, 5_000},
	{"upstream", newClientsetAttaching, 1_000},
	{"upstream-on-volsim", newServerAttaching, 1_000},
}

// An ourAttaching runs volsim's controller on the live host.
type ourAttaching struct {
	host   *sim.Live
	server *fake.Server
}

func newOurAttaching(c *census) attachWorld {
	host := sim.NewLive(sim.LiveConfig{Log: &trace.Log{Max: bindRecords}})
	server := fake.NewServer(fake.Config{Now: host.Now})
	server.OnCommit(func(commit fake.Commit) { c.observe(commit.After) })
	return &ourAttaching{host: host, server: server}
}

func (w *ourAttaching) add(_ context.Context, objects ...runtime.Object) error {
	return w.server.Add(objects...)
}

func (w *ourAttaching) client() kubernetes.Interface { return w.server.Client(w.host.ExternalCaller()) }

func (w *ourAttaching) control() error {
	component := w.host.Process("attachdetach")
	client, informers := w.server.Client(component).WithoutCopies(), w.server.Informers(component)
	var manager plugins.Manager
	err := manager.Register(csi.New(csi.Config{
		Process: component, Client: client,
		CSIDrivers: informers.Storage().V1().CSIDrivers(), Attachments: informers.Storage().V1().VolumeAttachments(),
		PersistentVolumes: informers.Core().V1().PersistentVolumes(),
	}))
	attachdetach.New(attachdetach.Config{
		Process: component, Client: client, Informers: informers, Plugins: &manager,
		Recorder: events.New(events.Config{Process: component, Client: client, Source: attachdetach.EventSource}),
	})
	w.host.Start()
	return err
}

func (w *ourAttaching) stop() { w.host.Close() }

// An upstreamAttaching runs upstream's controller on any server.
type upstreamAttaching struct {
	api    kubernetes.Interface
	server *fake.Server // nil: client-go's
	cancel context.CancelFunc
	wait   func()
}

func newClientsetAttaching(c *census) attachWorld {
	return &upstreamAttaching{api: newVersionedClientset(c.observe)}
}

func newServerAttaching(c *census) attachWorld {
	server := fake.NewServer(fake.Config{Now: time.Now})
	server.OnCommit(func(commit fake.Commit) { c.observe(commit.After) })
	return &upstreamAttaching{api: server.Client(sim.DirectCaller()), server: server}
}

func (w *upstreamAttaching) add(ctx context.Context, objects ...runtime.Object) error {
	if w.server != nil {
		return w.server.Add(objects...)
	}
	core := w.api.CoreV1()
	for _, object := range objects {
		var err error
		switch o := object.(type) {
		case *corev1.Node:
			_, err = core.Nodes().Create(ctx, o, metav1.CreateOptions{})
		case *corev1.PersistentVolume:
			_, err = core.PersistentVolumes().Create(ctx, o, metav1.CreateOptions{})
		case *corev1.PersistentVolumeClaim:
			_, err = core.PersistentVolumeClaims(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		case *corev1.Pod:
			_, err = core.Pods(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *upstreamAttaching) client() kubernetes.Interface { return w.api }

func (w *upstreamAttaching) control() (err error) {
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(context.Background())
	w.wait, err = upstreamad.Start(ctx, upstreamad.Config{Client: w.api})
	return err
}

func (w *upstreamAttaching) stop() {
	if w.wait != nil {
		w.cancel()
		w.wait()
	}
}

// A census counts the volumes that node statuses report as attached, and forwards VolumeAttachments
// to the attacher.
type census struct {
	mu       sync.Mutex
	asked    []*storagev1.VolumeAttachment // not yet taken by the attacher
	added    chan struct{}                 // capacity one: new attachments exist
	reported map[string]int                // by node
	total    int
	want     int
	reached  chan struct{} // closed when total is want
}

func newCensus(want int) *census {
	return &census{added: make(chan struct{}, 1), reported: map[string]int{}, want: want, reached: make(chan struct{})}
}

func (c *census) observe(obj any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch o := obj.(type) {
	case *corev1.Node:
		n := len(o.Status.VolumesAttached)
		before := c.total
		c.total += n - c.reported[o.Name]
		c.reported[o.Name] = n
		if c.total == c.want && before != c.want {
			close(c.reached)
		}
	case *storagev1.VolumeAttachment:
		if !o.Status.Attached {
			c.asked = append(c.asked, o)
			select {
			case c.added <- struct{}{}:
			default:
			}
		}
	}
}

func (c *census) take() []*storagev1.VolumeAttachment {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := c.asked
	c.asked = nil
	return asked
}

// attach answers each VolumeAttachment in order, once it is as old as wait, until ctx ends. It only
// writes, so it is never the bottleneck.
func (c *census) attach(ctx context.Context, client kubernetes.Interface, wait time.Duration) error {
	type due struct {
		attachment *storagev1.VolumeAttachment
		at         time.Time
	}
	var queue []due
	timer := time.NewTimer(time.Hour)
	for {
		select {
		case <-c.added:
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
		now := time.Now()
		for _, a := range c.take() {
			queue = append(queue, due{a, now.Add(wait)})
		}
		for len(queue) > 0 && !queue[0].at.After(time.Now()) {
			attached := queue[0].attachment.DeepCopy()
			attached.Status.Attached = true
			if _, err := client.StorageV1().VolumeAttachments().UpdateStatus(ctx, attached, metav1.UpdateOptions{}); err != nil {
				return fmt.Errorf("attach: %w", err)
			}
			queue = queue[1:]
		}
		if len(queue) > 0 {
			timer.Reset(time.Until(queue[0].at))
		}
	}
}

// attachObjects returns n ready nodes, and the pods of each with claims that are bound to volumes.
func attachObjects(n int) []runtime.Object {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	var objects []runtime.Object
	for i := range n {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("node-%04d", i), Annotations: map[string]string{attachdetach.ManagedAnnotation: "true"},
		}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		objects = append(objects, node)
		for j := range podsPerNode {
			name := fmt.Sprintf("data-%04d-%d", i, j)
			uid := types.UID("uid-of-" + name)
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: uid}}
			claim.Spec.AccessModes, claim.Spec.Resources.Requests, claim.Spec.VolumeName = modes, size, name
			claim.Status.Phase = corev1.ClaimBound
			volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
			volume.Spec.Capacity, volume.Spec.AccessModes = size, modes
			volume.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: name, UID: uid}
			volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: name}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
			pod.Spec.NodeName, pod.Spec.Containers = node.Name, []corev1.Container{{Name: "main", Image: "none"}}
			pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}}}
			objects = append(objects, claim, volume, pod)
		}
	}
	return objects
}

// An attaching is a world of n nodes with an attacher that takes wait per volume, and a stopped
// controller.
type attaching struct {
	attachWorld
	census *census
	cancel context.CancelFunc
	ended  chan error
}

func newAttaching(ctx context.Context, variant func(*census) attachWorld, n int, wait time.Duration) (*attaching, error) {
	c := newCensus(n * podsPerNode)
	a := &attaching{attachWorld: variant(c), census: c, ended: make(chan error, 1)}
	if err := a.add(ctx, attachObjects(n)...); err != nil {
		return nil, err
	}
	ctx, a.cancel = context.WithCancel(ctx)
	go func() { a.ended <- c.attach(ctx, a.client(), wait) }()
	return a, nil
}

// run starts the controller and waits until all volumes are attached and reported.
func (a *attaching) run(ctx context.Context) error {
	if err := a.control(); err != nil {
		return err
	}
	select {
	case <-a.census.reached:
		return nil
	case err := <-a.ended:
		return fmt.Errorf("attacher: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close stops the controller and the attacher.
func (a *attaching) close() {
	a.stop()
	a.cancel()
}

// BenchmarkAttach measures a controller that attaches the volumes of nodes × 10 pods: from its
// start, with all objects present, until each VolumeAttachment is attached and each volume is in
// its node's status. One goroutine answers VolumeAttachments, at once or (slow) after ten seconds.
//
// cpu-µs/volume is the CPU time of all goroutines, including the attacher. over-ms is the time
// beyond ten seconds for slow ones.
func BenchmarkAttach(b *testing.B) {
	for _, v := range attachVariants {
		for _, n := range []int{10, 100, 500, 1_000, 5_000} {
			if n > v.most {
				continue
			}
			b.Run(fmt.Sprint(v.name, "/", n), func(b *testing.B) { benchmarkAttach(b, v.make, n, 0) })
		}
	}
	for _, v := range attachVariants {
		for _, n := range []int{10, 100, 500, 1_000, 5_000} {
			if n > v.most {
				continue
			}
			b.Run(fmt.Sprint("slow/", v.name, "/", n), func(b *testing.B) { benchmarkAttach(b, v.make, n, 10*time.Second) })
		}
	}
}

func benchmarkAttach(b *testing.B, variant func(*census) attachWorld, n int, wait time.Duration) {
	b.ReportAllocs()
	var busy time.Duration
	for b.Loop() {
		b.StopTimer()
		a, err := newAttaching(b.Context(), variant, n, wait)
		if err != nil {
			b.Fatal(err)
		}
		heap() // collect the garbage of the setup
		began := cpu(b)
		b.StartTimer()
		err = a.run(b.Context())
		b.StopTimer()
		busy += cpu(b) - began
		a.close()
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	volumes := float64(b.N * n * podsPerNode)
	b.ReportMetric(float64(b.Elapsed().Microseconds())/volumes, "µs/volume")
	b.ReportMetric(float64(busy.Microseconds())/volumes, "cpu-µs/volume")
	if wait > 0 {
		b.ReportMetric(float64((b.Elapsed()/time.Duration(b.N) - wait).Milliseconds()), "over-ms")
	}
}

// BenchmarkAttachedIdle measures the CPU time of a controller in ten idle seconds (idle-cpu-ms) by
// the number of attachments.
func BenchmarkAttachedIdle(b *testing.B) {
	for _, v := range attachVariants {
		for _, n := range []int{100, 1_000, 5_000} {
			if n > v.most {
				continue
			}
			b.Run(fmt.Sprint(v.name, "/", n*podsPerNode), func(b *testing.B) {
				a, err := newAttaching(b.Context(), v.make, n, 0)
				if err != nil {
					b.Fatal(err)
				}
				defer a.close()
				if err := a.run(b.Context()); err != nil {
					b.Fatal(err)
				}
				time.Sleep(5 * time.Second) // until all events are delivered
				heap()
				for b.Loop() {
					began := cpu(b)
					time.Sleep(10 * time.Second)
					b.ReportMetric(float64((cpu(b)-began).Microseconds())/1000, "idle-cpu-ms")
				}
			})
		}
	}
}

// TestAttach runs the benchmark's workload with each variant.
func TestAttach(t *testing.T) {
	for _, v := range attachVariants {
		t.Run(v.name, func(t *testing.T) {
			const n = 3
			a, err := newAttaching(t.Context(), v.make, n, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer a.close()
			if err := a.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			attachments, err := a.client().StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(attachments.Items) != n*podsPerNode {
				t.Errorf("%d VolumeAttachments, want %d", len(attachments.Items), n*podsPerNode)
			}
			for _, attachment := range attachments.Items {
				if !attachment.Status.Attached {
					t.Errorf("%s: reported but not attached", attachment.Name)
				}
			}
		})
	}
}
