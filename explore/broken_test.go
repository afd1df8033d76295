package explore_test

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/known"
	"github.com/volsim/volsim/sim"
)

// asks reports whether a request has a verb and a resource or subresource ("nodes/status").
func asks(r fake.Request, verb, resource string) bool {
	of := r.Resource.Resource
	if r.Subresource != "" {
		of += "/" + r.Subresource
	}
	return r.Verb == verb && of == resource
}

// given converts the result of a typed client to a response.
func given[T runtime.Object](obj T, err error) (runtime.Object, error) {
	if err != nil {
		return nil, err
	}
	return obj, nil
}

// lists reports whether a request writes the volumes attached to a node, and whether there are any.
func lists(r fake.Request) (is, any bool) {
	var patch corev1.Node
	if !asks(r, "patch", "nodes/status") || !strings.Contains(string(r.Patch), `"volumesAttached"`) ||
		json.Unmarshal(r.Patch, &patch) != nil {
		return false, false
	}
	return true, len(patch.Status.VolumesAttached) > 0
}

// writeStatus patches a node's status.
func writeStatus(own *fake.Clientset, node string, patch []byte) (runtime.Object, error) {
	return given(own.CoreV1().Nodes().
		Patch(context.Background(), node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"))
}

// readsOldNodes reads nodes without volumes in use.
func readsOldNodes(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		obj, err := serve()
		if err != nil || !asks(r, "get", "nodes") {
			return obj, err
		}
		node := obj.DeepCopyObject().(*corev1.Node)
		node.Status.VolumesInUse = nil
		return node, nil
	}
}

// hurries attaches the volume of a new pod's claim without checking where it is attached.
func hurries(broken bool) []cluster.Component {
	if !broken {
		return nil
	}
	return []cluster.Component{cluster.Reconciler(cluster.ReconcilerConfig{
		Name: "attachdetach-2", For: "pods",
		Build: func(p cluster.ComponentContext) (cluster.Reconcile, error) {
			return func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
				pod, err := p.Client.CoreV1().Pods(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
				if err != nil || pod.Spec.NodeName != "node-2" {
					return 0, nil //nolint:nilerr // it is gone
				}
				claim, err := p.Client.CoreV1().PersistentVolumeClaims(key.Namespace).Get(ctx, "data",
					metav1.GetOptions{})
				if err != nil {
					return 0, err
				}
				list, err := p.Client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
				if err != nil || len(list.Items) == 0 {
					return 0, err
				}
				a := list.Items[0].DeepCopy()
				a.ObjectMeta, a.Status = metav1.ObjectMeta{Name: "hurried"}, storagev1.VolumeAttachmentStatus{}
				a.Spec.NodeName, a.Spec.Source.PersistentVolumeName = "node-2", &claim.Spec.VolumeName
				_, err = p.Client.StorageV1().VolumeAttachments().Create(ctx, a, metav1.CreateOptions{})
				return 0, err
			}, nil
		},
	})}
}

// writesOldLists writes the last non-empty list once more after a detach has begun.
func writesOldLists(own *fake.Clientset) fake.InterceptorFunc {
	node, old := "", []byte(nil)
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if _, any := lists(r); any {
			node, old = r.Name, r.Patch
		}
		obj, err := serve()
		if err == nil && old != nil && asks(r, "delete", "volumeattachments") {
			if _, err := writeStatus(own, node, old); err != nil {
				return nil, err
			}
		}
		return obj, err
	}
}

// undoesLists reverts each list of attached volumes.
func undoesLists(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		obj, err := serve()
		if _, any := lists(r); err == nil && any {
			if _, err := writeStatus(own, r.Name, []byte(`{"status":{"volumesAttached":[]}}`)); err != nil {
				return nil, err
			}
		}
		return obj, err
	}
}

