package cluster_test

import (
	"context"
	"slices"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// The scheduler takes no step for the capacities of a driver unless it must look at them.
func TestCapacitiesCostNoSteps(t *testing.T) {
	t.Parallel()
	w := testcheck.Must(cluster.New(cluster.Config{PreRegistered: true, Stepped: &sim.SteppedConfig{}}))
	defer w.Close()
	host, storage := w.Host().(*sim.Stepped), w.Client().StorageV1()
	ctx, opts := context.Background(), metav1.CreateOptions{}
	publish := func(name string) {
		free := resource.MustParse("1Gi")
		testcheck.Must(storage.CSIStorageCapacities("default").Create(ctx, &storagev1.CSIStorageCapacity{
			ObjectMeta: metav1.ObjectMeta{Name: name}, StorageClassName: "published", Capacity: &free,
		}, opts))
	}
	// steps reports whether the scheduler takes a step for a resource, and has it take all.
	steps := func(resource string) bool {
		t.Helper()
		takes := slices.Contains(host.Enabled(), "scheduler/cache "+resource)
		testcheck.NoError(t, host.Run())
		return takes
	}
	if steps("csidrivers") || steps("csistoragecapacities") {
		t.Error("a step for the first list")
	}
	publish("first")
	if !steps("csistoragecapacities") {
		t.Error("no step for the capacity of a class that is not known yet")
	}
	testcheck.Must(storage.StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "published"}, Provisioner: "publisher",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}, opts))
	testcheck.NoError(t, host.Run())
	publish("early")
	if steps("csistoragecapacities") {
		t.Error("a step for the capacity of an unknown driver")
	}
	testcheck.Must(storage.CSIDrivers().Create(ctx, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: "publisher"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: ptr.To(true)},
	}, opts))
	if !steps("csidrivers") {
		t.Error("no step for a driver that publishes its capacities")
	}
	publish("late")
	if !steps("csistoragecapacities") {
		t.Error("no step for a capacity that matters")
	}
}
