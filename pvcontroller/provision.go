package pvcontroller

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/reference"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/plugins"
)

// pluginCSI is the one plugin whose volumes can be made from a data source.
const pluginCSI = "kubernetes.io/csi"

// isInTree tells whether a provisioner is, by its name, a plugin of the controller and not a program of its own, be it there
// or not; kubernetes.io/no-provisioner, which never is, counts among them.
func isInTree(provisioner string) bool { return strings.HasPrefix(provisioner, "kubernetes.io/") }

// classProvisioner is who makes volumes of a class: a plugin of the controller, or a provisioner outside, by its name. Neither: nobody,
// and the error says why.
type classProvisioner struct {
	plugin   plugins.Capabilities // its Provisioner is nil where there is none
	external string
	err      error
}

// findProvisioner finds who makes volumes of a class; nil stands for one of that name which is not there.
//
// Upstream: pkg/controller/volume/persistentvolume findProvisionablePlugin (v1.36).
func findProvisioner(name string, class *storagev1.StorageClass, manager *plugins.Manager, migration plugins.Migration) classProvisioner {
	if class == nil {
		return classProvisioner{err: apierrors.NewNotFound(storagev1.Resource("storageclass"), name)}
	}
	if driver := migration[class.Provisioner]; driver != "" {
		return classProvisioner{external: driver}
	}
	plugin, err := manager.FindProvisionable(class.Provisioner)
	if err != nil && !isInTree(class.Provisioner) {
		return classProvisioner{external: class.Provisioner}
	}
	return classProvisioner{plugin: plugin, err: err}
}

// decideProvision decides about a claim of a class for which no volume is there: one is to be made, here or outside, or there
// is nobody who would. The claim's status stays as it is.
//
// Upstream: pkg/controller/volume/persistentvolume provisionClaim (v1.36).
func decideProvision(view claimFacts) claimDecision {
	switch {
	case view.noProvisioning:
		return claimDecision{action: claimRecord}
	case view.provisioner.err != nil:
		return claimDecision{action: claimRecord, message: msgProvisioning(view.provisioner.err.Error())}
	case view.provisioner.external != "":
		return claimDecision{action: claimRequestExternal, provisioner: view.provisioner, message: msgExternal(view.provisioner.external)}
	default:
		return claimDecision{action: claimProvision, class: view.class, provisioner: view.provisioner}
	}
}

// requestExternal puts the provisioner's name onto a claim, which is what an external provisioner goes by, unless it is there.
//
// Differs: upstream does this in an operation beside the claim's sync, with the operation's own back-off of 500 ms and
// more. Here it is one write of the sync, and the key's back-off is the queue's.
//
// Upstream: pkg/controller/volume/persistentvolume provisionClaimOperationExternal (v1.36).
func (c *Controller) requestExternal(ctx context.Context, claim *corev1.PersistentVolumeClaim, plan claimDecision) error {
	claim, err := c.setProvisioner(ctx, claim, plan.provisioner.external)
	if err != nil {
		c.recordOnce(claim.UID, claim, msgProvisioning(fmt.Sprintf("Error saving claim: %v", err)))
		return err
	}
	c.recordOnce(claim.UID, claim, plan.message)
	return nil
}

// setProvisioner writes both annotations that name a claim's provisioner, unless they do. With an error it returns the claim
// it was given.
//
// Upstream: pkg/controller/volume/persistentvolume setClaimProvisioner (v1.36).
func (c *Controller) setProvisioner(ctx context.Context, claim *corev1.PersistentVolumeClaim, provisioner string) (*corev1.PersistentVolumeClaim, error) {
	if claim.Annotations[storagehelpers.AnnStorageProvisioner] == provisioner {
		return claim, nil
	}
	changed := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, storagehelpers.AnnBetaStorageProvisioner, provisioner)
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, storagehelpers.AnnStorageProvisioner, provisioner)
	changed.Annotations, _ = c.migratedAnnotations(changed.Annotations, provisioner)
	written, err := c.writeClaim(ctx, changed)
	if err != nil {
		return claim, err
	}
	return written, nil
}

// startProvisioning has a plugin make a volume for a claim, beside the syncs.
func (c *Controller) startProvisioning(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, plugin plugins.Capabilities) {
	if c.unsaved[claim.UID] != nil {
		return // it is made, and only has to be saved
	}
	c.operations.start(opProvision, operationName(opProvision, claim), queueItem{c.claimQueue, keyOf(claim)}, claim, func(ctx context.Context) error {
		options := provisionOptions(claim, class)
		volume, err := c.provision(ctx, claim, options, class, plugin)
		if err != nil {
			return err
		}
		delete(c.uncertain, claim.UID)
		if volume == nil {
			return nil
		}
		u := &unsaved{claim: claim, options: options, volume: volume, plugin: plugin}
		c.unsaved[claim.UID] = u
		_ = c.trySave(ctx, u) // what comes of an error is decided there
		return nil
	})
}

