package vacprotection_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/controllers/vacprotection"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// A deleted class stays until no volume refers to it.
func Example() {
	ctx := context.Background()
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	process := host.Process("vacprotection")
	vacprotection.New(vacprotection.Config{
		Process: process, Client: server.Client(process), Informers: server.Informers(process),
	})

	name := "fast"
	class := &storagev1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"kubernetes.io/vac-protection"}},
		DriverName: "disk.example.com", Parameters: map[string]string{"iops": "5000"},
	}
	disk := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	disk.Spec.VolumeAttributesClassName = &name
	client := server.Client(host.ExternalCaller())
	created := server.Add(class, disk)
	deleted := client.StorageV1().VolumeAttributesClasses().Delete(ctx, name, metav1.DeleteOptions{})
	if err := errors.Join(created, deleted, host.Run()); err != nil {
		log.Fatal(err)
	}
	fmt.Println("while a volume has it:", len(server.List("volumeattributesclasses")))

	deleted = client.CoreV1().PersistentVolumes().Delete(ctx, "disk", metav1.DeleteOptions{})
	if err := errors.Join(deleted, host.Run()); err != nil {
		log.Fatal(err)
	}
	fmt.Println("afterwards:", len(server.List("volumeattributesclasses")))
	// Output:
	// while a volume has it: 1
	// afterwards: 0
}
