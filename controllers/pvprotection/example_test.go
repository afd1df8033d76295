package pvprotection_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/controllers/pvprotection"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// A deleted volume stays until it is no longer bound.
func Example() {
	ctx := context.Background()
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	process := host.Process("pvprotection")
	pvprotection.New(pvprotection.Config{
		Process: process, Client: server.Client(process), Informers: server.Informers(process),
	})

	disk := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
		Name: "disk", Finalizers: []string{"kubernetes.io/pv-protection"},
	}}
	disk.Status.Phase = corev1.VolumeBound
	volumes := server.Client(host.ExternalCaller()).CoreV1().PersistentVolumes()
	created := server.Add(disk)
	deleted := volumes.Delete(ctx, "disk", metav1.DeleteOptions{})
	if err := errors.Join(created, deleted, host.Run()); err != nil {
		log.Fatal(err)
	}
	disk, err := volumes.Get(ctx, "disk", metav1.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("while it is bound:", disk.Finalizers)

	disk.Status.Phase = corev1.VolumeReleased
	_, err = volumes.UpdateStatus(ctx, disk, metav1.UpdateOptions{})
	if err := errors.Join(err, host.Run()); err != nil {
		log.Fatal(err)
	}
	fmt.Println("remaining volumes:", len(server.List("persistentvolumes")))
	// Output:
	// while it is bound: [kubernetes.io/pv-protection]
	// remaining volumes: 0
}
