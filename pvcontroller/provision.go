package pvcontroller

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// isInTree tells whether a provisioner is, by its name, one that would be compiled into the controller. Of these there
// are none here; kubernetes.io/no-provisioner, which never is one, counts among them.
func isInTree(provisioner string) bool { return strings.HasPrefix(provisioner, "kubernetes.io/") }

// decideProvision decides about a claim of a class for which no volume is there: an external provisioner is to make one, or
// there is nobody who would. The claim's status stays as it is.
//
// Upstream: pkg/controller/volume/persistentvolume provisionClaim, findProvisionablePlugin (v1.36), with no plugin
// loaded.
func decideProvision(view claimView) claimPlan {
	name := storagehelpers.GetPersistentVolumeClaimClass(view.claim)
	switch {
	case view.class == nil:
		notFound := apierrors.NewNotFound(storagev1.Resource("storageclass"), name)
		return claimPlan{action: claimTell, message: msgProvisioning(notFound.Error())}
	case isInTree(view.class.Provisioner):
		return claimPlan{action: claimTell, message: msgProvisioning(
			"no volume plugin matched name: " + view.class.Provisioner)}
	default:
		return claimPlan{action: claimProvision, class: view.class, message: msgExternal(view.class.Provisioner)}
	}
}

// requestProvisioning puts the provisioner's name onto a claim, which is what an external provisioner goes by, unless it
// is there.
//
// Differs: upstream does this in an operation beside the claim's sync, with the operation's own back-off of 500 ms and
// more. Here it is one write of the sync, and the key's back-off is the queue's.
//
// Upstream: pkg/controller/volume/persistentvolume provisionClaimOperationExternal, setClaimProvisioner (v1.36).
func (c *Controller) requestProvisioning(ctx context.Context, claim *corev1.PersistentVolumeClaim, plan claimPlan) error {
	provisioner := plan.class.Provisioner
	if claim.Annotations[storagehelpers.AnnStorageProvisioner] != provisioner {
		changed := claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, storagehelpers.AnnBetaStorageProvisioner, provisioner)
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, storagehelpers.AnnStorageProvisioner, provisioner)
		written, err := c.cfg.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).
			Update(ctx, changed, metav1.UpdateOptions{})
		if err != nil {
			c.say(claim.UID, claim, msgProvisioning(fmt.Sprintf("Error saving claim: %v", err)))
			return err
		}
		if err := c.keepClaim(written); err != nil {
			return err
		}
		claim = written
	}
	c.say(claim.UID, claim, plan.message)
	return nil
}
