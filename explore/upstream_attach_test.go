package explore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/known"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
)

// upstreamAttachFaults are defects of upstream's attach/detach controller, as in upstreamFaults.
var upstreamAttachFaults = []upstreamFault{
	{
		file: "attached-while-uncertain", between: none,
		extra: attachDetach(uncertainIsNowhere), config: faults, within: 4,
	},
	{file: "refused-detach", between: none, extra: attachDetach(refusalIsUncertain), config: restarts, within: 100},
	{
		file: "alternating-failures", between: detachFailsOften, always: detachFailsOften,
		extra: attachDetach(failsInTurn), config: holds, within: 1,
	},
	{
		file: "handle-with-separator", between: caretHandles, always: caretHandles,
		extra: attachDetach(refusesCarets), config: holds, within: 1,
	},
	{
		file: "forced-without-reading-the-node", between: unmountFailsOften, always: unmountFailsOften,
		extra: attachDetach(forcesBlindly), config: restarts, within: 168,
	},
	{
		file: "status-compared-with-a-cache", between: none,
		extra: attachDetach(patchesDifference), config: holds, within: 150,
	},
	{
		file: "attachments-from-a-stale-list", between: none, extra: attachDetach(trustsItsList),
		config: restarts, within: 490,
	},
	{file: "volumes-one-by-one", between: none, extra: attachDetach(detachesOneByOne), config: holds, within: 775},
	{file: "attachments-with-the-same-name", between: none, extra: oneName, config: holds, within: 1},
	{
		file: "detach-missed-by-a-cache", between: firstDeleteLost, always: firstDeleteLost,
		extra: attachDetach(cacheIsProof), config: holds, within: 200,
	},
}

// gets replaces the controller's client, plugin and caches.
type gets struct {
	client kubernetes.Interface
	plugin plugins.Plugin
	caches informers.SharedInformerFactory // nil: its own
}

// attachDetach returns the attach/detach controller, or one with one behaviour of upstream's.
func attachDetach(asUpstream func(p cluster.ComponentContext, own *csi.Plugin) gets) func(bool) []cluster.Component {
	return func(as bool) []cluster.Component {
		return []cluster.Component{{Name: "attachdetach", Start: func(p cluster.ComponentContext) error {
			own := csi.New(csi.Config{
				Process: p.Process, Client: p.Client,
				CSIDrivers:        p.Informers.Storage().V1().CSIDrivers(),
				Attachments:       p.Informers.Storage().V1().VolumeAttachments(),
				PersistentVolumes: p.Informers.Core().V1().PersistentVolumes(),
			})
			g := gets{client: p.Client, plugin: own}
			if as {
				g = asUpstream(p, own)
			}
			var manager plugins.Manager
			if err := manager.Register(g.plugin); err != nil {
				return err
			}
			if g.caches == nil {
				g.caches = p.Informers
			}
			attachdetach.New(attachdetach.Config{
				Process: p.Process, Client: g.client, Informers: g.caches,
				Recorder: p.Recorder(attachdetach.EventSource), Plugins: &manager,
			})
			return nil
		}}}
	}
}

// intercepted is a process's client with an interceptor.
func intercepted(p cluster.ComponentContext, mutate fake.InterceptorFunc) kubernetes.Interface {
	return p.Client.(*fake.Clientset).WithInterceptor(mutate)
}

// forgetful is a plugin that reports a failed detach as done and retries it. So nothing keeps the
// volume from being attached elsewhere meanwhile.
type forgetful struct {
	*csi.Plugin
	p      cluster.ComponentContext
	refuse func(volume string, node types.NodeName) bool // whether upstream refuses the detach after reading the node; nil for never
}

// Detach never fails.
func (f forgetful) Detach(ctx context.Context, volume string, node types.NodeName) error {
	if f.detach(ctx, volume, node) == nil {
		return nil
	}
	f.p.Process.Spawn("volume_detach again", func(ctx context.Context) {
		for wait := 500 * time.Millisecond; ; wait *= 2 {
			f.p.Process.Sleep(wait)
			if f.detach(ctx, volume, node) == nil {
				return
			}
		}
	})
	return nil
}

func (f forgetful) detach(ctx context.Context, volume string, node types.NodeName) error {
	if f.refuse != nil && f.refuse(volume, node) {
		return errors.New("the node uses it")
	}
	return f.Plugin.Detach(ctx, volume, node)
}

// uncertainIsNowhere is a controller that treats a volume as detached everywhere after a failed
// detach.
//
// Upstream: pkg/controller/volume/attachdetach/cache GetNodesForAttachedVolume (v1.36).
func uncertainIsNowhere(p cluster.ComponentContext, own *csi.Plugin) gets {
	return gets{client: p.Client, plugin: forgetful{Plugin: own, p: p}}
}

