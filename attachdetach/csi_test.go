package attachdetach_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sim"
)

// withCSI configures the CSI plugin, which creates VolumeAttachments.
func withCSI(cfg *attachdetach.Config) {
	core, storage := cfg.Informers.Core().V1(), cfg.Informers.Storage().V1()
	cfg.Plugins = &plugins.Manager{}
	err := cfg.Plugins.Register(csi.New(csi.Config{
		Process: cfg.Process, Client: cfg.Client, CSIDrivers: storage.CSIDrivers(),
		Attachments: storage.VolumeAttachments(), PersistentVolumes: core.PersistentVolumes(),
	}))
	if err != nil {
		panic(err)
	}
}

// attachers stands for the attachers of all drivers and their storage. All volumes are single-node.
// It checks the requests and the nodes' statuses against the attachments.
type attachers struct {
	w        *world
	client   kubernetes.Interface
	dirty    bool
	attached map[string]bool // "volume on node"
	calls    []string
}

func newAttachers(w *world) *attachers {
	component := w.Host.Process("attacher")
	a := &attachers{w: w, client: w.Server.Client(component), attached: map[string]bool{}}
	component.Worker("sync", func() bool { return a.dirty }, a.sync)
	w.onCommit = append(w.onCommit, func() {
		a.judge()
		a.dirty = true
		component.Wake()
	})
	return a
}

// judge checks that the nodes' statuses list only attached volumes.
func (a *attachers) judge() {
	for _, object := range a.w.Server.List("nodes") {
		node := object.(*corev1.Node)
		for _, v := range node.Status.VolumesAttached {
			_, volume, _ := plugins.SplitUniqueName(v.Name)
			if where := volume + " on " + node.Name; !a.attached[where] {
				a.w.backend.blame("I20: %s is reported and not attached", where)
			}
		}
	}
}

func (a *attachers) sync(ctx context.Context) {
	a.dirty = false
	attachments, err := a.client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range attachments.Items {
		if err := a.attachment(ctx, &attachments.Items[i]); err != nil {
			a.dirty = true
		}
	}
}

// attachment does what a VolumeAttachment requests: finalizer first, then the driver, then the
// status.
func (a *attachers) attachment(ctx context.Context, va *storagev1.VolumeAttachment) error {
	api, where := a.client.StorageV1().VolumeAttachments(), a.where(va)
	var err error
	switch deleted := va.DeletionTimestamp != nil; {
	case where == "", deleted && len(va.Finalizers) == 0:
	case deleted:
		a.call("detach", where, false)
		va.Finalizers = nil
		_, err = api.Update(ctx, va, metav1.UpdateOptions{})
	case len(va.Finalizers) == 0:
		va.Finalizers = []string{"external-attacher/" + va.Spec.Attacher}
		_, err = api.Update(ctx, va, metav1.UpdateOptions{})
	case !va.Status.Attached:
		a.call("attach", where, true)
		va.Status.Attached = true
		_, err = api.UpdateStatus(ctx, va, metav1.UpdateOptions{})
	}
	return err
}

func (a *attachers) call(verb, where string, attached bool) {
	if a.attached[where] != attached {
		a.calls = append(a.calls, fmt.Sprintf("%v %s %s", a.w.Host.Now().Sub(sim.Epoch), verb, where))
	}
	delete(a.attached, where)
	if attached {
		volume, _, _ := strings.Cut(where, " ")
		for other := range a.attached {
			if strings.HasPrefix(other, volume+" ") {
				a.w.backend.blame("I15: %s is attached, and now %s", other, where)
			}
		}
		a.attached[where] = true
	}
}

// where returns "volume on node" of a VolumeAttachment, or "" if its PersistentVolume does not
// exist.
func (a *attachers) where(va *storagev1.VolumeAttachment) string {
	spec := va.Spec.Source.InlineVolumeSpec
	if name := va.Spec.Source.PersistentVolumeName; name != nil {
		object, ok := a.w.Server.Get("persistentvolumes", "", *name)
		if !ok {
			return ""
		}
		spec = inTree(&object.(*corev1.PersistentVolume).Spec)
	}
	return csi.VolumeName(spec.CSI.Driver, spec.CSI.VolumeHandle) + " on " + va.Spec.NodeName
}

// inTree translates an EBS volume to its in-tree source, as far as an attacher needs it; other
// volumes are unchanged.
func inTree(spec *corev1.PersistentVolumeSpec) *corev1.PersistentVolumeSpec {
	if spec.AWSElasticBlockStore == nil {
		return spec
	}
	return &corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{
			Driver:       "ebs.csi.aws.com",
			VolumeHandle: spec.AWSElasticBlockStore.VolumeID,
		},
	}}
}

// has returns the attached volumes with their nodes, sorted.
func (a *attachers) has() []string { return slices.Sorted(maps.Keys(a.attached)) }

// source creates a claim and a volume with the same name, bound to each other.
func (w *world) source(name string, source corev1.PersistentVolumeSource) {
	w.Helper()
	claim := w.claim(newClaim(name, rwo))
	_, err := w.User.CoreV1().PersistentVolumes().Create(context.Background(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, Capacity: size, PersistentVolumeSource: source,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{
				Kind:      "PersistentVolumeClaim",
				Namespace: "default", Name: name, UID: claim.UID,
			},
		},
	}, metav1.CreateOptions{})
	w.NoError(err)
	w.phase(name, corev1.ClaimBound)
}

func csiSource(driver, handle string) corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}}
}

// attachments returns the names of the VolumeAttachments.
func (w *world) attachments() []string {
	var names []string
	for _, object := range w.Server.List("volumeattachments") {
		names = append(names, object.GetName())
	}
	return names
}
