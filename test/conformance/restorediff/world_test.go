package restorediff

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	_ "github.com/volsim/volsim/fake/crd" // serves the definitions
	"github.com/volsim/volsim/internal/definitions"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
	"github.com/volsim/volsim/test/conformance/histories/storeddriver"
)

const (
	driverName  = "disk.example.com"
	otherDriver = "other.example.com"
	namespace   = "default"
	className   = "disks"
	protection  = "kubernetes.io/pvc-protection"
	// identityKey is the attribute of volumes with the process that has made them.
	identityKey = "storage.kubernetes.io/csiProvisionerIdentity"
)

var ctx = context.Background()

// A world is an API server with its users: all but the controllers.
type world struct {
	*controllers.World

	dynamic dynamic.Interface // of users
}

func newWorld(base *controllers.World) *world {
	w := &world{World: base, dynamic: base.Client.(*fake.Clientset).Dynamic()}
	must(definitions.InstallText(ctx, base.Server, snapshotapi.Definitions()))
	must(newDriver(base.Client).Create(ctx, nil))
	must(base.Server.Add(&storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: className}, Provisioner: driverName, Parameters: map[string]string{"pool": "ssd"},
	}))
	base.Server.OnCommit(func(c fake.Commit) {
		if e, is := c.After.(*corev1.Event); is {
			w.Events.Add(e, fmt.Sprintf("event %s %s about %s %s: %s", e.Type, e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name,
				strings.TrimPrefix(e.Message, "(combined from similar events): ")))
		} else if c.Type == watch.Added {
			w.Events.Name(c.After.GetUID(), "%s#%d", c.Resource+"/"+c.After.GetName())
		}
	})
	return w
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// Tick binds claims to the volumes that are made for them, releases volumes, and ends deleted claims.
func (w *world) Tick() error {
	for _, obj := range w.Server.List("persistentvolumes") {
		if err := w.bind(obj.DeepCopyObject().(*corev1.PersistentVolume)); err != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("binder: %w", err)
		}
	}
	for _, obj := range w.Server.List("persistentvolumeclaims") {
		if obj.GetDeletionTimestamp() == nil || !slices.Contains(obj.GetFinalizers(), protection) {
			continue
		}
		claim := obj.DeepCopyObject().(*corev1.PersistentVolumeClaim)
		claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == protection })
		if _, err := w.Client.CoreV1().PersistentVolumeClaims(namespace).Update(ctx, claim, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("protection: %w", err)
		}
	}
	return nil
}

// bind binds a volume to its claim, or releases it.
func (w *world) bind(volume *corev1.PersistentVolume) error {
	ref := volume.Spec.ClaimRef
	claim, ok := histories.Stored[*corev1.PersistentVolumeClaim](w.Server, "persistentvolumeclaims", ref.Namespace, ref.Name)
	phase := corev1.VolumeBound
	if !ok || claim.UID != ref.UID {
		phase = corev1.VolumeReleased
	}
	if volume.Status.Phase != phase {
		volume.Status.Phase = phase
		if _, err := w.Client.CoreV1().PersistentVolumes().UpdateStatus(ctx, volume, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	if phase == corev1.VolumeReleased || claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil {
		return nil
	}
	return w.bindClaim(claim, volume.Name)
}

// bindClaim binds a claim to a volume.
func (w *world) bindClaim(claim *corev1.PersistentVolumeClaim, volume string) error {
	claim.Spec.VolumeName = volume
	claims := w.Client.CoreV1().PersistentVolumeClaims(namespace)
	claim, err := claims.Update(ctx, claim, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	claim = claim.DeepCopy()
	claim.Status.Phase = corev1.ClaimBound
	claim.Status.Capacity = claim.Spec.Resources.Requests
	_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

// metadata returns the metadata of an object as text.
func metadata(obj metav1.Object) string {
	return fmt.Sprintf("%s, deleted %v, finalizers %v, annotations %v", obj.GetUID(), obj.GetDeletionTimestamp() != nil,
		obj.GetFinalizers(), obj.GetAnnotations())
}

func describeVolume(v *corev1.PersistentVolume) string {
	attributes := maps.Clone(v.Spec.CSI.VolumeAttributes)
	delete(attributes, identityKey)
	return fmt.Sprintf("volume %s %s, %v, %v, mode %s, class %s, %s, %s %s %q, attributes %v, of %s", v.Name, metadata(v),
		v.Spec.Capacity.Storage(), v.Spec.AccessModes, ptr.Deref(v.Spec.VolumeMode, ""), v.Spec.StorageClassName,
		v.Spec.PersistentVolumeReclaimPolicy, v.Spec.CSI.Driver, v.Spec.CSI.VolumeHandle, v.Spec.CSI.FSType, attributes, v.Spec.ClaimRef.UID)
}

// State describes the world in words that do not depend on it.
func (w *world) State() histories.State {
	var lines []string
	for _, obj := range w.Server.List("persistentvolumeclaims") {
		c := obj.(*corev1.PersistentVolumeClaim)
		lines = append(lines, fmt.Sprintf("claim %s, %s, bound to %s", metadata(c), c.Status.Phase, c.Spec.VolumeName))
	}
	for _, obj := range w.Server.List("persistentvolumes") {
		lines = append(lines, describeVolume(obj.(*corev1.PersistentVolume)))
	}
	for _, obj := range w.Server.List(snapshotapi.Snapshots.CommitName()) {
		lines = append(lines, "snapshot "+metadata(obj))
	}
	state := storeddriver.Stored(w.Server, namespace)
	for _, key := range slices.Sorted(maps.Keys(state)) {
		if strings.HasPrefix(key, keyVolume) {
			lines = append(lines, "driver "+key+": "+state[key])
		}
	}
	return w.Events.State(lines)
}
