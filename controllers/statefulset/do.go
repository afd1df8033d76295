package statefulset

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// A blockedError says that an object must go before a pod can be created. Its end causes another
// sync, so none is retried.
type blockedError struct{ what string }

func (e blockedError) Error() string { return e.what }

// carryOut does the works of a plan, one batch after the other. It stops after a batch with a failure.
func (c *controller) carryOut(ctx context.Context, set *appsv1.StatefulSet, p *plan) error {
	for _, batch := range p.batches {
		var errs []error
		blocked := false
		for i := range batch {
			switch err := c.do(ctx, set, &batch[i]).(type) { //nolint:errorlint // one that is wrapped is not the only one
			case nil:
				if batch[i].outdated {
					p.status.CurrentReplicas = max(0, p.status.CurrentReplicas-1)
				}
			case blockedError:
				blocked = true
			default:
				errs = append(errs, err)
			}
		}
		if len(errs) > 0 || blocked {
			return errors.Join(errs...)
		}
	}
	return nil
}

// do does a work.
func (c *controller) do(ctx context.Context, set *appsv1.StatefulSet, w *work) error {
	if err := c.createClaims(ctx, set, w); err != nil {
		if w.verb != keepPod {
			c.report(set, w.verb, w.pod, err)
		}
		return err
	}
	switch w.verb {
	case createPod:
		return c.create(ctx, set, w)
	case deletePod:
		return c.delete(ctx, set, w.pod)
	default:
		return c.update(ctx, set, w)
	}
}

// createClaims creates the claims of a pod. A failure does not keep it from trying the others.
func (c *controller) createClaims(ctx context.Context, set *appsv1.StatefulSet, w *work) error {
	var errs []error
	for _, claim := range w.claims {
		created, err := c.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Create(ctx, claim, metav1.CreateOptions{})
		switch {
		case err == nil:
			c.written.Add(set, wroteClaim, created)
			c.recorder.Event(set, corev1.EventTypeNormal, "SuccessfulCreate", fmt.Sprintf(
				"Create Claim %s Pod %s in StatefulSet %s success", claim.Name, w.pod.Name, set.Name))
			continue
		case !apierrors.IsAlreadyExists(err):
			c.recorder.Event(set, corev1.EventTypeWarning, "FailedCreate", fmt.Sprintf(
				"Create Claim %s for Pod %s in StatefulSet %s failed error: %s", claim.Name, w.pod.Name, set.Name, err))
		}
		errs = append(errs, fmt.Errorf("failed to create PVC %s: %w", claim.Name, err))
	}
	if len(errs) == 0 {
		return w.blocked
	}
	return utilerrors.NewAggregate(append(errs, w.blocked))
}

// create creates a pod, and then updates the owners of its claims, even if the pod could not be
// created.
//
// Differs: if the cache has a stranger of the pod's name, the set waits for its end. Upstream retries.
//
// Upstream: pkg/controller/statefulset StatefulPodControl.CreateStatefulPod (v1.36).
func (c *controller) create(ctx context.Context, set *appsv1.StatefulSet, w *work) error {
	created, err := c.client.CoreV1().Pods(set.Namespace).Create(ctx, w.pod, metav1.CreateOptions{})
	if err == nil {
		c.written.Add(set, wrotePod, created)
	}
	if apierrors.IsAlreadyExists(err) {
		if _, lags := c.pods.Pods(set.Namespace).Get(w.pod.Name); lags == nil {
			return blockedError{err.Error()}
		}
		return err
	}
	if err := c.updateOwners(ctx, set, w); err != nil {
		c.report(set, updatePod, w.pod, err)
		return err
	}
	c.report(set, createPod, w.pod, err)
	return err
}

// update updates the owners of a pod's claims and, if it must, the pod.
//
// Differs: upstream repeats an update that conflicts, with what its cache then has, and writes a pod
// without a change if the owners of its claims have changed. Here a conflict is retried as any other
// failure, and is not reported.
//
// Upstream: pkg/controller/statefulset StatefulPodControl.UpdateStatefulPod (v1.36).
func (c *controller) update(ctx context.Context, set *appsv1.StatefulSet, w *work) error {
	err := c.updateOwners(ctx, set, w)
	if err == nil && w.verb == updatePod {
		var updated *corev1.Pod
		updated, err = c.client.CoreV1().Pods(w.pod.Namespace).Update(ctx, w.pod, metav1.UpdateOptions{})
		if err == nil {
			c.written.Add(set, wrotePod, updated)
		}
	}
	if !w.quiet && !apierrors.IsConflict(err) && (err != nil || w.verb == updatePod || w.repairs) {
		c.report(set, updatePod, w.pod, err)
	}
	return err
}

// updateOwners updates the owners of a pod's claims.
func (c *controller) updateOwners(ctx context.Context, set *appsv1.StatefulSet, w *work) error {
	for _, name := range w.foreign {
		c.recorder.Event(set, corev1.EventTypeWarning, "ConflictingController", fmt.Sprintf(
			"PersistentVolumeClaim %s has a conflicting OwnerReference that acts as a manging controller, "+
				"the retention policy is ignored for this claim", name))
	}
	for _, claim := range w.owners {
		updated, err := c.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("could not update claim %s for delete policy ownerRefs: %w", claim.Name, err)
		}
		c.written.Add(set, wroteClaim, updated)
	}
	return nil
}

// delete deletes a pod. A pod that is gone has been deleted.
//
// Differs: upstream deletes by name. With a stale cache it may delete the pod that replaced the one
// it has seen.
//
// Upstream: pkg/controller/statefulset StatefulPodControl.DeleteStatefulPod (v1.36).
func (c *controller) delete(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	err := c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	if !apierrors.IsConflict(err) {
		c.report(set, deletePod, pod, err)
	}
	return err
}

// report records an event about what was done with a pod.
//
// Upstream: pkg/controller/statefulset StatefulPodControl.recordPodEvent (v1.36).
func (c *controller) report(set *appsv1.StatefulSet, what verb, pod *corev1.Pod, err error) {
	word := strings.ToUpper(string(what[:1])) + string(what[1:])
	if err == nil {
		c.recorder.Event(set, corev1.EventTypeNormal, "Successful"+word,
			fmt.Sprintf("%s Pod %s in StatefulSet %s successful", word, pod.Name, set.Name))
		return
	}
	c.recorder.Event(set, corev1.EventTypeWarning, "Failed"+word,
		fmt.Sprintf("%s Pod %s in StatefulSet %s failed error: %s", word, pod.Name, set.Name, err))
}
