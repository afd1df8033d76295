package restorediff

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

type (
	act     = controllers.Act[*world]
	step    = controllers.Step[*world]
	restart = controllers.Restart[*world]
)

// The kinds of sources of claims.
const (
	fromNothing  = "nothing"
	fromSnapshot = "a snapshot"
	fromClaim    = "a claim"
)

const (
	sourceClaim  = "data" // the claim of which others are made
	snapshotName = "snap"
	contentName  = "content"
)

// createClaim creates a claim.
type createClaim struct {
	name, from, size, class string
	block                   bool
}

func (c createClaim) String() string {
	return fmt.Sprintf("create claim %s from %s, %s, class %q, block %v", c.name, c.from, c.size, c.class, c.block)
}

func (c createClaim) Do(w *world) error {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: c.name}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.StorageClassName = &c.class
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(c.size)}
	switch c.from {
	case fromSnapshot:
		claim.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: ptr.To(snapshotapi.Group), Kind: "VolumeSnapshot", Name: snapshotName}
	case fromClaim:
		claim.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: sourceClaim}
	}
	if c.block {
		claim.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	}
	claims := w.Client.CoreV1().PersistentVolumeClaims(namespace)
	claim, err := claims.Create(ctx, claim, metav1.CreateOptions{})
	if err != nil {
		return controllers.IgnoreMissing(err)
	}
	claim = claim.DeepCopy()
	claim.Status.Phase = corev1.ClaimPending
	if claim, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
		return err
	}
	claim = claim.DeepCopy()
	claim.Annotations = map[string]string{"volume.kubernetes.io/storage-provisioner": driverName, "volume.beta.kubernetes.io/storage-provisioner": driverName}
	_, err = claims.Update(ctx, claim, metav1.UpdateOptions{})
	return err
}

// createSource creates the source claim, which may be bound to an existing volume.
type createSource struct {
	driver, size, class string
	block, bound        bool
}

func (c createSource) String() string {
	return fmt.Sprintf("create the source claim of driver %s, %s, class %s, block %v, bound %v", c.driver, c.size, c.class, c.block, c.bound)
}

func (c createSource) Do(w *world) error {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: sourceClaim}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.StorageClassName = &c.class
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(c.size)}
	mode := corev1.PersistentVolumeFilesystem
	if c.block {
		mode = corev1.PersistentVolumeBlock
	}
	claim.Spec.VolumeMode = &mode
	claim, err := w.Client.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, claim, metav1.CreateOptions{})
	if err != nil {
		return controllers.IgnoreMissing(err)
	}
	if !c.bound {
		return nil
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume-" + string(claim.UID)}}
	volume.Spec = corev1.PersistentVolumeSpec{
		AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests, StorageClassName: c.class, VolumeMode: &mode,
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		ClaimRef:                      &corev1.ObjectReference{Namespace: namespace, Name: claim.Name, UID: claim.UID},
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: c.driver, VolumeHandle: "source-" + string(claim.UID)},
		},
	}
	if _, err := w.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil {
		return err
	}
	return w.bindClaim(claim.DeepCopy(), volume.Name)
}

type deleteClaim struct{ name string }

func (d deleteClaim) String() string { return "delete claim " + d.name }

func (d deleteClaim) Do(w *world) error {
	return controllers.IgnoreMissing(w.Client.CoreV1().PersistentVolumeClaims(namespace).Delete(ctx, d.name, metav1.DeleteOptions{}))
}

// createSnapshot creates the snapshot, and its content.
type createSnapshot struct {
	driver, size, mode    string // size "": unknown; mode "": unknown
	ready, bound, content bool   // it is ready to use, its status names its content, its content exists
	isMisbound            bool   // the content is that of another snapshot
}

func (c createSnapshot) String() string {
	return fmt.Sprintf("create the snapshot: driver %s, size %s, mode %q, ready %v, bound %v, content %v, misbound %v",
		c.driver, c.size, c.mode, c.ready, c.bound, c.content, c.isMisbound)
}