// refusalIsUncertain is a controller that treats a volume as detached everywhere if its node
// reports it in use before a detach.
//
// Upstream: pkg/volume/util/operationexecutor GenerateDetachVolumeFunc (v1.36).
func refusalIsUncertain(p cluster.ComponentContext, own *csi.Plugin) gets {
	looks := func(volume string, node types.NodeName) bool {
		is, err := p.Client.CoreV1().Nodes().Get(context.Background(), string(node), metav1.GetOptions{})
		return err == nil && slices.Contains(is.Status.VolumesInUse, plugins.UniqueVolumeName(csi.PluginName, volume))
	}
	return gets{
		client: intercepted(p, func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			obj, err := serve()
			if err != nil || !asks(r, "get", "nodes") {
				return obj, err
			}
			node := obj.DeepCopyObject().(*corev1.Node) // the plugin reads it
			node.Status.VolumesInUse = nil
			return node, nil
		}),
		plugin: forgetful{Plugin: own, p: p, refuse: looks},
	}
}

// inTurn is a forgetful plugin that attaches and detaches alternately, at the period of upstream's
// loop. There each of the two resets the back-off of the other.
type inTurn struct {
	*csi.Plugin
	p    cluster.ComponentContext
	left map[string]types.NodeName // nodes from which detaching a volume failed
}

// loopPeriod is upstream's period.
//
// Upstream: pkg/controller/volume/attachdetach DefaultTimerConfig (v1.36).
const loopPeriod = 100 * time.Millisecond

// Detach never fails.
func (i inTurn) Detach(ctx context.Context, volume string, node types.NodeName) error {
	if i.Plugin.Detach(ctx, volume, node) != nil {
		i.left[volume] = node
	}
	return nil
}

// Attach attaches and detaches alternately.
func (i inTurn) Attach(ctx context.Context, spec *plugins.Spec, node types.NodeName) (string, error) {
	volume, err := i.VolumeName(spec)
	if err != nil {
		return "", err
	}
	for {
		path, err := i.Plugin.Attach(ctx, spec, node)
		if _, is := i.left[volume]; err == nil || !is {
			return path, err
		}
		i.p.Process.Sleep(loopPeriod)
		done := false
		i.p.Process.Spawn("volume_detach "+volume, func(ctx context.Context) {
			if i.Plugin.Detach(ctx, volume, i.left[volume]) == nil {
				delete(i.left, volume)
			}
			done = true
		})
		i.p.Process.Wait("the other's turn", 0, func() bool { return done })
		i.p.Process.Sleep(loopPeriod)
	}
}

// failsInTurn is a controller whose failed attaches and detaches of a volume reset each other's
// back-off.
//
// Upstream: pkg/volume/util/nestedpendingoperations Run (v1.36).
func failsInTurn(p cluster.ComponentContext, own *csi.Plugin) gets {
	return gets{client: p.Client, plugin: inTurn{own, p, map[string]types.NodeName{}}}
}

// detachFailsOften is a driver that fails to detach several times.
func detachFailsOften() cluster.Interceptors {
	return driver("attacher", func() invoking {
		left := 5
		return func(ctx context.Context, method string, args, reply any, do invoke) error {
			if method == csispec.Controller_ControllerUnpublishVolume_FullMethodName && left > 0 {
				left--
				return status.Error(codes.Internal, "unavailable")
			}
			return do(ctx, method, args, reply)
		}
	})()
}

// unmountFailsOften is a driver that fails to unmount for some time.
func unmountFailsOften() cluster.Interceptors {
	return driver("kubelet", func() invoking {
		left := 10
		return func(ctx context.Context, method string, args, reply any, do invoke) error {
			if method == csispec.Node_NodeUnpublishVolume_FullMethodName && left > 0 {
				left--
				return status.Error(codes.Internal, "unavailable")
			}
			return do(ctx, method, args, reply)
		}
	})()
}

// firstDeleteLost loses the answer to the first deletion of an attachment.
func firstDeleteLost() cluster.Interceptors {
	return client("attachdetach", func(*fake.Clientset) fake.InterceptorFunc {
		lost := false
		return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			obj, err := serve()
			if err == nil && !lost && asks(r, "delete", "volumeattachments") {
				lost = true
				return nil, errors.New("the connection broke")
			}
			return obj, err
		}
	})()
}