// namesBadly names attachments without the node.
func namesBadly(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if !asks(r, "create", "volumeattachments") {
			return serve()
		}
		a := r.Body.DeepCopyObject().(*storagev1.VolumeAttachment)
		a.Name = "csi-" + *a.Spec.Source.PersistentVolumeName
		return given(own.StorageV1().VolumeAttachments().Create(context.Background(), a, metav1.CreateOptions{}))
	}
}

// forgetsDetach treats attachments as deleted and does not delete them.
func forgetsDetach(*fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if asks(r, "delete", "volumeattachments") {
			return nil, apierrors.NewNotFound(r.Resource.GroupResource(), r.Name)
		}
		return serve()
	}
}

// reportsUse reports volumes that were once in use as in use indefinitely.
func reportsUse(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		var patch corev1.Node
		if !asks(r, "patch", "nodes/status") || json.Unmarshal(r.Patch, &patch) != nil ||
			len(patch.Status.VolumesInUse) > 0 {
			return serve()
		}
		node, err := own.CoreV1().Nodes().Get(context.Background(), r.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		node.Status.VolumesInUse = nil
		return node, nil
	}
}

// reportsNothing skips the report of volumes in use and treats it as done.
func reportsNothing(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		var patch corev1.Node
		if !asks(r, "patch", "nodes/status") || json.Unmarshal(r.Patch, &patch) != nil {
			return serve()
		}
		node, err := own.CoreV1().Nodes().Get(context.Background(), r.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		node.Status.VolumesInUse = patch.Status.VolumesInUse
		return node, nil
	}
}

// forgetsUse reports that no volume is in use when a pod runs.
func forgetsUse(own *fake.Clientset) fake.InterceptorFunc {
	node := ""
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if asks(r, "patch", "nodes/status") {
			node = r.Name
		}
		obj, err := serve()
		if err == nil && asks(r, "patch", "pods/status") {
			if _, err := writeStatus(own, node, []byte(`{"status":{"volumesInUse":[]}}`)); err != nil {
				return nil, err
			}
		}
		return obj, err
	}
}

// bindsElsewhere binds pods to node-1, whatever the scheduler's decision.
func bindsElsewhere(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if !asks(r, "create", "pods/binding") {
			return serve()
		}
		binding := r.Body.DeepCopyObject().(*corev1.Binding)
		binding.Target.Name = "node-1"
		return nil, own.CoreV1().Pods(r.Namespace).Bind(context.Background(), binding, metav1.CreateOptions{})
	}
}

// ignoresRivals binds a pod to node-1 although another pod uses its claim.
func ignoresRivals(own *fake.Clientset) fake.InterceptorFunc { return ignores(own, "ReadWriteOncePod") }

// ignoresLimits binds a pod to node-1 although its volume limit is reached.
func ignoresLimits(own *fake.Clientset) fake.InterceptorFunc { return ignores(own, "max volume count") }

// ignores binds a pod to node-1 although it is unschedulable for a reason.
func ignores(own *fake.Clientset, reason string) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if !asks(r, "patch", "pods/status") || !strings.Contains(string(r.Patch), reason) {
			return serve()
		}
		binding := &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name},
			Target:     corev1.ObjectReference{Kind: "Node", Name: "node-1"},
		}
		if err := own.CoreV1().Pods(r.Namespace).Bind(context.Background(), binding,
			metav1.CreateOptions{}); err != nil {
			return nil, err
		}
		return given(own.CoreV1().Pods(r.Namespace).Get(context.Background(), r.Name, metav1.GetOptions{}))
	}
}

// withoutPodLimit shows volumes without the restriction to one pod.
func withoutPodLimit(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		obj, err := serve()
		v, is := obj.(*corev1.PersistentVolume)
		if !is || err != nil {
			return obj, err
		}
		v = v.DeepCopy()
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		return v, nil
	}
}

// growsNothing reports an expansion without expanding the volume.
func growsNothing() invoking {
	return func(ctx context.Context, method string, args, reply any, invoke invoke) error {
		if strings.HasSuffix(method, "ExpandVolume") {
			return nil
		}
		return invoke(ctx, method, args, reply)
	}
}

