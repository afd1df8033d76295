package scheddiff

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-helpers/storage/volume"
	upstream "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/utils/ptr"

	volsim "github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/scheduler"
	"github.com/volsim/volsim/sim"
)

// podsOfBench is the number of pods of BenchmarkPods.
const podsOfBench = 1000

// BenchmarkPods measures how long it takes until 1,000 pods have nodes, each with a claim that waits for its
// first consumer. The API server, and the stand-in that provisions and binds, are the same for both
// schedulers.
func BenchmarkPods(b *testing.B) {
	for _, nodes := range []int{100, 1000} {
		for name, start := range map[string]func(*testing.B, *liveWorld){"ours": startOurs, "upstream": startUpstream} {
			b.Run(fmt.Sprintf("%s/nodes=%d", name, nodes), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					w := newLiveWorld(b, nodes)
					start(b, w)
					b.StartTimer()
					w.schedule(b)
					b.StopTimer()
					w.close()
					b.StartTimer()
				}
				b.ReportMetric(float64(podsOfBench*b.N)/b.Elapsed().Seconds(), "pods/s")
			})
		}
	}
}

// A liveWorld is an API server on a live host, with nodes, and with a stand-in for a provisioner and the
// PersistentVolume controller.
type liveWorld struct {
	context.Context
	cancel context.CancelFunc
	host   *sim.Live
	server *volsim.Server
	client kubernetes.Interface
	placed chan struct{} // receives a value for each pod that gets a node
}

func newLiveWorld(b *testing.B, nodes int) *liveWorld {
	host := sim.NewLive(sim.LiveConfig{})
	w := &liveWorld{host: host, server: volsim.NewServer(volsim.Config{Now: host.Now}), placed: make(chan struct{}, podsOfBench)}
	w.Context, w.cancel = context.WithCancel(b.Context())
	var err error
	if w.client, err = kubernetes.NewForConfig(apiserver.NewConfig(w.server, host.ExternalCaller())); err != nil {
		b.Fatal(err)
	}
	late := storagev1.VolumeBindingWaitForFirstConsumer
	objects := []volsim.Object{&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Provisioner: driver, VolumeBindingMode: &late}}
	for i := range nodes {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%04d", i)}}
		n.Labels = map[string]string{corev1.LabelHostname: n.Name, corev1.LabelTopologyZone: fmt.Sprint("zone-", i%3)}
		n.Status.Allocatable = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}
		n.Status.Capacity = n.Status.Allocatable
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
		csi.Spec.Drivers = []storagev1.CSINodeDriver{{Name: driver, NodeID: n.Name, Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To[int32](32)}}}
		objects = append(objects, n, csi)
	}
	for _, obj := range objects {
		if err := w.server.Add(obj); err != nil {
			b.Fatal(err)
		}
	}
	w.provision(b)
	return w
}

func (w *liveWorld) close() {
	w.cancel()
	w.host.Close()
}

// provision starts the stand-in, and counts the pods that get nodes.
func (w *liveWorld) provision(b *testing.B) {
	factory := informers.NewSharedInformerFactory(w.client, 0)
	claims := factory.Core().V1().PersistentVolumeClaims().Informer()
	must := func(_ any, err error) {
		if err != nil && !errors.Is(err, context.Canceled) {
			b.Error(err)
		}
	}
	must(claims.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, obj any) {
		claim := obj.(*corev1.PersistentVolumeClaim)
		node := claim.Annotations[volume.AnnSelectedNode]
		if node == "" || claim.Spec.VolumeName != "" {
			return
		}
		v, err := w.client.CoreV1().PersistentVolumes().Create(w, provisioned(claim, node), metav1.CreateOptions{})
		must(nil, err)
		claim = claim.DeepCopy()
		claim.Spec.VolumeName = v.Name
		claim.Annotations[volume.AnnBindCompleted] = "yes"
		must(w.client.CoreV1().PersistentVolumeClaims(namespace).Update(w, claim, metav1.UpdateOptions{}))
	}}))
	must(factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(old, obj any) {
		if old.(*corev1.Pod).Spec.NodeName == "" && obj.(*corev1.Pod).Spec.NodeName != "" {
			w.placed <- struct{}{}
		}
	}}))
	factory.Start(w.Done())
	factory.WaitForCacheSync(w.Done())
}

// schedule creates the pods, and waits until all have nodes.
func (w *liveWorld) schedule(b *testing.B) {
	for i := range podsOfBench {
		name := fmt.Sprintf("pod-%04d", i)
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		claim.Spec.StorageClassName, claim.Spec.AccessModes = ptr.To("late"), modes[:1]
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"),
		}}}}
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}}}
		if _, err := w.client.CoreV1().PersistentVolumeClaims(namespace).Create(w, claim, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		if _, err := w.client.CoreV1().Pods(namespace).Create(w, pod, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	late := time.After(5 * time.Minute)
	for range podsOfBench {
		select {
		case <-w.placed:
		case <-late:
			b.Fatal("not all pods get nodes")
		}
	}
}

func startOurs(b *testing.B, w *liveWorld) {
	p := w.host.Process("scheduler")
	if _, err := scheduler.New(scheduler.Config{Process: p, Client: w.server.Client(p), Informers: w.server.Informers(p), Recorder: discard{}}); err != nil {
		b.Fatal(err)
	}
	w.host.Start()
}

func startUpstream(b *testing.B, w *liveWorld) {
	factory := upstream.NewInformerFactory(w.client, 0)
	sched, err := upstream.New(w, w.client, factory, nil, func(string) events.EventRecorderLogger { return noEvents{} })
	if err != nil {
		b.Fatal(err)
	}
	factory.Start(w.Done())
	factory.WaitForCacheSync(w.Done())
	if err := sched.WaitForHandlersSync(w); err != nil {
		b.Fatal(err)
	}
	go sched.Run(w)
}
