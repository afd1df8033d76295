package job_test

import (
	"context"
	"fmt"
	"log"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/controllers/job"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/sim"
)

// A job is complete when its pod has succeeded.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	process := host.Process("job")
	client := server.Client(process)
	job.New(job.Config{
		Process: process, Client: client, Informers: server.Informers(process),
		Recorder: events.New(events.Config{Process: process, Client: client, Source: job.EventSource}),
	})
	run := func() {
		if err := host.Run(); err != nil {
			log.Fatal(err)
		}
	}

	ctx, user := context.Background(), server.Client(host.ExternalCaller())
	_, err := user.BatchV1().Jobs("default").Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "pi"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "image"}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	run()

	pods, err := user.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "job-name=pi"})
	if err != nil {
		log.Fatal(err)
	}
	pod := &pods.Items[0]
	pod.Status.Phase = corev1.PodSucceeded // by a kubelet
	if _, err := user.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		log.Fatal(err)
	}
	run()
	pi, err := user.BatchV1().Jobs("default").Get(ctx, "pi", metav1.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range pi.Status.Conditions {
		fmt.Println(c.Type, c.Reason)
	}
	// Output:
	// SuccessCriteriaMet CompletionsReached
	// Complete CompletionsReached
}