// growsTwice requests twice the size from a node.
func growsTwice() invoking {
	return func(ctx context.Context, method string, args, reply any, invoke invoke) error {
		if request, is := args.(*csispec.NodeExpandVolumeRequest); is {
			request.CapacityRange.RequiredBytes *= 2
		}
		return invoke(ctx, method, args, reply)
	}
}

// shrinks writes a smaller capacity for an expanded claim.
func shrinks(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if !asks(r, "patch", "persistentvolumeclaims/status") || !strings.Contains(string(r.Patch), "capacity") {
			return serve()
		}
		patch := []byte(strings.ReplaceAll(string(r.Patch), "2Gi", "512Mi"))
		return given(own.CoreV1().PersistentVolumeClaims(r.Namespace).
			Patch(context.Background(), r.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"))
	}
}

// doubled is twice a size.
func doubled(sizes corev1.ResourceList) corev1.ResourceList {
	size := sizes[corev1.ResourceStorage]
	size.Add(size)
	return corev1.ResourceList{corev1.ResourceStorage: size}
}

// doublesClaims writes twice the capacity into the status of claims.
func doublesClaims(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if !asks(r, "update", "persistentvolumeclaims/status") {
			return serve()
		}
		claim := r.Body.DeepCopyObject().(*corev1.PersistentVolumeClaim)
		claim.Status.Capacity = doubled(claim.Status.Capacity)
		return given(own.CoreV1().PersistentVolumeClaims(r.Namespace).UpdateStatus(context.Background(),
			claim, metav1.UpdateOptions{}))
	}
}

// doublesVolumes creates volumes with twice their capacity.
func doublesVolumes(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if !asks(r, "create", "persistentvolumes") {
			return serve()
		}
		v := r.Body.DeepCopyObject().(*corev1.PersistentVolume)
		v.Spec.Capacity = doubled(v.Spec.Capacity)
		return given(own.CoreV1().PersistentVolumes().Create(context.Background(), v, metav1.CreateOptions{}))
	}
}

// writesNoVolume provisions volumes without creating their PersistentVolumes.
func writesNoVolume(*fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if asks(r, "create", "persistentvolumes") {
			return r.Body.DeepCopyObject(), nil
		}
		return serve()
	}
}

// attachesTwice is a driver that detaches nothing and attaches a volume to any number of nodes.
func attachesTwice() invoking {
	return func(ctx context.Context, method string, args, reply any, do invoke) error {
		switch r := args.(type) {
		case *csispec.ControllerUnpublishVolumeRequest:
			return nil
		case *csispec.ControllerPublishVolumeRequest:
			r = proto.CloneOf(r)
			r.VolumeCapability.AccessMode.Mode = csispec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
			return do(ctx, method, r, reply)
		}
		return do(ctx, method, args, reply)
	}
}

// detachesNothing is a driver that reports a detach without detaching.
func detachesNothing() invoking {
	return func(ctx context.Context, method string, args, reply any, do invoke) error {
		if _, is := args.(*csispec.ControllerUnpublishVolumeRequest); is {
			return nil
		}
		return do(ctx, method, args, reply)
	}
}

// unstagesFirst unstages a volume before it is unpublished.
func unstagesFirst() invoking {
	staged := map[string]string{}
	return func(ctx context.Context, method string, args, reply any, do invoke) error {
		switch r := args.(type) {
		case *csispec.NodeStageVolumeRequest:
			staged[r.VolumeId] = r.StagingTargetPath
		case *csispec.NodeUnpublishVolumeRequest:
			unstage := &csispec.NodeUnstageVolumeRequest{VolumeId: r.VolumeId, StagingTargetPath: staged[r.VolumeId]}
			if err := do(ctx, csispec.Node_NodeUnstageVolume_FullMethodName, unstage,
				&csispec.NodeUnstageVolumeResponse{}); err != nil {
				return err
			}
		}
		return do(ctx, method, args, reply)
	}
}

