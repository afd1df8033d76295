package snapdiff

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

type (
	act     = controllers.Act[*world]
	step    = controllers.Step[*world]
	restart = controllers.Restart[*world]
)

// The kinds of volumes of claims.
const (
	own     = "a volume of the driver"
	block   = "a block volume of the driver"
	foreign = "a volume of another driver"
	local   = "a volume of no driver"
	absent  = "a volume that does not exist"
	unbound = "no volume"
)

// createClaim creates a claim that is bound to a volume, or not.
type createClaim struct {
	name, volume string
	restores     string // name of a snapshot, "" for none
}

func (c createClaim) String() string {
	if c.restores != "" {
		return fmt.Sprintf("create claim %s that restores %s, with %s", c.name, c.restores, c.volume)
	}
	return fmt.Sprintf("create claim %s with %s", c.name, c.volume)
}

func (c createClaim) Do(w *world) error {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: c.name}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	if c.restores != "" {
		claim.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: ptr.To(snapshotapi.Group), Kind: "VolumeSnapshot", Name: c.restores}
	}
	if _, err := w.Client.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		return controllers.IgnoreMissing(err)
	}
	return bind{c.name, c.volume}.Do(w)
}

// bind binds a claim to a volume, which it creates if need be.
type bind struct{ name, volume string }

func (b bind) String() string { return fmt.Sprintf("bind claim %s to %s", b.name, b.volume) }

func (b bind) Do(w *world) error {
	claim, ok := histories.Stored[*corev1.PersistentVolumeClaim](w.Server, "persistentvolumeclaims", namespace, b.name)
	if !ok || claim.Spec.VolumeName != "" || b.volume == unbound {
		return nil
	}
	claim.Spec.VolumeName = "volume-" + string(claim.UID)
	if err := b.createVolume(w, claim); err != nil {
		return err
	}
	claims := w.Client.CoreV1().PersistentVolumeClaims(namespace)
	claim, err := claims.Update(ctx, claim, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	claim = claim.DeepCopy()
	claim.Status.Phase = corev1.ClaimBound
	_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

// createVolume creates the volume of a claim.
func (b bind) createVolume(w *world, claim *corev1.PersistentVolumeClaim) error {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
	volume.Spec.AccessModes, volume.Spec.Capacity = claim.Spec.AccessModes, claim.Spec.Resources.Requests
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: claim.Name, UID: claim.UID}
	source := &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: "handle-" + string(claim.UID)}
	volume.Spec.CSI = source
	switch b.volume {
	case absent:
		return nil
	case block:
		volume.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	case foreign:
		source.Driver = otherDriver
	case local:
		volume.Spec.CSI, volume.Spec.HostPath = nil, &corev1.HostPathVolumeSource{Path: "/tmp"}
	}
	_, err := w.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	return err
}

type deleteClaim struct{ name string }

func (d deleteClaim) String() string { return "delete claim " + d.name }

func (d deleteClaim) Do(w *world) error {
	return controllers.IgnoreMissing(w.Client.CoreV1().PersistentVolumeClaims(namespace).Delete(ctx, d.name, metav1.DeleteOptions{}))
}

// otherDriver has classes and volumes, but no sidecar.
const otherDriver = "other.example.com"

// The secrets of classes.
const (
	noSecret  = "no secret"
	oneSecret = "the secret that may exist"
	badSecret = "a secret without namespace"
)

const secretName = "key"

// createClass creates a class.
type createClass struct {
	name      string
	isDefault bool
	driver    string
	policy    snapshotapi.DeletionPolicy
	secret    string
}

func (c createClass) String() string {
	return fmt.Sprintf("create class %s of %s, default %v, policy %s, with %s", c.name, c.driver, c.isDefault, c.policy, c.secret)
}

func (c createClass) Do(w *world) error {
	class := &snapshotapi.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: c.name}, Driver: c.driver, DeletionPolicy: c.policy, Parameters: map[string]string{"kind": c.name},
	}
	if c.isDefault {
		class.Annotations = map[string]string{snapshotapi.DefaultClass: "true"}
	}
	if c.secret != noSecret {
		class.Parameters["csi.storage.k8s.io/snapshotter-secret-name"] = secretName
		class.Parameters["csi.storage.k8s.io/snapshotter-list-secret-name"] = secretName
	}
	if c.secret == oneSecret {
		class.Parameters["csi.storage.k8s.io/snapshotter-secret-namespace"] = namespace
		class.Parameters["csi.storage.k8s.io/snapshotter-list-secret-namespace"] = namespace
	}
	_, err := snapshotapi.Classes.Client(w.dynamic).Create(ctx, class)
	return controllers.IgnoreMissing(err)
}

type deleteClass struct{ name string }

func (d deleteClass) String() string { return "delete class " + d.name }

func (d deleteClass) Do(w *world) error {
	return controllers.IgnoreMissing(snapshotapi.Classes.Client(w.dynamic).Delete(ctx, "", d.name, metav1.DeleteOptions{}))
}

// setDefault makes a class a default, or not.
type setDefault struct {
	name      string
	isDefault bool
}

func (s setDefault) String() string {
	return fmt.Sprintf("set the default of class %s to %v", s.name, s.isDefault)
}

