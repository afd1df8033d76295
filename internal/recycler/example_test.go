package recycler_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/recycler"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// A controller recycles a volume with a pod, which the example runs itself.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	controller := host.Process("pvcontroller")
	pods := server.Informers(controller).Core().V1().Pods()
	pods.Informer()
	r := recycler.New(recycler.Config{Process: controller, Client: server.Client(controller), Pods: pods})
	controller.Spawn("recycle", func(ctx context.Context) {
		err := r.Run(ctx, recycler.Job{
			Volume: "disk-1", Deadline: time.Minute, RecordEvent: func(_, text string) { fmt.Println(text) },
			Source: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data/1"}},
		})
		fmt.Println("recycled:", err)
	})
	fmt.Println(host.Run()) // as far as it goes without the pod

	disk := nodefs.NewMemory("/")
	fmt.Println(errors.Join(disk.MkdirAll("/data/1"), disk.WriteFile("/data/1/letter", []byte("hello"))))
	ctx, client := context.Background(), server.Client(host.ExternalCaller())
	pod, err := client.CoreV1().Pods("default").Get(ctx, "recycler-for-disk-1", metav1.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	volume, source, _ := recycler.PodVolume(pod)
	fmt.Println("scrubs", volume, recycler.Scrub(disk, source.HostPath.Path))
	pod.Status.Phase = corev1.PodSucceeded
	if _, err := client.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(host.Run())
	fmt.Println(disk.ReadDir("/data/1"))
	// Output:
	// <nil>
	// <nil>
	// scrubs disk-1 <nil>
	// recycled: <nil>
	// <nil>
	// [] <nil>
}
