package conformance_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientgo "k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/volume"
	volumetesting "k8s.io/kubernetes/pkg/volume/testing"
	volumetypes "k8s.io/kubernetes/pkg/volume/util/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/kubelet"
	"github.com/volsim/volsim/kubelet/pluginmanager"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nfs"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sidecars/registrar"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/test/conformance/upstreamvm"
	"github.com/volsim/volsim/volumemanager"
)

// Name of the node, directory of its kubelet and socket of its driver.
const (
	mountNode     = "node-1"
	mountRoot     = "/kubelet"
	mountEndpoint = mountRoot + "/plugins/array/csi.sock"
)

// A mountWorld is an API server and a node with attached volumes.
type mountWorld interface {
	// run creates pods on the node and waits until all their volumes are mounted.
	run(ctx context.Context, pods []*corev1.Pod) error
	// stop stops the node and waits until it has ended.
	stop()
}

// mountVariants are volsim's and upstream's implementations, by the number of attached volumes.
// Volsim's is a whole kubelet on the live host and volsim's API server, with the array's CSI
// driver, called directly or over gRPC. A pod is done when it is Running in the API server.
// Upstream's is the volume manager alone, on client-go's fake clientset and upstream's fake plugin,
// which creates a directory. A pod is done when WaitForAttachAndMount returns.
//
// Upstream mounts a volume only after it was reported as in use. A kubelet reports after each patch
// of its Node's status, which happens every ten seconds (nodeStatusUpdateFrequency, plus up to 4 %:
// pkg/kubelet Run, syncNodeStatus, markVolumesFromNode, v1.36) and not earlier. Volsim's kubelet
// patches when there is a change. The variant's name contains the interval: upstream-10s like a
// kubelet, with pods that arrive halfway between two reports; upstream-100ms like the tests of
// upstream's volume manager; upstream-10ms, which no kubelet uses, to measure little besides its
// own loops.
var mountVariants = []struct {
	name string
	make func(tb testing.TB, volumes int) (mountWorld, error)
}{
	{"volsim", func(tb testing.TB, volumes int) (mountWorld, error) {
		return newOurMounting(tb.Context(), volumes, serveInline)
	}},
	{"volsim-grpc", func(tb testing.TB, volumes int) (mountWorld, error) {
		return newOurMounting(tb.Context(), volumes, csi.Serve)
	}},
	{"upstream-10ms", upstreamMountingEvery(10 * time.Millisecond)},
	{"upstream-100ms", upstreamMountingEvery(100 * time.Millisecond)},
	{"upstream-10s", upstreamMountingEvery(10 * time.Second)},
}

// serveInline replaces csi.Serve without a server.
func serveInline(csi.RegisterFunc) (*csi.Server, error) { return nil, nil }

// An ourMounting is volsim's variant.
type ourMounting struct {
	host   *sim.Live
	server *fake.Server
	driver *csi.Server // nil: called directly
	user   kubernetes.Interface

	mu      sync.Mutex
	running int           // guarded by mu: number of running pods
	want    int           // guarded by mu
	reached chan struct{} // guarded by mu: closed when want pods are running
}

