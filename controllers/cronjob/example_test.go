package cronjob_test

import (
	"context"
	"fmt"
	"log"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/controllers/cronjob"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/sim"
)

// A job is created each hour. In a stepped world that takes something for which time passes.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	process := host.Process("cronjob")
	client := server.Client(process)
	cronjob.New(cronjob.Config{
		Process: process, Client: client, Informers: server.Informers(process),
		Recorder: events.New(events.Config{Process: process, Client: client, Source: cronjob.EventSource}),
	})
	_, err := server.Client(host.ExternalCaller()).BatchV1().CronJobs("default").Create(context.Background(), &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "hourly"},
		Spec: batchv1.CronJobSpec{Schedule: "@hourly", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "image"}},
			}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	user := host.Process("user")
	user.Spawn("sleep", func(context.Context) { user.Sleep(150 * time.Minute) })
	if err := host.Run(); err != nil {
		log.Fatal(err)
	}
	for _, job := range server.List("jobs") {
		fmt.Println(job.GetAnnotations()[batchv1.CronJobScheduledTimestampAnnotation])
	}
	// Output:
	// 2026-01-01T01:00:00Z
	// 2026-01-01T02:00:00Z
}
