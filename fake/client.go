package fake

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applystoragev1 "k8s.io/client-go/applyconfigurations/storage/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	typedstoragev1 "k8s.io/client-go/kubernetes/typed/storage/v1"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/trace"
)

// Clientset is a typed client of the server that makes its requests through a sim.Caller: every request is one Call.
// What it hands out is the caller's own; what it is given it does not keep. A request whose context is done has no
// effect and returns the context's error. Groups and kinds the server does not have answer 404 "the server could not
// find the requested resource". Its methods may be called concurrently as far as the Caller's may.
type Clientset struct {
	kubernetes.Interface // refuses; for the groups that the server does not have

	server *Server
	caller sim.Caller
}

var _ kubernetes.Interface = (*Clientset)(nil)

// Client returns a client that makes its requests through caller.
func (s *Server) Client(caller sim.Caller) *Clientset {
	return &Clientset{Interface: refusing(), server: s, caller: caller}
}

// CoreV1 returns the client of the core group.
func (c *Clientset) CoreV1() typedcorev1.CoreV1Interface {
	return coreV1{CoreV1Interface: c.Interface.CoreV1(), c: c}
}

// StorageV1 returns the client of the group storage.k8s.io.
func (c *Clientset) StorageV1() typedstoragev1.StorageV1Interface {
	return storageV1{StorageV1Interface: c.Interface.StorageV1(), c: c}
}

// request names a request in the trace.
type request struct {
	verb   string
	object string // resource[/namespace][/name]
}

func name(k *kind, namespace, name string) string {
	s := k.resource
	if namespace != "" {
		s += "/" + namespace
	}
	if name != "" {
		s += "/" + name
	}
	return s
}

// call makes a request: effect does it, and tells of it. One whose context has ended fails without effect; it is a call
// all the same, so that a strand whose host was closed is unwound here and does not see the error.
func (c *Clientset) call(ctx context.Context, r request, effect func() trace.Outcome) error {
	out := c.caller.Call(trace.Action{Kind: trace.KindAPI, Verb: r.verb, Object: r.object}, func() trace.Outcome {
		if err := ctx.Err(); err != nil {
			return trace.Outcome{Err: err}
		}
		return effect()
	})
	return out.Err
}

// write makes a request that writes, and returns the object of the answer, which is read-only.
func (c *Clientset) write(ctx context.Context, r request, effect func() (written, error)) (Object, error) {
	var done written
	err := c.call(ctx, r, func() trace.Outcome {
		var err error
		if done, err = effect(); err != nil {
			return trace.Outcome{Err: err}
		}
		return done.outcome()
	})
	return done.object, err
}

func (w written) outcome() trace.Outcome {
	out := trace.Outcome{Gone: w.gone}
	if rv := w.object.GetResourceVersion(); rv != "" {
		out.Detail = "rv=" + rv
	}
	if w.after != nil {
		out.Detail = "rv=" + w.after.GetResourceVersion()
		out.After = w.after
	}
	if w.before != nil {
		out.Before = w.before
	}
	return out
}

// coreV1 is the client of the core group. The embedded one refuses.
type coreV1 struct {
	typedcorev1.CoreV1Interface
	c *Clientset
}

func (g coreV1) Namespaces() typedcorev1.NamespaceInterface {
	return namespaces{of[*corev1.Namespace, *corev1.NamespaceList, *applycorev1.NamespaceApplyConfiguration](g.c,
		"namespaces", "")}
}

func (g coreV1) Nodes() typedcorev1.NodeInterface {
	return nodes{of[*corev1.Node, *corev1.NodeList, *applycorev1.NodeApplyConfiguration](g.c, "nodes", "")}
}

func (g coreV1) Pods(namespace string) typedcorev1.PodInterface {
	return pods{of[*corev1.Pod, *corev1.PodList, *applycorev1.PodApplyConfiguration](g.c, "pods", namespace)}
}

func (g coreV1) PersistentVolumes() typedcorev1.PersistentVolumeInterface {
	return of[*corev1.PersistentVolume, *corev1.PersistentVolumeList, *applycorev1.PersistentVolumeApplyConfiguration](
		g.c, "persistentvolumes", "")
}

func (g coreV1) PersistentVolumeClaims(namespace string) typedcorev1.PersistentVolumeClaimInterface {
	return of[*corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaimList,
		*applycorev1.PersistentVolumeClaimApplyConfiguration](
		g.c, "persistentvolumeclaims", namespace)
}

func (g coreV1) Events(namespace string) typedcorev1.EventInterface {
	return events{of[*corev1.Event, *corev1.EventList, *applycorev1.EventApplyConfiguration](g.c, "events", namespace)}
}

// storageV1 is the client of the group storage.k8s.io. The embedded one refuses.
type storageV1 struct {
	typedstoragev1.StorageV1Interface
	c *Clientset
}

func (g storageV1) StorageClasses() typedstoragev1.StorageClassInterface {
	return of[*storagev1.StorageClass, *storagev1.StorageClassList, *applystoragev1.StorageClassApplyConfiguration](
		g.c, "storageclasses", "")
}

func (g storageV1) VolumeAttachments() typedstoragev1.VolumeAttachmentInterface {
	return of[*storagev1.VolumeAttachment, *storagev1.VolumeAttachmentList, *applystoragev1.VolumeAttachmentApplyConfiguration](
		g.c, "volumeattachments", "")
}

func (g storageV1) CSIDrivers() typedstoragev1.CSIDriverInterface {
	return of[*storagev1.CSIDriver, *storagev1.CSIDriverList, *applystoragev1.CSIDriverApplyConfiguration](g.c,
		"csidrivers", "")
}

func (g storageV1) CSINodes() typedstoragev1.CSINodeInterface {
	return of[*storagev1.CSINode, *storagev1.CSINodeList, *applystoragev1.CSINodeApplyConfiguration](g.c, "csinodes", "")
}