func newOurMounting(ctx context.Context, volumes int, serve func(csi.RegisterFunc) (*csi.Server, error)) (*ourMounting, error) {
	w := &ourMounting{host: sim.NewLive(sim.LiveConfig{Log: &trace.Log{Max: bindRecords}})}
	w.server = fake.NewServer(fake.Config{Now: w.host.Now})
	w.server.OnCommit(w.observe)
	w.user = w.server.Client(w.host.ExternalCaller())
	disks := array.New(array.Config{CapacityBytes: 1 << 50})
	fs := nodefs.NewMemory("/")
	announces := registrar.New(array.DriverName, mountEndpoint)
	node := disks.Node(mountNode, fs)
	services := func(r grpc.ServiceRegistrar) {
		csispec.RegisterIdentityServer(r, disks.Identity())
		csispec.RegisterNodeServer(r, node)
		announces.Register(r)
	}
	var err error
	w.driver, err = serve(services)
	if err != nil {
		return nil, err
	}
	conn := csi.Direct(services)
	if w.driver != nil {
		conn = w.driver.Conn()
	}
	sockets := &pluginmanager.Memory{}
	sockets.Put(mountEndpoint, conn)
	sockets.Put(mountRoot+"/plugins_registry/array-reg.sock", conn)
	attached, err := attachDisks(ctx, disks.Controller(), volumes)
	if err != nil {
		return nil, err
	}
	if err := w.server.Add(attached...); err != nil {
		return nil, err
	}
	component := w.host.Process("kubelet")
	_, err = kubelet.New(kubelet.Config{
		Process: component, Client: w.server.Client(component).WithoutCopies(), Node: mountNode, Root: mountRoot, FS: fs, NFS: nfs.NewServers(hostpath.Machine{FS: nodefs.NewMemory("/"), Root: "/"}),
		Informers: w.server.Informers(component,
			fake.Filter{Resource: "pods", Fields: "spec.nodeName=" + mountNode},
			fake.Filter{Resource: "nodes", Fields: "metadata.name=" + mountNode},
			fake.Filter{Resource: "persistentvolumeclaims", Match: func(was, is fake.Object) bool {
				before, _ := was.(*corev1.PersistentVolumeClaim)
				after, _ := is.(*corev1.PersistentVolumeClaim)
				return volumemanager.IsNodeResize(before, after)
			}}),
		BootID: "1", Sockets: sockets, Dial: func(driver, endpoint string) (grpc.ClientConnInterface, error) {
			conn, err := sockets.Dial(endpoint)
			return csi.Suspend(component, driver, conn), err
		},
	})
	if err != nil {
		return nil, err
	}
	w.host.Start()
	return w, w.host.Wait(ctx, "the driver to register", func() bool {
		object, ok := w.server.Get("csinodes", "", mountNode)
		return ok && len(object.(*storagev1.CSINode).Spec.Drivers) == 1
	})
}

// attachDisks creates volumes of the array that are attached to the node, and returns their objects
// and the node.
func attachDisks(ctx context.Context, controller csispec.ControllerServer, volumes int) ([]runtime.Object, error) {
	capability := &csispec.VolumeCapability{
		AccessMode: &csispec.VolumeCapability_AccessMode{Mode: csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{}},
	}
	node := mountNodeObject()
	objects := []runtime.Object{node}
	for i := range volumes {
		made, err := controller.CreateVolume(ctx, &csispec.CreateVolumeRequest{
			Name: mountName(i), VolumeCapabilities: []*csispec.VolumeCapability{capability},
			CapacityRange: &csispec.CapacityRange{RequiredBytes: 1 << 30},
		})
		if err != nil {
			return nil, err
		}
		handle := made.GetVolume().GetVolumeId()
		published, err := controller.ControllerPublishVolume(ctx, &csispec.ControllerPublishVolumeRequest{
			VolumeId: handle, NodeId: mountNode, VolumeCapability: capability,
		})
		if err != nil {
			return nil, err
		}
		source := corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: array.DriverName, VolumeHandle: handle}}
		claim, pv := mountPair(i, source)
		attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: csi.AttachmentName(handle, array.DriverName, mountNode)}}
		attachment.Spec = storagev1.VolumeAttachmentSpec{
			Attacher: array.DriverName, NodeName: mountNode, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name},
		}
		attachment.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: published.GetPublishContext()}
		objects = append(objects, claim, pv, attachment)
		node.Status.VolumesAttached = append(node.Status.VolumesAttached, corev1.AttachedVolume{
			Name: plugins.UniqueVolumeName(csi.PluginName, csi.VolumeName(array.DriverName, handle)),
		})
	}
	return objects, nil
}

