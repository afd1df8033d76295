package scheddiff

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	volsim "github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/scheduler"
	"github.com/volsim/volsim/sim"
)

var ctx = context.Background()

// discard records no events.
type discard struct{}

func (discard) Event(runtime.Object, string, string, string)          {}
func (discard) Eventf(runtime.Object, string, string, string, ...any) {}
func (discard) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {
}

// A world has our scheduler.
type world struct {
	host   *sim.Stepped
	server *volsim.Server
	user   kubernetes.Interface
}

// newWorld returns a world with objects. mutate, which may be nil, breaks the scheduler.
func newWorld(objects []volsim.Object, mutate func(*scheduler.Config)) (*world, error) {
	host := sim.NewStepped(sim.SteppedConfig{StepsMax: 100_000})
	server := volsim.NewServer(volsim.Config{Now: host.Now})
	p := host.Process("scheduler")
	cfg := scheduler.Config{Process: p, Client: server.Client(p), Informers: server.Informers(p), Recorder: discard{}}
	if mutate != nil {
		mutate(&cfg)
	}
	if _, err := scheduler.New(cfg); err != nil {
		return nil, err
	}
	w := &world{host: host, server: server, user: server.Client(host.ExternalCaller())}
	var copies []runtime.Object
	for _, obj := range objects {
		copies = append(copies, obj.DeepCopyObject())
	}
	if err := server.Add(copies...); err != nil {
		return nil, err
	}
	return w, host.Run()
}

// objects returns the objects of the world.
func (w *world) objects() []runtime.Object {
	var all []runtime.Object
	for _, resource := range []string{
		"namespaces", "nodes", "csinodes", "csidrivers", "storageclasses", "csistoragecapacities", "persistentvolumes",
		"persistentvolumeclaims", "volumeattachments", "pods",
	} {
		for _, obj := range w.server.List(resource) {
			all = append(all, obj.DeepCopyObject())
		}
	}
	return all
}

// schedule creates a pod, and returns what upstream would do and what ours did.
func (w *world) schedule(pod *corev1.Pod) (want, got decision, err error) {
	pods := w.user.CoreV1().Pods(namespace)
	created, err := pods.Create(ctx, pod.DeepCopy(), metav1.CreateOptions{})
	if err != nil {
		return want, got, err
	}
	if want, err = judge(w.objects(), created); err != nil {
		return want, got, err
	}
	got, err = w.settle(pod.Name, "")
	return want, got, err
}

// settle lets our scheduler decide about a pod, and binds its claims. The pod may still have an earlier
// message.
func (w *world) settle(name, earlier string) (got decision, err error) {
	for range 10 {
		if err := w.host.Run(); err != nil {
			return got, err
		}
		if d := w.decision(name); d.message != earlier || len(d.best) > 0 {
			return d, nil
		}
		if changed, err := w.bindClaims(); err != nil || !changed {
			return w.decision(name), err
		}
	}
	return got, errors.New("claims are bound again and again")
}

// decision returns what our scheduler did with a pod.
func (w *world) decision(name string) decision {
	var d decision
	for _, obj := range w.server.List("pods") {
		p := obj.(*corev1.Pod)
		if p.DeletionTimestamp != nil {
			d.victims = append(d.victims, p.Name)
		}
		if p.Name != name {
			continue
		}
		if p.Spec.NodeName != "" {
			d.best = []string{p.Spec.NodeName}
		}
		for _, condition := range p.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				d.message = condition.Message
			}
		}
		d.nominated = p.Status.NominatedNodeName
	}
	if len(d.best) > 0 {
		return decision{best: d.best}
	}
	slices.Sort(d.victims)
	return d
}

// bindClaims binds the claims that the scheduler prepared, as the PersistentVolume controller and a
// provisioner do. It reports whether there was one.
func (w *world) bindClaims() (bound bool, err error) {
	volumes, claims := w.user.CoreV1().PersistentVolumes(), w.user.CoreV1().PersistentVolumeClaims(namespace)
	for _, obj := range w.server.List("persistentvolumeclaims") {
		claim := obj.DeepCopyObject().(*corev1.PersistentVolumeClaim)
		if claim.Spec.VolumeName != "" {
			continue
		}
		var v *corev1.PersistentVolume
		for _, other := range w.server.List("persistentvolumes") {
			if ref := other.(*corev1.PersistentVolume).Spec.ClaimRef; ref != nil && ref.Name == claim.Name && ref.UID == claim.UID {
				v = other.DeepCopyObject().(*corev1.PersistentVolume)
			}
		}
		node := claim.Annotations[volume.AnnSelectedNode]
		if v == nil && (node == "" || ptr.Deref(claim.Spec.StorageClassName, "") != "late") {
			continue
		}
		if v == nil {
			v = provisioned(claim, node)
			if v, err = volumes.Create(ctx, v, metav1.CreateOptions{}); err != nil {
				return false, err
			}
		}
		v.Status.Phase, bound = corev1.VolumeBound, true
		if _, err := volumes.UpdateStatus(ctx, v, metav1.UpdateOptions{}); err != nil {
			return false, err
		}
		claim.Spec.VolumeName = v.Name
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnBindCompleted, "yes")
		claim, err := claims.Update(ctx, claim, metav1.UpdateOptions{})
		if err != nil {
			return false, err
		}
		claim.Status.Phase = corev1.ClaimBound
		if _, err := claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return false, err
		}
	}
	return bound, nil
}

// provisioned returns a new volume of a claim.
func provisioned(claim *corev1.PersistentVolumeClaim, node string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "new-" + claim.Name}}
	v.Spec = corev1.PersistentVolumeSpec{
		Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, StorageClassName: *claim.Spec.StorageClassName,
		VolumeMode: claim.Spec.VolumeMode, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: namespace, Name: claim.Name, UID: claim.UID},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}}}},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "new-" + claim.Name}},
	}
	return v
}

// start sets the time at which a pod began to run. It decides which of several pods are preempted.
func (w *world) start(name string, at time.Duration) error {
	obj, _ := w.server.Get("pods", namespace, name)
	pod := obj.DeepCopyObject().(*corev1.Pod)
	if pod.Spec.NodeName == "" {
		return nil
	}
	pod.Status.StartTime = &metav1.Time{Time: sim.Epoch.Add(at)}
	_, err := w.user.CoreV1().Pods(namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// removeVictims ends the pods that are being deleted.
func (w *world) removeVictims(names []string) error {
	for _, name := range names {
		now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}
		if err := w.user.CoreV1().Pods(namespace).Delete(ctx, name, now); err != nil {
			return err
		}
	}
	return nil
}