// stagesTwice stages a volume that is staged.
func stagesTwice() invoking {
	return func(ctx context.Context, method string, args, reply any, do invoke) error {
		if err := do(ctx, method, args, reply); err != nil || method != csispec.Node_NodeStageVolume_FullMethodName {
			return err
		}
		return do(ctx, method, args, reply)
	}
}

// mountsTheFirst always mounts the volume that was mounted first.
func mountsTheFirst() invoking {
	var first *csispec.NodePublishVolumeRequest
	return func(ctx context.Context, method string, args, reply any, do invoke) error {
		r, is := args.(*csispec.NodePublishVolumeRequest)
		if !is {
			return do(ctx, method, args, reply)
		}
		if first == nil {
			first = r
		}
		other := proto.CloneOf(first)
		other.TargetPath = r.TargetPath
		return do(ctx, method, other, reply)
	}
}

// mountsBelow mounts a volume below its target path.
func mountsBelow() invoking {
	return func(ctx context.Context, method string, args, reply any, do invoke) error {
		if r, is := args.(*csispec.NodePublishVolumeRequest); is {
			r = proto.CloneOf(r)
			r.TargetPath = path.Join(r.TargetPath, "beside")
			args = r
		}
		return do(ctx, method, args, reply)
	}
}

// mountsElsewhere mounts each volume again, at the path of a pod that does not exist.
func mountsElsewhere() invoking {
	return func(ctx context.Context, method string, args, reply any, do invoke) error {
		r, is := args.(*csispec.NodePublishVolumeRequest)
		if err := do(ctx, method, args, reply); err != nil || !is {
			return err
		}
		root, below, _ := strings.Cut(r.TargetPath, "/pods/")
		_, below, _ = strings.Cut(below, "/")
		r = proto.CloneOf(r)
		r.TargetPath = path.Join(root, "pods", "nobody", below)
		return do(ctx, method, r, reply)
	}
}

// repeats repeats a failed call immediately.
func repeats() invoking {
	return func(ctx context.Context, method string, args, reply any, do invoke) error {
		if err := do(ctx, method, args, reply); err == nil {
			return nil
		}
		return do(ctx, method, args, reply)
	}
}

// failsTwice fails each of the first stages twice and reports one failure.
func failsTwice() invoking {
	left := 3
	return func(ctx context.Context, method string, args, reply any, do invoke) error {
		r, is := args.(*csispec.NodeStageVolumeRequest)
		if !is || left == 0 {
			return do(ctx, method, args, reply)
		}
		left--
		r = proto.CloneOf(r)
		r.PublishContext = nil
		return errors.Join(do(ctx, method, r, reply), do(ctx, method, r, reply))
	}
}

// timeoutsAreFinal treats a stage that timed out as a final error.
func timeoutsAreFinal() invoking {
	return func(ctx context.Context, method string, args, reply any, do invoke) error {
		err := do(ctx, method, args, reply)
		if method == csispec.Node_NodeStageVolume_FullMethodName && status.Code(err) == codes.DeadlineExceeded {
			return status.Error(codes.Internal, "it took too long")
		}
		return err
	}
}

// failuresSucceed treats a failed mount as success.
func failuresSucceed() invoking {
	return func(ctx context.Context, method string, args, reply any, do invoke) error {
		err := do(ctx, method, args, reply)
		if method == csispec.Node_NodePublishVolume_FullMethodName {
			return nil
		}
		return err
	}
}

// panics panics.
func panics() invoking {
	return func(ctx context.Context, method string, args, reply any, do invoke) error {
		if r, is := args.(*csispec.NodePublishVolumeRequest); is {
			panic("volumemanager: nothing is known of " + r.TargetPath)
		}
		return do(ctx, method, args, reply)
	}
}