func (w *ourMounting) observe(commit fake.Commit) {
	pod, is := commit.After.(*corev1.Pod)
	if !is || pod.Status.Phase != corev1.PodRunning || commit.Before == nil || commit.Before.(*corev1.Pod).Status.Phase == corev1.PodRunning {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running++; w.running == w.want {
		close(w.reached)
	}
}

// expect returns a channel that is closed when n more pods are running.
func (w *ourMounting) expect(n int) (reached chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running, w.want, w.reached = 0, n, make(chan struct{})
	return w.reached
}

func (w *ourMounting) run(ctx context.Context, pods []*corev1.Pod) error {
	reached := w.expect(len(pods))
	for _, pod := range pods {
		if _, err := w.user.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *ourMounting) stop() {
	w.host.Close()
	if w.driver == nil {
		return
	}
	if err := w.driver.Stop(); err != nil {
		panic(err)
	}
}

// An upstreamMounting is upstream's variant.
type upstreamMounting struct {
	manager *upstreamvm.Manager
	cancel  context.CancelFunc
	wait    func()
	begun   chan struct{} // closed when the first pods arrive
}

// fakePlugin is the name of upstream's fake plugin.
const fakePlugin = "fake"

// upstreamMountingEvery returns upstream's variant with an interval for reporting volumes in use.
func upstreamMountingEvery(each time.Duration) func(tb testing.TB, volumes int) (mountWorld, error) {
	return func(tb testing.TB, volumes int) (mountWorld, error) { return newUpstreamMounting(tb, volumes, each) }
}

func newUpstreamMounting(tb testing.TB, volumes int, each time.Duration) (mountWorld, error) {
	node := mountNodeObject()
	objects := []runtime.Object{node}
	names := make([]corev1.UniqueVolumeName, volumes)
	for i := range volumes {
		claim, pv := mountPair(i, corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{RBDImage: mountName(i)}})
		objects = append(objects, claim, pv)
		names[i] = corev1.UniqueVolumeName(fakePlugin + "/" + mountName(i))
		node.Status.VolumesAttached = append(node.Status.VolumesAttached, corev1.AttachedVolume{Name: names[i], DevicePath: "/dev/vdb-test"})
	}
	ctx, cancel := context.WithCancel(context.Background())
	m, wait, err := upstreamvm.Start(ctx, upstreamvm.Config{
		Client: clientgo.NewSimpleClientset(objects...), Node: mountNode, Root: tb.TempDir(),
		Plugins: []volume.VolumePlugin{&volumetesting.FakeVolumePlugin{PluginName: fakePlugin}},
	})
	if err != nil {
		cancel()
		return nil, err
	}
	m.SetNode(node)
	w := &upstreamMounting{manager: m, cancel: cancel, wait: wait, begun: make(chan struct{})}
	go func() {
		select {
		case <-w.begun:
		case <-ctx.Done():
			return
		}
		time.Sleep(each / 2) // arrive halfway between two reports
		for ctx.Err() == nil {
			m.MarkVolumesAsReportedInUse(names)
			time.Sleep(each)
		}
	}()
	return w, nil
}

func (w *upstreamMounting) run(ctx context.Context, pods []*corev1.Pod) error {
	ended := make(chan error, len(pods))
	close(w.begun)
	for _, pod := range pods {
		w.manager.AddPod(pod)
	}
	for _, pod := range pods {
		go func() { ended <- w.manager.WaitForAttachAndMount(ctx, pod) }()
	}
	for range pods {
		if err := <-ended; err != nil {
			return err
		}
	}
	return nil
}

func (w *upstreamMounting) stop() {
	w.cancel()
	w.wait()
}

func mountNodeObject() *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: mountNode, Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
	}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return node
}

func mountName(i int) string { return fmt.Sprintf("data-%05d", i) }

// mountPair returns a claim bound to a volume.
func mountPair(i int, source corev1.PersistentVolumeSource) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	name, mode := mountName(i), corev1.PersistentVolumeFilesystem
	uid := types.UID("uid-of-" + name)
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: uid}}
	claim.Spec.AccessModes, claim.Spec.Resources.Requests, claim.Spec.VolumeName = modes, size, name
	claim.Spec.VolumeMode = &mode
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, size
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pv.Spec.Capacity, pv.Spec.AccessModes, pv.Spec.VolumeMode = size, modes, &mode
	pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: name, UID: uid}
	pv.Spec.PersistentVolumeSource = source
	return claim, pv
}

// mountPods returns p pods of v volumes each. Each volume is used by one pod.
func mountPods(p, v int) []*corev1.Pod {
	pods := make([]*corev1.Pod, p)
	for i := range pods {
		name := fmt.Sprintf("pod-%05d", i)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-of-" + name)}}
		pod.Spec.NodeName = mountNode
		container := corev1.Container{Name: "main", Image: "none"}
		for j := range v {
			data := fmt.Sprintf("data-%d", j)
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: data, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: mountName(i*v + j)},
			}})
			container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: data, MountPath: "/" + data})
		}
		pod.Spec.Containers = []corev1.Container{container}
		pods[i] = pod
	}
	return pods
}

// mountSizes are the numbers of pods and of volumes per pod.
var mountSizes = []struct{ pods, volumes int }{{1, 1}, {100, 1}, {1_000, 1}, {250, 10}, {1_000, 4}}

