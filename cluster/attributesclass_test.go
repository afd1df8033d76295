package cluster_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim"
)

// TestAttributesClassIsProtected checks, with all components, that a deleted VolumeAttributesClass
// stays as long as a volume has it.
func TestAttributesClassIsProtected(t *testing.T) {
	c, err := cluster.New(cluster.Config{Stepped: &sim.SteppedConfig{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	run := func() {
		t.Helper()
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	client := c.Client()
	name := "fast"
	disk := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	disk.Spec.VolumeAttributesClassName = &name
	class := &storagev1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: "disk.example.com", Parameters: map[string]string{"iops": "1"},
	}
	if _, err := client.StorageV1().VolumeAttributesClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Server().Add(disk); err != nil {
		t.Fatal(err)
	}
	if err := client.StorageV1().VolumeAttributesClasses().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	run()
	if _, exists := c.Server().Get("volumeattributesclasses", "", name); !exists {
		t.Fatal("the class is gone, though a volume has it")
	}
	if err := client.CoreV1().PersistentVolumes().Delete(t.Context(), "disk", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	run()
	if _, exists := c.Server().Get("volumeattributesclasses", "", name); exists {
		t.Error("the class still exists, though no volume has it")
	}
}
