package expand_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/controllers/expand"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
)

// A FlexVolume is expanded by the kubelet: the controller enlarges the PersistentVolume and marks the
// claim.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	process := host.Process("expand")
	expand.New(expand.Config{
		Process: process, Client: server.Client(process), Informers: server.Informers(process),
		Recorder: record.NewFakeRecorder(10), Plugins: &plugins.Manager{},
	})

	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	volume.Spec.Capacity = sizes("1Gi")
	volume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volume.Spec.FlexVolume = &corev1.FlexPersistentVolumeSource{Driver: "example.com/disk"}
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "u"}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "u"}}
	claim.Spec.VolumeName, claim.Spec.AccessModes = "disk", volume.Spec.AccessModes
	claim.Spec.Resources.Requests = sizes("2Gi")
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: sizes("1Gi")}
	if err := server.Add(volume, claim); err != nil {
		log.Fatal(err)
	}
	if err := host.Run(); err != nil {
		log.Fatal(err)
	}
	client := server.Client(host.ExternalCaller()).CoreV1()
	volume, err := client.PersistentVolumes().Get(context.Background(), "disk", metav1.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	claim, err = client.PersistentVolumeClaims("default").Get(context.Background(), "data", metav1.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(volume.Spec.Capacity.Storage(), claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage])
	// Output:
	// 2Gi NodeResizePending
}
