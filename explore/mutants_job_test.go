package explore_test

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
)

// jobMutants are defects of the controllers of Jobs and CronJobs.
var jobMutants = []mutant{
	{
		name: "a success is counted twice", rule: "I48",
		scenario: "rules: I48\n" + jobWorld + aJob, between: client(jobController, countsTwice), config: holds, within: 1,
	},
	{
		name: "after a restart an old list of pods is trusted", rule: "I48",
		scenario: "rules: I48\n" + jobWorld + once(jobController, "crash") + aSuspendedJob, between: client(jobController, trustsItsCache), config: faults, within: 540,
	},
	{
		name: "a finalizer is removed before the pod is in the status", rule: "I49",
		scenario: "rules: I49\n" + jobWorld + aJob, between: client(jobController, listsNoPods), config: holds, within: 1,
	},
	{
		name: "a cron job creates each job twice", rule: "I50",
		scenario: "rules: I50\n" + jobWorld + aCronJob, between: client(cronController, createsJobsTwice), config: holds, within: 1,
	},
	{
		name: "the finalizers of pods stay", rule: "L12",
		scenario: "rules: L12\n" + jobWorld + aJob, between: client(jobController, patchesNothing), config: holds, within: 1,
	},
}

const (
	jobController  = "job"
	cronController = "cronjob"
)

const jobWorld = "nodes: 1\ncomponents: scheduler, kubelet, job, cronjob, ttlafterfinished, garbagecollector\n"

// aJob is a user who creates a job of three pods, of which two run at once.
const aJob = `
user alice
  apply
    apiVersion: batch/v1
    kind: Job
    metadata: {name: pi}
    spec:
      completions: 3
      parallelism: 2
      template:
        metadata: {annotations: {volsim.dev/exit-codes: "0"}}
        spec:
          restartPolicy: Never
          containers: [{name: main, image: pause}]
  wait job pi condition=Complete
`

// aSuspendedJob is a user who creates a job without pods, and resumes it. When it creates pods it has a status.
const aSuspendedJob = `
user alice
  apply
    apiVersion: batch/v1
    kind: Job
    metadata: {name: pi}
    spec:
      completions: 3
      suspend: true
      template:
        metadata: {annotations: {volsim.dev/exit-codes: "0"}}
        spec:
          restartPolicy: Never
          containers: [{name: main, image: pause}]
  wait job pi condition=Suspended
  patch job pi spec.suspend=false
  wait job pi condition=Complete
`

// aCronJob is a user who creates a cron job whose jobs do not end, and waits for two of its times.
const aCronJob = `
user alice
  apply
    apiVersion: batch/v1
    kind: CronJob
    metadata: {name: backup}
    spec:
      schedule: "@hourly"
      concurrencyPolicy: Forbid
      jobTemplate:
        spec:
          template:
            spec:
              restartPolicy: Never
              containers: [{name: main, image: pause}]
  pass 130m
`

// countsTwice lets the controller write a greater number of successes.
func countsTwice(*fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if job, is := r.Body.(*batchv1.Job); is && r.Subresource == "status" && job.Status.Succeeded > 0 {
			job.Status.Succeeded++
		}
		return serve()
	}
}

// listsNoPods lets the controller write a status without the pods that are not counted yet.
func listsNoPods(*fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if job, is := r.Body.(*batchv1.Job); is && r.Subresource == "status" {
			job.Status.UncountedTerminatedPods = nil
		}
		return serve()
	}
}

// trustsItsCache lets a controller act on its cache of pods, as upstream's: what it reads from the server
// is old, and all pods in it have their finalizers.
func trustsItsCache(*fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		object, err := serve()
		if pods, is := object.(*corev1.PodList); is && r.Verb == "list" {
			for i := range pods.Items {
				pods.Items[i].ResourceVersion, pods.Items[i].Finalizers = "1", []string{batchv1.JobTrackingFinalizer}
			}
		}
		return object, err
	}
}

// createsJobsTwice lets a controller create each job a second time, under another name.
func createsJobsTwice(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		object, err := serve()
		if job, is := r.Body.(*batchv1.Job); is && r.Verb == "create" && err == nil {
			again := job.DeepCopy()
			again.ObjectMeta = metav1.ObjectMeta{Name: job.Name + "-again", OwnerReferences: job.OwnerReferences}
			again.Spec.Selector, again.Spec.Template.Labels = nil, nil
			_, err = own.BatchV1().Jobs(r.Namespace).Create(context.Background(), again, metav1.CreateOptions{})
		}
		return object, err
	}
}

// patchesNothing drops a controller's patches of pods.
func patchesNothing(*fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if r.Verb == "patch" && r.Resource.Resource == "pods" {
			return nil, nil //nolint:nilnil // as the server
		}
		return serve()
	}
}