// provision has a plugin make a volume for a claim. It returns the PersistentVolume that is to be created for it; nil when
// there is one already.
//
// Upstream: pkg/controller/volume/persistentvolume provisionClaimOperation (v1.36), up to the volume.
func (c *Controller) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim, options plugins.ProvisionOptions, class *storagev1.StorageClass, plugin plugins.Capabilities) (*corev1.PersistentVolume, error) {
	fail := func(text string, err error) (*corev1.PersistentVolume, error) {
		c.recordOnce(claim.UID, claim, msgProvisioning(text))
		return nil, err
	}
	if plugin.Name() != pluginCSI && claim.Spec.DataSource != nil {
		text := fmt.Sprintf("plugin %q is not a CSI plugin. Only CSI plugin can provision a claim with a datasource", plugin.Name())
		return fail(text, errors.New(text))
	}
	claim, err := c.setProvisioner(ctx, claim, class.Provisioner)
	if err != nil {
		return nil, err
	}
	_, err = c.cfg.Client.CoreV1().PersistentVolumes().Get(ctx, options.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return nil, err // nil: an earlier operation got that far
	}
	if len(options.MountOptions) > 0 && !plugin.Provisioner.SupportsMountOptions() {
		return fail(fmt.Sprintf("Mount options are not supported by the provisioner but StorageClass %q has mount options %v",
			class.Name, options.MountOptions), fmt.Errorf("provisioner %q doesn't support mount options", plugin.Name()))
	}
	if err := plugin.Provisioner.CanProvision(options); err != nil {
		return fail(fmt.Sprintf("Failed to create provisioner: %v", err), err)
	}
	if options.SelectedNode, err = c.selectedNode(ctx, claim); err != nil {
		return fail(fmt.Sprintf("Failed to get target node: %v", err), err)
	}
	volume, err := plugin.Provisioner.Provision(ctx, options)
	if err != nil {
		if plugins.ClassOf(err) == plugins.Uncertain {
			c.rememberUncertain(claim, options, plugin)
		}
		c.reschedule(ctx, claim)
		return fail(fmt.Sprintf("Failed to provision volume with StorageClass %q: %v", class.Name, err), err)
	}
	return completeVolume(claim, volume, options, plugin.Name())
}

// provisionOptions says what the volume for a claim is to be like.
func provisionOptions(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) plugins.ProvisionOptions {
	return plugins.ProvisionOptions{
		Name:              "pvc-" + string(claim.UID),
		Claim:             claim,
		ReclaimPolicy:     ptr.Deref(class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete),
		MountOptions:      class.MountOptions,
		Parameters:        class.Parameters,
		AllowedTopologies: class.AllowedTopologies,
	}
}

// selectedNode is the node that the scheduler chose for the claim; nil when it did not.
//
// Differs: upstream looks into its cache of nodes. Volumes made by plugins of the controller for a node are too rare for a
// cache that every heartbeat goes into.
func (c *Controller) selectedNode(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.Node, error) {
	name, ok := claim.Annotations[storagehelpers.AnnSelectedNode]
	if !ok {
		return nil, nil
	}
	node, err := c.cfg.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(corev1.Resource("node"), name) // a cache's words
	}
	return node, err
}

// reschedule tells the scheduler, if it chose a node for the claim, to choose again. An error is as good as not having tried:
// the next operation fails on the same node, and tries again.
//
// Upstream: pkg/controller/volume/persistentvolume rescheduleProvisioning (v1.36).
func (c *Controller) reschedule(ctx context.Context, claim *corev1.PersistentVolumeClaim) {
	if _, ok := claim.Annotations[storagehelpers.AnnSelectedNode]; !ok {
		return
	}
	changed := claim.DeepCopy()
	delete(changed.Annotations, storagehelpers.AnnSelectedNode)
	_, _ = c.writeClaim(ctx, changed)
}

// completeVolume completes the PersistentVolume that a plugin returned: bound to the claim, of its class, marked with who made it,
// and kept from going before the plugin has deleted it, if it is to be deleted.
func completeVolume(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, options plugins.ProvisionOptions, plugin string) (*corev1.PersistentVolume, error) {
	ref, err := reference.GetReference(scheme.Scheme, claim)
	if err != nil {
		return nil, err
	}
	volume = volume.DeepCopy()
	if volume.Name == "" {
		volume.Name = options.Name
	}
	volume.Spec.ClaimRef = ref
	volume.Status.Phase = corev1.VolumeBound
	volume.Spec.StorageClassName = storagehelpers.GetPersistentVolumeClaimClass(claim)
	metav1.SetMetaDataAnnotation(&volume.ObjectMeta, storagehelpers.AnnBoundByController, "yes")
	metav1.SetMetaDataAnnotation(&volume.ObjectMeta, storagehelpers.AnnDynamicallyProvisioned, plugin)
	if volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		volume.Finalizers = []string{storagehelpers.PVDeletionInTreeProtectionFinalizer}
	}
	return volume, nil
}
