package known

import (
	"context"
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/kubelet"
)

// create creates the cluster of one instance.
var create = lines(
	"user alice",
	"  apply {apiVersion: v1, kind: ConfigMap, metadata: {name: db}, data: {instances: '1', size: 1Gi}}",
)

// A stage is a label of a claim: whether a job has filled its volume.
const (
	stageLabel   = "stage"
	initializing = "initializing"
	ready        = "ready"
)

// bootstrapping returns an operator that creates instances one by one: a claim, a job that fills its
// volume, and a pod. The broken one creates a job that is missing only for the instances for which
// recovers returns true.
func bootstrapping(recovers func(serial int) bool) func(broken bool) []cluster.Component {
	return func(broken bool) []cluster.Component {
		return operator(func(ctx context.Context, c clients, db *corev1.ConfigMap) error {
			instances, err := strconv.Atoi(db.Data["instances"])
			for serial := 1; serial <= instances && err == nil; serial++ {
				var done bool
				if done, err = bootstrap(ctx, c, db, serial, !broken || recovers(serial)); !done {
					break
				}
			}
			return err
		}, "persistentvolumeclaims", "jobs", "pods")
	}
}

// bootstrap takes an instance one step further, and reports whether its pod exists.
func bootstrap(ctx context.Context, c clients, db *corev1.ConfigMap, serial int, recovers bool) (done bool, err error) {
	name := fmt.Sprintf("%s-%d", db.Name, serial)
	claim, err := c.CoreV1().PersistentVolumeClaims(db.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if err := createClaim(ctx, c, db, name, map[string]string{stageLabel: initializing}); err != nil {
			return false, err
		}
		db = db.DeepCopy()
		db.Data["phase"] = "creating " + name
		if _, err := c.CoreV1().ConfigMaps(db.Namespace).Update(ctx, db, metav1.UpdateOptions{}); err != nil {
			return false, err
		}
		return false, createJob(ctx, c, db, name)
	} else if err != nil {
		return false, err
	}
	if claim.Labels[stageLabel] == initializing {
		return false, fill(ctx, c, db, claim, recovers)
	}
	_, err = c.CoreV1().Pods(db.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, createPod(ctx, c, db, name, name)
	}
	return err == nil, err
}

// fill marks a claim ready if its job has ended.
func fill(ctx context.Context, c clients, db *corev1.ConfigMap, claim *corev1.PersistentVolumeClaim, recovers bool) error {
	job, err := c.BatchV1().Jobs(db.Namespace).Get(ctx, claim.Name+"-init", metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && recovers:
		return createJob(ctx, c, db, claim.Name)
	case err != nil:
		return ignoreNotFound(err)
	case job.Status.Succeeded == 0:
		return nil
	}
	claim = claim.DeepCopy()
	claim.Labels[stageLabel] = ready
	_, err = c.CoreV1().PersistentVolumeClaims(db.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
	return err
}

// createJob creates the job that fills the volume of an instance.
func createJob(ctx context.Context, c clients, db *corev1.ConfigMap, instance string) error {
	pod := cluster.NewPod("", instance)
	pod.Annotations = map[string]string{kubelet.ExitCodesAnnotation: "0"}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{
		ObjectMeta: of(db, instance+"-init", nil),
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}},
	}
	_, err := c.BatchV1().Jobs(db.Namespace).Create(ctx, job, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
