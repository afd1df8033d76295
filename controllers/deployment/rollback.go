package deployment

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rollbackTo returns the revision of the deprecated annotation that asks for a rollback; 0 is the last
// one. kubectl does not use it: it writes the template.
//
// Upstream: pkg/controller/deployment getRollbackTo (v1.36).
func rollbackTo(d *appsv1.Deployment) (revision int64, asked bool) {
	revision, err := strconv.ParseInt(d.Annotations[appsv1.DeprecatedRollbackTo], 10, 64)
	return revision, err == nil
}

// rollBack gives the Deployment the template of a revision, and removes the annotation that asked for it.
//
// Upstream: pkg/controller/deployment DeploymentController.rollback (v1.36).
func (r *rollout) rollBack(ctx context.Context, revision int64) error {
	if err := r.ensureNew(ctx); err != nil {
		return err
	}
	if revision == 0 {
		if revision = lastRevision(r.all()); revision == 0 {
			return r.refuseRollback(ctx, "DeploymentRollbackRevisionNotFound", "Unable to find last revision.")
		}
	}
	for _, set := range r.all() {
		switch found, ok := revisionOf(set); {
		case !ok || found != revision:
			continue
		case sameTemplate(&set.Spec.Template, &r.d.Spec.Template):
			return r.refuseRollback(ctx, "DeploymentRollbackTemplateUnchanged",
				fmt.Sprintf("The rollback revision contains the same template as current deployment %q", r.d.Name))
		}
		r.d.Spec.Template = *withoutHash(&set.Spec.Template)
		maps.DeleteFunc(r.d.Annotations, func(k, _ string) bool { return !isOwn(k) })
		for k, v := range set.Annotations {
			if !isOwn(k) {
				r.d.Annotations[k] = v
			}
		}
		err := r.clearRollback(ctx)
		if err == nil {
			r.recorder.Event(r.d, corev1.EventTypeNormal, "DeploymentRollback",
				fmt.Sprintf("Rolled back deployment %q to revision %d", r.d.Name, revision))
		}
		return err
	}
	return r.refuseRollback(ctx, "DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to.")
}

func (r *rollout) refuseRollback(ctx context.Context, reason, message string) error {
	r.recorder.Event(r.d, corev1.EventTypeWarning, reason, message)
	return r.clearRollback(ctx)
}

func (r *rollout) clearRollback(ctx context.Context) error {
	delete(r.d.Annotations, appsv1.DeprecatedRollbackTo)
	stored, err := r.client.AppsV1().Deployments(r.d.Namespace).Update(ctx, r.d, metav1.UpdateOptions{})
	if err == nil {
		r.written.Add(r.d, wroteDeployment, stored)
	}
	return err
}
