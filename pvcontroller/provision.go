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

// pluginCSI is the only plugin that can provision volumes from a data source.
const pluginCSI = "kubernetes.io/csi"

// isInTree reports whether a provisioner's name is that of an in-tree plugin, registered or not.
// kubernetes.io/no-provisioner, which never is, counts as one.
func isInTree(provisioner string) bool { return strings.HasPrefix(provisioner, "kubernetes.io/") }

// A classProvisioner is the provisioner of a class: a plugin of the controller, or the name of an
// external provisioner. If it is neither, err states the reason.
type classProvisioner struct {
	plugin   plugins.Capabilities // Provisioner is nil if there is none
	external string
	err      error
}

// findProvisioner returns the provisioner of a class. A nil class stands for a missing one of that
// name.
//
// Upstream: pkg/controller/volume/persistentvolume findProvisionablePlugin (v1.36).
func findProvisioner(
	name string, class *storagev1.StorageClass, manager *plugins.Manager, migration plugins.Migration,
) classProvisioner {
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

// decideProvision decides about a claim with a class and no matching volume: provision it, request
// it from an external provisioner, or report that there is none. The claim's status stays as it is.
//
// Upstream: pkg/controller/volume/persistentvolume provisionClaim (v1.36).
func decideProvision(facts claimFacts) claimDecision {
	switch {
	case facts.noProvisioning:
		return claimDecision{action: claimRecord}
	case facts.provisioner.err != nil:
		return claimDecision{action: claimRecord, message: msgProvisioning(facts.provisioner.err.Error())}
	case facts.provisioner.external != "":
		return claimDecision{
			action: claimRequestExternal, provisioner: facts.provisioner,
			message: msgExternal(facts.provisioner.external),
		}
	default:
		return claimDecision{action: claimProvision, class: facts.class, provisioner: facts.provisioner}
	}
}

// requestExternal annotates a claim with the provisioner's name, which external provisioners look
// for.
//
// Differs: upstream does this in an operation outside the claim's sync, with the operation's
// back-off of 500 ms or more. Here it is one write of the sync, with the queue's back-off.
//
// Upstream: pkg/controller/volume/persistentvolume provisionClaimOperationExternal (v1.36).
func (c *Controller) requestExternal(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, decision claimDecision,
) error {
	claim, err := c.setProvisioner(ctx, claim, decision.provisioner.external)
	if err != nil {
		c.recordOnce(claim.UID, claim, msgProvisioning(fmt.Sprintf("Error saving claim: %v", err)))
		return err
	}
	c.recordOnce(claim.UID, claim, decision.message)
	return nil
}

// setProvisioner writes both annotations with a claim's provisioner, unless they exist. With an
// error it returns the unchanged claim.
//
// Upstream: pkg/controller/volume/persistentvolume setClaimProvisioner (v1.36).
func (c *Controller) setProvisioner(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, provisioner string,
) (*corev1.PersistentVolumeClaim, error) {
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

// startProvisioning starts the operation that provisions a volume for a claim.
func (c *Controller) startProvisioning(
	claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, plugin plugins.Capabilities,
) {
	c.memory.readRest()
	if c.unsaved[claim.UID] != nil {
		return // provisioned; only its PersistentVolume is missing
	}
	item, name := queueItem{c.claimQueue, c.claims.key(claim)}, operationName(opProvision, claim)
	c.operations.start(opProvision, name, item, claim, func(ctx context.Context) error {
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
		_ = c.trySave(ctx, u) // trySave handles the error
		return nil
	})
}

// provision calls a plugin to provision a volume for a claim. It returns the PersistentVolume to
// create, or nil if it exists.
//
// Upstream: pkg/controller/volume/persistentvolume provisionClaimOperation (v1.36), up to the
// volume.
func (c *Controller) provision(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, options plugins.ProvisionOptions,
	class *storagev1.StorageClass, plugin plugins.Capabilities,
) (*corev1.PersistentVolume, error) {
	fail := func(text string, err error) (*corev1.PersistentVolume, error) {
		c.recordOnce(claim.UID, claim, msgProvisioning(text))
		return nil, err
	}
	if plugin.Name() != pluginCSI && claim.Spec.DataSource != nil {
		text := fmt.Sprintf(
			"plugin %q is not a CSI plugin. Only CSI plugin can provision a claim with a datasource", plugin.Name())
		return fail(text, errors.New(text))
	}
	claim, err := c.setProvisioner(ctx, claim, class.Provisioner)
	if err != nil {
		return nil, err
	}
	_, err = c.cfg.Client.CoreV1().PersistentVolumes().Get(ctx, options.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return nil, err // nil: an earlier operation created it
	}
	if len(options.MountOptions) > 0 && !plugin.Provisioner.SupportsMountOptions() {
		return fail(fmt.Sprintf(
			"Mount options are not supported by the provisioner but StorageClass %q has mount options %v",
			class.Name, options.MountOptions,
		), fmt.Errorf("provisioner %q doesn't support mount options", plugin.Name()))
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

// provisionOptions returns the options for provisioning a claim's volume.
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

// selectedNode returns the node that the scheduler selected for the claim, or nil.
//
// Differs: upstream reads its cache of nodes. Plugins of the controller rarely provision for a
// node, which does not justify a cache that receives every heartbeat.
func (c *Controller) selectedNode(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.Node, error) {
	name, ok := claim.Annotations[storagehelpers.AnnSelectedNode]
	if !ok {
		return nil, nil
	}
	node, err := c.cfg.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(corev1.Resource("node"), name) // the text of a cache's error
	}
	return node, err
}

// reschedule removes the selected node from the claim, so that the scheduler selects again. Errors
// are ignored: the next operation fails on the same node and retries.
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

// completeVolume completes the PersistentVolume that a plugin returned. It is bound to the claim,
// has its class, and is annotated with the plugin. If it must be deleted later, a finalizer keeps
// it until the plugin has deleted the storage.
func completeVolume(
	claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume,
	options plugins.ProvisionOptions, plugin string,
) (*corev1.PersistentVolume, error) {
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