// BenchmarkMount measures a node that mounts attached volumes: from the first pod's creation until
// all are mounted.
//
// cpu-µs/volume is the CPU time of all goroutines; for volsim it includes the API server and the
// driver.
func BenchmarkMount(b *testing.B) {
	for _, v := range mountVariants {
		for _, size := range mountSizes {
			b.Run(fmt.Sprintf("%s/%dx%d", v.name, size.pods, size.volumes), func(b *testing.B) {
				b.ReportAllocs()
				volumes := size.pods * size.volumes
				var busy time.Duration
				for b.Loop() {
					b.StopTimer()
					w, err := v.make(b, volumes)
					if err != nil {
						b.Fatal(err)
					}
					pods := mountPods(size.pods, size.volumes)
					heap() // collect the garbage of the setup
					began := cpu(b)
					b.StartTimer()
					err = w.run(b.Context(), pods)
					b.StopTimer()
					busy += cpu(b) - began
					w.stop()
					if err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*volumes), "µs/volume")
				b.ReportMetric(float64(busy.Microseconds())/float64(b.N*volumes), "cpu-µs/volume")
			})
		}
	}
}

// BenchmarkMountedIdle measures the CPU time of a node with 1,000 mounted volumes in ten idle
// seconds (idle-cpu-ms).
func BenchmarkMountedIdle(b *testing.B) {
	for _, v := range mountVariants {
		b.Run(v.name, func(b *testing.B) {
			const volumes = 1_000
			w, err := v.make(b, volumes)
			if err != nil {
				b.Fatal(err)
			}
			defer w.stop()
			if err := w.run(b.Context(), mountPods(volumes, 1)); err != nil {
				b.Fatal(err)
			}
			time.Sleep(time.Second) // until all events are delivered
			heap()
			for b.Loop() {
				began := cpu(b)
				time.Sleep(10 * time.Second)
				b.ReportMetric(float64((cpu(b)-began).Microseconds())/1000, "idle-cpu-ms")
			}
		})
	}
}

// BenchmarkPodAlone measures an otherwise idle node from the binding of a pod with one volume until
// the pod is running.
func BenchmarkPodAlone(b *testing.B) {
	w, err := newOurMounting(b.Context(), 1, serveInline)
	if err != nil {
		b.Fatal(err)
	}
	defer w.stop()
	pod := mountPods(1, 1)[0]
	pod.UID, pod.Spec.NodeName = "", ""
	pods := w.user.CoreV1().Pods(pod.Namespace)
	for b.Loop() {
		b.StopTimer()
		if _, err := pods.Create(b.Context(), pod, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		reached := w.expect(1)
		b.StartTimer()
		err := pods.Bind(b.Context(), &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			Target:     corev1.ObjectReference{Kind: "Node", Name: mountNode},
		}, metav1.CreateOptions{})
		if err != nil {
			b.Fatal(err)
		}
		<-reached
		b.StopTimer()
		if err := pods.Delete(b.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		err = w.host.Wait(b.Context(), "the pod and its volume to go", func() bool {
			object, _ := w.server.Get("nodes", "", mountNode)
			return w.server.Count("pods") == 0 && len(object.(*corev1.Node).Status.VolumesInUse) == 0
		})
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/pod")
}

// TestMount runs the benchmark's workload with each variant.
func TestMount(t *testing.T) {
	const pods, volumes = 5, 3
	for _, v := range mountVariants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel() // one of them waits long
			w, err := v.make(t, pods*volumes)
			if err != nil {
				t.Fatal(err)
			}
			defer w.stop()
			if err := w.run(t.Context(), mountPods(pods, volumes)); err != nil {
				t.Fatal(err)
			}
			switch w := w.(type) {
			case *ourMounting:
				staged, published := 0, 0
				for _, r := range w.host.Log().Records() {
					switch {
					case strings.HasPrefix(r.Action.Verb, "NodeStageVolume"):
						staged++
					case strings.HasPrefix(r.Action.Verb, "NodePublishVolume"):
						published++
					}
				}
				if staged != pods*volumes || published != pods*volumes {
					t.Errorf("%d volumes staged, %d published, want %d", staged, published, pods*volumes)
				}
			case *upstreamMounting:
				for _, pod := range mountPods(pods, volumes) {
					if mounted := w.manager.GetMountedVolumesForPod(volumetypes.UniquePodName(pod.UID)); len(mounted) != volumes {
						t.Errorf("%s: %d volumes mounted, want %d", pod.Name, len(mounted), volumes)
					}
				}
			}
		})
	}
}