func (c createSnapshot) Do(w *world) error {
	snapshots, contents := snapshotapi.Snapshots.Client(w.dynamic), snapshotapi.Contents.Client(w.dynamic)
	s := &snapshotapi.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: snapshotName}}
	s.Spec.Source.PersistentVolumeClaimName, s.Spec.VolumeSnapshotClassName = ptr.To("any"), ptr.To("gold")
	s, err := snapshots.Create(ctx, s)
	if err != nil {
		return controllers.IgnoreMissing(err)
	}
	name := contentName + "-" + string(s.UID)
	s.Status = &snapshotapi.SnapshotStatus{ReadyToUse: &c.ready}
	if c.bound {
		s.Status.BoundVolumeSnapshotContentName = &name
	}
	if c.size != "" {
		s.Status.RestoreSize = ptr.To(resource.MustParse(c.size))
	}
	if _, err := snapshots.UpdateStatus(ctx, s); err != nil || !c.content {
		return err
	}
	content := &snapshotapi.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: name}}
	content.Spec = snapshotapi.ContentSpec{
		VolumeSnapshotRef: corev1.ObjectReference{Namespace: namespace, Name: snapshotName, UID: s.UID},
		DeletionPolicy:    snapshotapi.Delete, Driver: c.driver, Source: snapshotapi.ContentSource{VolumeHandle: ptr.To("source")},
		VolumeSnapshotClassName: ptr.To("gold"),
	}
	if c.isMisbound {
		content.Spec.VolumeSnapshotRef.UID = types.UID("another")
	}
	if c.mode != "" {
		content.Spec.SourceVolumeMode = ptr.To(corev1.PersistentVolumeMode(c.mode))
	}
	if content, err = contents.Create(ctx, content); err != nil {
		return err
	}
	content.Status = &snapshotapi.ContentStatus{SnapshotHandle: ptr.To("taken"), ReadyToUse: &c.ready}
	_, err = contents.UpdateStatus(ctx, content)
	return err
}

// setReady makes the snapshot ready to use, or not.
type setReady struct{ ready bool }

func (s setReady) String() string { return fmt.Sprintf("the snapshot is ready: %v", s.ready) }

func (s setReady) Do(w *world) error {
	_, err := snapshotapi.Snapshots.Client(w.dynamic).Patch(ctx, namespace, snapshotName, types.MergePatchType,
		fmt.Appendf(nil, `{"status":{"readyToUse":%v}}`, s.ready), "status")
	return controllers.IgnoreMissing(err)
}

// allowConversion annotates the content of the snapshot.
type allowConversion struct{ value string }

func (a allowConversion) String() string { return "allow another volume mode: " + a.value }

func (a allowConversion) Do(w *world) error {
	for _, obj := range w.Server.List(snapshotapi.Contents.CommitName()) {
		_, err := snapshotapi.Contents.Client(w.dynamic).Patch(ctx, "", obj.GetName(), types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":{"snapshot.storage.kubernetes.io/allow-volume-mode-change":%q}}}`, a.value))
		if err := controllers.IgnoreMissing(err); err != nil {
			return err
		}
	}
	return nil
}

// deleteSnapshot deletes the snapshot with its contents.
type deleteSnapshot struct{}

func (deleteSnapshot) String() string { return "delete the snapshot" }

func (deleteSnapshot) Do(w *world) error {
	for _, obj := range w.Server.List(snapshotapi.Contents.CommitName()) {
		if err := snapshotapi.Contents.Client(w.dynamic).Delete(ctx, "", obj.GetName(), metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return controllers.IgnoreMissing(snapshotapi.Snapshots.Client(w.dynamic).Delete(ctx, namespace, snapshotName, metav1.DeleteOptions{}))
}

// setDriver changes the outcome of a kind of call.
type setDriver struct{ call, outcome string }

func (s setDriver) String() string {
	return fmt.Sprintf("the driver answers %q to %s", s.outcome, s.call)
}

func (s setDriver) Do(w *world) error {
	return newDriver(w.Client).Set(ctx, s.call, s.outcome)
}
