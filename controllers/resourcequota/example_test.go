package resourcequota_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/controllers/resourcequota"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// A quota is enforced once the controller has counted.
func Example() {
	ctx := context.Background()
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	process := host.Process("resourcequota")
	own := server.Client(process)
	resourcequota.New(resourcequota.Config{
		Process: process, Client: own, Informers: server.Informers(process),
		Metadata: own.Metadata(), Watcher: server.MetadataWatcher(process), Discover: own.ServerPreferredNamespacedResources,
	})

	client := server.Client(host.ExternalCaller()).CoreV1()
	claim := func(name string) error {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		_, err := client.PersistentVolumeClaims("default").Create(ctx, c, metav1.CreateOptions{})
		return err
	}
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "storage"}}
	q.Spec.Hard = corev1.ResourceList{"requests.storage": resource.MustParse("1Gi")}
	_, err := client.ResourceQuotas("default").Create(ctx, q, metav1.CreateOptions{})
	if err := errors.Join(err, host.Run(), claim("data")); err != nil {
		log.Fatal(err)
	}
	fmt.Println(claim("more"))
	// Output:
	// persistentvolumeclaims "more" is forbidden: exceeded quota: storage, requested: requests.storage=1Gi, used: requests.storage=1Gi, limited: requests.storage=1Gi
}
