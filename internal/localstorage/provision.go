package localstorage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/reference"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/volumegroup"
)

// The reasons of the events of claims and volumes.
//
// Upstream: sig-storage-lib-external-provisioner controller, volume_store (v13.0.0), to the letter.
const (
	reasonProvisioning = "Provisioning"
	reasonSucceeded    = "ProvisioningSucceeded"
	reasonFailed       = "ProvisioningFailed"
	reasonFailedDelete = "VolumeFailedDelete"
)

// volumeName returns the name of a claim's logical volume and PersistentVolume.
func volumeName(claim *corev1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }

// sortByName sorts objects by namespace and name.
func sortByName[T metav1.Object](all []T) {
	slices.SortFunc(all, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}

// selected returns the claims whose selected node is this one, by name.
func (m *Manager) selected() []*corev1.PersistentVolumeClaim {
	all, err := m.claims.List(labels.Everything())
	if err != nil {
		panic("localstorage: list claims: " + err.Error())
	}
	all = slices.DeleteFunc(all, func(c *corev1.PersistentVolumeClaim) bool { return !isSelected(c, m.cfg.Node) })
	sortByName(all)
	return all
}

// isOurClaim reports whether a claim must be provisioned by this package: it is unbound, and its class
// is one of this package.
//
// Upstream: sig-storage-lib-external-provisioner shouldProvision (v13.0.0).
func isOurClaim(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) bool {
	return class != nil && isDelayed(class) && claim.Spec.VolumeName == "" &&
		claim.Annotations[storagehelpers.AnnStorageProvisioner] == Provisioner
}

// syncClaim creates the volume of a claim, or grows it.
func (m *Manager) syncClaim(ctx context.Context, key work) error {
	claim, err := m.claims.PersistentVolumeClaims(key.namespace).Get(key.name)
	if err != nil || !isSelected(claim, m.cfg.Node) {
		return nil //nolint:nilerr // it is gone
	}
	if claim.Spec.VolumeName != "" {
		return m.grow(ctx, claim)
	}
	class := m.class(storagehelpers.GetPersistentVolumeClaimClass(claim))
	if !isOurClaim(claim, class) {
		return nil
	}
	if _, err := m.volumes.Get(volumeName(claim)); err == nil {
		return nil // the PersistentVolume controller binds it
	}
	return m.provision(ctx, claim, class)
}

// provision creates a logical volume and then its PersistentVolume. It is safe to repeat: the next
// call finds the logical volume by name.
//
// Upstream: sig-storage-lib-external-provisioner provisionClaimOperation (v13.0.0).
func (m *Manager) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) error {
	m.cfg.Recorder.Eventf(claim, corev1.EventTypeNormal, reasonProvisioning,
		"External provisioner is provisioning volume for claim %q", claim.Namespace+"/"+claim.Name)
	if err := checkClaim(claim); err != nil {
		m.cfg.Recorder.Event(claim, corev1.EventTypeWarning, reasonFailed, err.Error())
		return nil // only another claim avoids it
	}
	v, p, err := m.create(ctx, claim, class)
	switch {
	case isFull(err):
		return m.reschedule(ctx, claim, p, err)
	case err != nil:
		m.cfg.Recorder.Event(claim, corev1.EventTypeWarning, reasonFailed, err.Error())
		return err
	}
	if err := m.save(ctx, claim, class, p, v); err != nil {
		return err
	}
	err = m.call("FinishLogicalVolume", v.Name, func() error { return m.cfg.Groups.Finish(ctx, class.Name, v.Name) })
	if err != nil {
		m.addClass(class.Name) // finishes it
	}
	m.cfg.Recorder.Eventf(claim, corev1.EventTypeNormal, reasonSucceeded, "Successfully provisioned volume %s", v.Name)
	if m.refresh(ctx, class.Name) != nil {
		m.addClass(class.Name)
	}
	return nil
}

// checkClaim returns an error for a claim that requests what no volume here has.
func checkClaim(claim *corev1.PersistentVolumeClaim) error {
	switch {
	case claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil:
		return errors.New("data sources are not supported")
	case claim.Spec.Selector != nil:
		return errors.New("claim Selector is not supported")
	default:
		return nil
	}
}