// caretHandles is a driver with handles that contain the separator of driver and handle.
func caretHandles() cluster.Interceptors {
	rename := func(m protoreflect.Message, from, to string) {
		if field := m.Descriptor().Fields().ByName("volume_id"); field != nil {
			m.Set(field, protoreflect.ValueOfString(strings.Replace(m.Get(field).String(), from, to, 1)))
		}
	}
	return cluster.Interceptors{Driver: func(_ string, conn grpc.ClientConnInterface) grpc.ClientConnInterface {
		return known.Conn(conn, func(ctx context.Context, method string, args, reply any, do invoke) error {
			request := proto.Clone(args.(proto.Message))
			rename(request.ProtoReflect(), "vol^", "vol-")
			err := do(ctx, method, request, reply)
			if made, is := reply.(*csispec.CreateVolumeResponse); is && err == nil {
				rename(made.Volume.ProtoReflect(), "vol-", "vol^")
			}
			return err
		})
	}}
}

// splitting is a plugin that splits a volume's name at each separator.
type splitting struct{ *csi.Plugin }

// Detach refuses a handle that contains the separator.
func (s splitting) Detach(ctx context.Context, volume string, node types.NodeName) error {
	if strings.Count(volume, "^") != 1 {
		return errors.New("volume name has more than two parts")
	}
	return s.Plugin.Detach(ctx, volume, node)
}

// refusesCarets is a controller that cannot detach volumes with the separator in their handles.
//
// Upstream: pkg/volume/csi csiAttacher.Detach (v1.36).
func refusesCarets(p cluster.ComponentContext, own *csi.Plugin) gets {
	return gets{client: p.Client, plugin: splitting{own}}
}

// forcesBlindly is a controller that does not read the node before a forced detach.
//
// Upstream: pkg/volume/util/operationexecutor GenerateDetachVolumeFunc (v1.36).
func forcesBlindly(p cluster.ComponentContext, own *csi.Plugin) gets {
	nodes := p.Informers.Core().V1().Nodes().Lister()
	return gets{client: intercepted(p, func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if asks(r, "get", "nodes") {
			// The cache shows the volume in use, so this detach is forced.
			if cached, err := nodes.Get(r.Name); err == nil && len(cached.Status.VolumesInUse) > 0 {
				return cached, nil
			}
		}
		return serve()
	}), plugin: own}
}

// patchesDifference is a controller that patches the difference between the attached volumes and
// the list in its cache.
//
// Upstream: pkg/controller/volume/attachdetach/statusupdater updateNodeStatus (v1.36).
func patchesDifference(p cluster.ComponentContext, own *csi.Plugin) gets {
	nodes := p.Informers.Core().V1().Nodes().Lister()
	return gets{client: intercepted(p, func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if is, any := lists(r); is {
			cached, err := nodes.Get(r.Name)
			if err == nil && any == (len(cached.Status.VolumesAttached) > 0) { // one volume, in this world
				return cached, nil
			}
		}
		return serve()
	}), plugin: own}
}

// trustsItsList is a controller that starts from the VolumeAttachments in its cache.
//
// Upstream: pkg/controller/volume/attachdetach processVolumeAttachments (v1.36).
func trustsItsList(p cluster.ComponentContext, own *csi.Plugin) gets {
	attachments := p.Informers.Storage().V1().VolumeAttachments().Lister()
	return gets{client: intercepted(p, func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if !asks(r, "list", "volumeattachments") {
			return serve()
		}
		cached, err := attachments.List(labels.Everything())
		list := &storagev1.VolumeAttachmentList{}
		for _, a := range cached { // in any order: one is enough
			list.Items = append(list.Items, *a)
		}
		return list, err
	}), plugin: own}
}

// cachedVerify is a plugin that verifies attachments with its cache.
type cachedVerify struct{ *csi.Plugin }

// Verify returns the state in the cache.
func (c cachedVerify) Verify(
	_ context.Context, _ *plugins.Spec, volume string, node types.NodeName,
) (plugins.AttachState, error) {
	return c.LastSeen(volume, node), nil
}

// cacheIsProof is a controller that does not verify the success of an operation.
//
// Upstream: pkg/volume/csi csiAttacher.Attach, csiAttacher.Detach (v1.36).
func cacheIsProof(p cluster.ComponentContext, own *csi.Plugin) gets {
	return gets{client: p.Client, plugin: cachedVerify{own}}
}

// detachesOneByOne is a controller that cannot resolve the volumes of a deleted pod whose claims
// are deleted, too. Once a minute it looks for deleted pods and drops one volume of each.
//
// Upstream: pkg/controller/volume/attachdetach/cache GetPodToAdd (v1.36), and attachdetach
// podDelete.
func detachesOneByOne(p cluster.ComponentContext, own *csi.Plugin) gets {
	return gets{client: p.Client, plugin: own, caches: oneByOne{p.Informers, p}}
}

