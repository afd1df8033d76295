package pvcontroller_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/pvcontroller"
	"github.com/volsim/volsim/sim"
)

// A claim is bound to the smallest volume that is large enough.
func Example() {
	ctx := context.Background()
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	component := host.Process("pvcontroller")
	client := server.Client(component)
	pvcontroller.New(pvcontroller.Config{
		Process: component, Client: client, Informers: server.Informers(component),
		Recorder: events.New(events.Config{Process: component, Client: client, Source: pvcontroller.EventSource}),
	})

	user := server.Client(host.ExternalCaller()).CoreV1()
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	for _, size := range []string{"1Gi", "5Gi", "9Gi"} {
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk-of-" + strings.ToLower(size)}}
		volume.Spec.AccessModes = modes
		volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		volume.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/" + size}
		if _, err := user.PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil {
			log.Fatal(err)
		}
	}
	noClass, claims := "", user.PersistentVolumeClaims("default")
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	claim.Spec.AccessModes, claim.Spec.StorageClassName = modes, &noClass
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("4Gi")}
	_, made := claims.Create(ctx, claim, metav1.CreateOptions{})
	ran := host.Run()
	claim, err := claims.Get(ctx, "data", metav1.GetOptions{})
	fmt.Println(claim.Spec.VolumeName, claim.Status.Phase, errors.Join(made, ran, err))
	// Output: disk-of-5gi Bound <nil>
}