// wipes is a driver that erases volumes after a detach.
func wipes() cluster.Interceptors {
	made := map[string]*csispec.CreateVolumeRequest{} // by id
	mutate := func(ctx context.Context, method string, args, reply any, do invoke) error {
		if err := do(ctx, method, args, reply); err != nil {
			return err
		}
		switch r := args.(type) {
		case *csispec.CreateVolumeRequest:
			made[reply.(*csispec.CreateVolumeResponse).Volume.VolumeId] = r
		case *csispec.ControllerUnpublishVolumeRequest:
			erase := &csispec.DeleteVolumeRequest{VolumeId: r.VolumeId}
			return errors.Join(
				do(ctx, csispec.Controller_DeleteVolume_FullMethodName, erase, &csispec.DeleteVolumeResponse{}),
				do(ctx, csispec.Controller_CreateVolume_FullMethodName, made[r.VolumeId],
					&csispec.CreateVolumeResponse{}))
		}
		return nil
	}
	return cluster.Interceptors{Driver: func(process string, conn grpc.ClientConnInterface) grpc.ClientConnInterface {
		if slices.Contains([]string{"provisioner", "attacher"}, process) {
			return known.Conn(conn, mutate)
		}
		return conn
	}}
}

// onClaims calls a function for each changed claim.
func onClaims(p cluster.ComponentContext, f func(claim *corev1.PersistentVolumeClaim)) error {
	_, err := p.Informers.Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, is any) { f(is.(*corev1.PersistentVolumeClaim)) },
	})
	return err
}

// reconnects is a component with a cache of claims. Broken, it lists them again when one has
// changed, and gets the response of a server that lags.
func reconnects(broken bool) []cluster.Component {
	var server *fake.Server
	return []cluster.Component{{
		Name:    "mirror",
		Install: func(s *fake.Server) error { server = s; return nil },
		Start: func(p cluster.ComponentContext) error {
			const resource = "persistentvolumeclaims"
			again := false
			p.Process.Worker("reconnect", func() bool { return again }, func(context.Context) {
				again = false
				server.RemoveComponent(p.Process)
				server.DelayCache(p.Process, resource, 1)
				server.Informers(p.Process).Core().V1().PersistentVolumeClaims().Informer()
			})
			return onClaims(p, func(*corev1.PersistentVolumeClaim) { again = broken })
		},
	}}
}

// reads is a component that reads changed claims. Broken, it also reads the claim data every
// minute.
func reads(broken bool) []cluster.Component {
	return []cluster.Component{{Name: "operator", Start: func(p cluster.ComponentContext) error {
		queue := sim.NewQueue[string](p.Process, sim.QueueConfig{Name: "claims"})
		queue.Work(func(ctx context.Context, name string) error {
			_, err := p.Client.CoreV1().PersistentVolumeClaims("default").Get(ctx, name, metav1.GetOptions{})
			return err
		})
		if broken {
			var resync *sim.Timer
			resync = p.Process.NewBackgroundTimer("resync", func() {
				queue.Add("data")
				resync.Reset(time.Minute)
			})
			resync.Reset(time.Minute)
		}
		return onClaims(p, func(claim *corev1.PersistentVolumeClaim) { queue.Add(claim.Name) })
	}}}
}

// records is a component that records an API event for a changed claim. Broken, it records twenty,
// ten a second.
func records(broken bool) []cluster.Component {
	times := 1
	if broken {
		times = 20
	}
	return []cluster.Component{{Name: "operator", Start: func(p cluster.ComponentContext) error {
		recorder := p.Recorder("operator")
		var changed *corev1.PersistentVolumeClaim
		p.Process.Worker("claims", func() bool { return changed != nil }, func(context.Context) {
			claim := changed
			changed = nil
			for range times {
				p.Process.Sleep(100 * time.Millisecond)
				recorder.Event(claim, corev1.EventTypeNormal, "Seen", "it is there")
			}
		})
		return onClaims(p, func(claim *corev1.PersistentVolumeClaim) { changed = claim })
	}}}
}