// create creates the logical volume of a claim.
func (m *Manager) create(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass,
) (v volumegroup.Volume, p parameters, err error) {
	if p, err = parseClass(class); err != nil {
		return v, p, fmt.Errorf("%w: class %s: %w", volumegroup.ErrNoGroup, class.Name, err)
	}
	if p.disksOf(m.cfg.Node) == nil {
		return v, p, fmt.Errorf("%w: class %s has no disks on %s", volumegroup.ErrNoGroup, class.Name, m.cfg.Node)
	}
	requested := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	err = m.call("CreateLogicalVolume", volumeName(claim), func() (err error) {
		v, err = m.cfg.Groups.Create(ctx, class.Name, volumegroup.Spec{
			Name: volumeName(claim), Size: requested.Value(), Owner: claim.Namespace + "/" + claim.Name,
		})
		return err
	})
	if err != nil {
		err = fmt.Errorf("create logical volume of %s on %s: %w", requested.String(), m.cfg.Node, err)
	}
	return v, p, err
}

// reschedule handles a node without space. It first writes the record, so that the node is not
// selected again for what it does not have. Then it removes the selected node from the claim.
//
// Upstream: sig-storage-lib-external-provisioner rescheduleProvisioning (v13.0.0).
func (m *Manager) reschedule(ctx context.Context, claim *corev1.PersistentVolumeClaim, p parameters, why error) error {
	class := storagehelpers.GetPersistentVolumeClaimClass(claim)
	if err := m.refresh(ctx, class); err != nil {
		return err
	}
	if p.disksOf(m.cfg.Node) != nil && m.mayFit(class, claim) {
		return fmt.Errorf("%w: tried again", why)
	}
	m.cfg.Recorder.Event(claim, corev1.EventTypeWarning, reasonFailed, why.Error())
	return unselect(ctx, m.cfg.Client, claim)
}

// unselect removes the selected node from a claim.
func unselect(ctx context.Context, client kubernetes.Interface, claim *corev1.PersistentVolumeClaim) error {
	claim = claim.DeepCopy()
	delete(claim.Annotations, storagehelpers.AnnSelectedNode)
	_, err := client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil // the cache will show it
	}
	return err
}

// mayFit reports whether the record of a class does not say that there is no space for a claim: its
// group has not been made yet, or a volume was removed meanwhile.
func (m *Manager) mayFit(class string, claim *corev1.PersistentVolumeClaim) bool {
	r := m.record(class)
	if r == nil || r.Status.Phase == "" {
		return true
	}
	return r.Status.Phase == phaseReady && r.Status.MaximumVolumeSize.Cmp(claim.Spec.Resources.Requests[corev1.ResourceStorage]) >= 0
}

// save creates the PersistentVolume of a logical volume. If another node has made one, the logical
// volume is removed.
func (m *Manager) save(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, p parameters, v volumegroup.Volume,
) error {
	volume, err := m.newVolume(claim, class, p, v)
	if err != nil {
		return err
	}
	volumes := m.cfg.Client.CoreV1().PersistentVolumes()
	if _, err = volumes.Create(ctx, volume, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		return err
	}
	existing, err := volumes.Get(ctx, v.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if isOn(existing, m.cfg.Node) {
		return nil
	}
	m.addClass(class.Name)
	return fmt.Errorf("PersistentVolume %s exists on node %s", v.Name, existing.Annotations[nodeAnnotation])
}

// newVolume returns the PersistentVolume of a logical volume.
func (m *Manager) newVolume(
	claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, p parameters, v volumegroup.Volume,
) (*corev1.PersistentVolume, error) {
	node, err := m.nodes.Get(m.cfg.Node)
	if err != nil {
		return nil, err
	}
	hostname, ok := node.Labels[corev1.LabelHostname]
	if !ok {
		return nil, fmt.Errorf("node %s has no label %s", node.Name, corev1.LabelHostname)
	}
	ref, err := reference.GetReference(scheme.Scheme, claim)
	if err != nil {
		return nil, err
	}
	source := &corev1.LocalVolumeSource{Path: v.Path}
	if ptr.Deref(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) == corev1.PersistentVolumeFilesystem {
		source.FSType = ptr.To(p.fsType)
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: v.Name, Finalizers: []string{volumeFinalizer},
			Annotations: map[string]string{storagehelpers.AnnDynamicallyProvisioned: Provisioner, nodeAnnotation: m.cfg.Node},
		},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   slices.Clone(claim.Spec.AccessModes),
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: quantity(v.Size)},
			ClaimRef:                      ref,
			MountOptions:                  slices.Clone(class.MountOptions),
			PersistentVolumeReclaimPolicy: ptr.Deref(class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete),
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: source},
			StorageClassName:              class.Name,
			VolumeMode:                    claim.Spec.VolumeMode,
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{hostname},
				}},
			}}}},
		},
	}
	return volume, nil
}
