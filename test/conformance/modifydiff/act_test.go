package modifydiff

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

type (
	act     = controllers.Act[*world]
	step    = controllers.Step[*world]
	restart = controllers.Restart[*world]
)

// createClaim creates a claim and its volume, which has no class yet. A foreign volume is one of another
// driver.
type createClaim struct {
	name, class        string
	foreign, hasSecret bool
}

func (c createClaim) String() string {
	return fmt.Sprintf("create claim %s, class %q, another driver %v, secret %v", c.name, c.class, c.foreign, c.hasSecret)
}

const secretName = "key"

func (c createClaim) Do(w *world) error {
	claims := w.Client.CoreV1().PersistentVolumeClaims(namespace)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: c.name}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.StorageClassName = ptr.To("disks")
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	if c.class != "" {
		claim.Spec.VolumeAttributesClassName = &c.class
	}
	claim, err := claims.Create(ctx, claim, metav1.CreateOptions{})
	if err != nil {
		return controllers.IgnoreMissing(err)
	}
	claim = claim.DeepCopy()
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume-" + string(claim.UID)}}
	volume.Spec = corev1.PersistentVolumeSpec{
		AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests, StorageClassName: "disks",
		ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: claim.Name, UID: claim.UID},
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: "handle-" + string(claim.UID)},
		},
	}
	if c.foreign {
		volume.Spec.CSI.Driver = "other.example.com"
	}
	if c.hasSecret {
		volume.Annotations = map[string]string{
			"volume.kubernetes.io/controller-modify-secret-name":      secretName,
			"volume.kubernetes.io/controller-modify-secret-namespace": namespace,
		}
	}
	if _, err := w.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil {
		return err
	}
	claim.Spec.VolumeName = volume.Name
	if claim, err = claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
		return err
	}
	claim = claim.DeepCopy()
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests
	_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

type deleteClaim struct{ name string }

func (d deleteClaim) String() string { return "delete claim " + d.name }

func (d deleteClaim) Do(w *world) error {
	return controllers.IgnoreMissing(w.Client.CoreV1().PersistentVolumeClaims(namespace).Delete(ctx, d.name, metav1.DeleteOptions{}))
}

// request changes the class that a claim requests.
type request struct{ claim, class string }

func (r request) String() string { return fmt.Sprintf("claim %s requests class %q", r.claim, r.class) }

func (r request) Do(w *world) error {
	claim, ok := histories.Stored[*corev1.PersistentVolumeClaim](w.Server, "persistentvolumeclaims", namespace, r.claim)
	if !ok {
		return nil
	}
	claim.Spec.VolumeAttributesClassName = &r.class
	if r.class == "" {
		claim.Spec.VolumeAttributesClassName = nil
	}
	_, err := w.Client.CoreV1().PersistentVolumeClaims(namespace).Update(ctx, claim, metav1.UpdateOptions{})
	return controllers.IgnoreMissing(err)
}

// forget removes the state of a claim's modification, as an administrator may.
type forget struct{ claim string }

func (f forget) String() string { return "remove the state of the modification of claim " + f.claim }

func (f forget) Do(w *world) error {
	_, err := w.Client.CoreV1().PersistentVolumeClaims(namespace).Patch(ctx, f.claim, types.StrategicMergePatchType,
		[]byte(`{"status":{"modifyVolumeStatus":null}}`), metav1.PatchOptions{}, "status")
	return controllers.IgnoreMissing(err)
}

type createClass struct{ name, iops string }

func (c createClass) String() string { return fmt.Sprintf("create class %s of %s", c.name, c.iops) }

func (c createClass) Do(w *world) error {
	_, err := w.Client.StorageV1().VolumeAttributesClasses().Create(ctx, &storagev1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{Name: c.name}, DriverName: driverName, Parameters: map[string]string{"iops": c.iops},
	}, metav1.CreateOptions{})
	return controllers.IgnoreMissing(err)
}

type deleteClass struct{ name string }

func (d deleteClass) String() string { return "delete class " + d.name }

func (d deleteClass) Do(w *world) error {
	return controllers.IgnoreMissing(w.Client.StorageV1().VolumeAttributesClasses().Delete(ctx, d.name, metav1.DeleteOptions{}))
}

// setSecret creates the secret of volumes, or deletes it.
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

// setOutcome changes what the driver answers.
type setOutcome struct{ outcome string }

func (s setOutcome) String() string { return fmt.Sprintf("the driver answers %q", s.outcome) }

func (s setOutcome) Do(w *world) error {
	return newDriver(w.Client).Set(ctx, keyOutcome, s.outcome)
}