// oneByOne are caches that deliver the deletion of a pod in steps if its claims are deleted: one
// volume less each minute.
type (
	oneByOne struct {
		informers.SharedInformerFactory
		p cluster.ComponentContext
	}
	oneByOneInformer struct {
		cache.SharedIndexInformer
		oneByOne
	}
)

func (o oneByOne) Core() coreinformers.Interface { return coreinformers.New(o, "", nil) }

func (o oneByOne) InformerFor(
	obj runtime.Object, newFunc internalinterfaces.NewInformerFunc,
) cache.SharedIndexInformer {
	informer := o.SharedInformerFactory.InformerFor(obj, newFunc)
	if _, ok := obj.(*corev1.Pod); ok {
		return oneByOneInformer{informer, o}
	}
	return informer
}

// AddEventHandler delivers a deletion to a handler in steps.
func (i oneByOneInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { h.OnAdd(obj, false) }, UpdateFunc: h.OnUpdate,
		DeleteFunc: func(obj any) {
			if pod, is := obj.(*corev1.Pod); is {
				i.lessen(pod, slices.DeleteFunc(slices.Clone(pod.Spec.Volumes), i.resolves(pod)), h)
				return
			}
			h.OnDelete(obj)
		},
	})
}

// resolves reports whether the claim of a volume exists.
func (o oneByOne) resolves(pod *corev1.Pod) func(corev1.Volume) bool {
	claims := o.p.Informers.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims(pod.Namespace)
	return func(v corev1.Volume) bool {
		_, err := claims.Get(v.PersistentVolumeClaim.ClaimName)
		return err == nil
	}
}

// lessen delivers a pod with these volumes, and then with one less each minute.
func (o oneByOne) lessen(pod *corev1.Pod, left []corev1.Volume, h cache.ResourceEventHandler) {
	if len(left) == 0 {
		h.OnDelete(pod)
		return
	}
	less := pod.DeepCopy()
	less.Spec.Volumes = left
	h.OnUpdate(pod, less)
	o.p.Process.NewTimer("populator", func() { o.lessen(less, left[1:], h) }).Reset(time.Minute)
}

// oneName is a world of one node, an attacher, the attach/detach controller, and two claims. Their
// volumes belong to two drivers, and their attachments to the node have the same name.
func oneName(asUpstream bool) []cluster.Component {
	world := cluster.Component{
		Name: "sidecars",
		Install: func(server *fake.Server) error {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name:        "node-1",
				Annotations: map[string]string{attachdetach.ManagedAnnotation: "true"},
			}}
			objects := []runtime.Object{node}
			for _, of := range []struct{ name, driver, handle string }{
				{"data", "23.example.com", "1"},
				{"more", "3.example.com", "12"},
			} {
				pair := boundPair(of.name)
				pair[0].(*corev1.PersistentVolume).Spec.CSI = &corev1.CSIPersistentVolumeSource{
					Driver:       of.driver,
					VolumeHandle: of.handle,
				}
				objects = append(objects, pair...)
			}
			return server.Add(objects...)
		},
	}
	world.Start = cluster.Reconciler(cluster.ReconcilerConfig{
		Name: world.Name, For: "volumeattachments",
		Build: func(p cluster.ComponentContext) (cluster.Reconcile, error) {
			return func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
				attachments := p.Client.StorageV1().VolumeAttachments()
				a, err := attachments.Get(ctx, key.Name, metav1.GetOptions{})
				if err != nil || a.Status.Attached {
					return 0, nil //nolint:nilerr // it is gone
				}
				a = a.DeepCopy()
				a.Status.Attached = true
				_, err = attachments.UpdateStatus(ctx, a, metav1.UpdateOptions{})
				return 0, err
			}, nil
		},
	}).Start
	return append([]cluster.Component{world}, attachDetach(trustsNames)(asUpstream)...)
}

// nominal is a plugin that identifies an attachment by its name alone.
type nominal struct{ *csi.Plugin }

// Attach reports a volume as attached if another volume's attachment has its name.
func (n nominal) Attach(ctx context.Context, spec *plugins.Spec, node types.NodeName) (string, error) {
	path, err := n.Plugin.Attach(ctx, spec, node)
	if errors.Is(err, csi.ErrForeignAttachment) {
		return "", nil
	}
	return path, err
}

// trustsNames is a controller that checks only the names of attachments.
//
// Upstream: pkg/volume/csi csiAttacher.Attach (v1.36).
func trustsNames(p cluster.ComponentContext, own *csi.Plugin) gets {
	return gets{client: p.Client, plugin: nominal{own}}
}