func (s setDefault) Do(w *world) error {
	return patch(w, snapshotapi.Classes, "", s.name, fmt.Sprintf(`{"metadata":{"annotations":{%q:"%v"}}}`, snapshotapi.DefaultClass, s.isDefault))
}

// setSecret creates the secret of classes, or deletes it.
type setSecret struct{ exists bool }

func (s setSecret) String() string { return fmt.Sprintf("the secret exists: %v", s.exists) }

func (s setSecret) Do(w *world) error {
	secrets := w.Client.CoreV1().Secrets(namespace)
	if !s.exists {
		return controllers.IgnoreMissing(secrets.Delete(ctx, secretName, metav1.DeleteOptions{}))
	}
	_, err := secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretName}, Data: map[string][]byte{"user": []byte("alice")},
	}, metav1.CreateOptions{})
	return controllers.IgnoreMissing(err)
}

// createSnapshot creates a snapshot of a claim, or of a content.
type createSnapshot struct{ name, claim, content, class string }

func (c createSnapshot) String() string {
	source := "claim " + c.claim
	if c.content != "" {
		source = "content " + c.content
	}
	return fmt.Sprintf("create snapshot %s of %s, class %q", c.name, source, c.class)
}

func (c createSnapshot) Do(w *world) error {
	s := &snapshotapi.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: c.name}}
	if c.class != "" {
		s.Spec.VolumeSnapshotClassName = &c.class
	}
	if c.content != "" {
		s.Spec.Source.VolumeSnapshotContentName = &c.content
	} else {
		s.Spec.Source.PersistentVolumeClaimName = &c.claim
	}
	_, err := snapshotapi.Snapshots.Client(w.dynamic).Create(ctx, s)
	return controllers.IgnoreMissing(err)
}

type deleteSnapshot struct{ name string }

func (d deleteSnapshot) String() string { return "delete snapshot " + d.name }

func (d deleteSnapshot) Do(w *world) error {
	return controllers.IgnoreMissing(snapshotapi.Snapshots.Client(w.dynamic).Delete(ctx, namespace, d.name, metav1.DeleteOptions{}))
}

// createContent creates a content as a user does.
type createContent struct {
	name, snapshot, handle, class string
	policy                        snapshotapi.DeletionPolicy
	driver                        string
	ofVolume                      bool   // it has a volume instead of a snapshot
	uid                           string // of the snapshot
}

func (c createContent) String() string {
	return fmt.Sprintf("create content %s of snapshot %s (%s), policy %s, driver %s, handle %s, of a volume %v, class %q",
		c.name, c.snapshot, c.uid, c.policy, c.driver, c.handle, c.ofVolume, c.class)
}

func (c createContent) Do(w *world) error {
	content := &snapshotapi.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: c.name}}
	content.Spec = snapshotapi.ContentSpec{
		VolumeSnapshotRef: corev1.ObjectReference{Namespace: namespace, Name: c.snapshot, UID: types.UID(c.uid)},
		DeletionPolicy:    c.policy, Driver: c.driver, Source: snapshotapi.ContentSource{SnapshotHandle: &c.handle},
	}
	if c.ofVolume {
		content.Spec.Source = snapshotapi.ContentSource{VolumeHandle: &c.handle}
	}
	if c.class != "" {
		content.Spec.VolumeSnapshotClassName = &c.class
	}
	_, err := snapshotapi.Contents.Client(w.dynamic).Create(ctx, content)
	return controllers.IgnoreMissing(err)
}

// The edits of contents.
const (
	setDelete = "set the policy Delete"
	setRetain = "set the policy Retain"
	allowMode = "allow another volume mode"
	remove    = "delete"
	release   = "remove the finalizers"
)

// edit changes one of the contents.
type edit struct {
	number int // modulo the number of contents, by the names of their snapshots
	how    string
}

func (e edit) String() string { return fmt.Sprintf("%s of content %d", e.how, e.number) }

func (e edit) Do(w *world) error {
	all := w.contents()
	if len(all) == 0 {
		return nil
	}
	name := all[e.number%len(all)].Name
	switch e.how {
	case setDelete:
		return patch(w, snapshotapi.Contents, "", name, `{"spec":{"deletionPolicy":"Delete"}}`)
	case setRetain:
		return patch(w, snapshotapi.Contents, "", name, `{"spec":{"deletionPolicy":"Retain"}}`)
	case allowMode:
		return patch(w, snapshotapi.Contents, "", name, `{"metadata":{"annotations":{"snapshot.storage.kubernetes.io/allow-volume-mode-change":"true"}}}`)
	case release:
		return patch(w, snapshotapi.Contents, "", name, `{"metadata":{"finalizers":null}}`)
	default:
		return controllers.IgnoreMissing(snapshotapi.Contents.Client(w.dynamic).Delete(ctx, "", name, metav1.DeleteOptions{}))
	}
}

// setDriver changes the state of the driver.
type setDriver struct{ key, value string }

func (s setDriver) String() string { return fmt.Sprintf("set %s of the driver to %q", s.key, s.value) }

func (s setDriver) Do(w *world) error {
	return newDriver(w.Client).Set(ctx, s.key, s.value)
}
