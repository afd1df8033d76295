package provisioner

import (
	"context"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sidecars/internal/scripted"
	"github.com/volsim/volsim/sim"
)

// I10, I11: upstream sends a second request here. If the claim is deleted and the volume is deleted
// before that call reaches the driver, the volume is created again. Its object "already exists" but
// is being deleted, and the volume leaks.
func TestVolumeIsNotMadeTwiceThoughItsObjectIsNotSeenYet(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	disks := array.New(array.Config{})
	conn := &scripted.Conn{ClientConnInterface: csi.Direct(func(r grpc.ServiceRegistrar) {
		csispec.RegisterControllerServer(r, disks.Controller())
	})}
	component := host.Process("provisioner")
	c, err := New(Config{
		Process: component, Client: server.Client(component), Informers: server.Informers(component),
		Recorder: &record.FakeRecorder{}, DriverName: array.DriverName, Conn: csi.Suspend(component, array.DriverName, conn),
	})
	testcheck.NoError(t, err)
	seen := c.volumes
	c.volumes = corelisters.NewPersistentVolumeLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}))

	ctx, user := context.Background(), server.Client(host.ExternalCaller())
	check := func(_ any, err error) {
		t.Helper()
		if err == nil {
			err = host.Run()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	class := "fast"
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", Annotations: map[string]string{provisionerBetaAnnotation: array.DriverName}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	touch := func(value string) {
		t.Helper()
		check(user.CoreV1().PersistentVolumeClaims("default").Patch(ctx, "data", types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"touched":"`+value+`"}}}`), metav1.PatchOptions{}))
	}
	check(user.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: array.DriverName,
	}, metav1.CreateOptions{}))
	check(user.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{}))
	touch("once")
	if n := conn.Count("CreateVolume"); n != 1 {
		t.Errorf("CreateVolume called %d times, want 1", n)
	}

	// When the object was deleted, and is seen to be gone, the claim gets another.
	c.volumes = seen
	name := server.List("persistentvolumes")[0].GetName()
	check(user.CoreV1().PersistentVolumes().Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
	check(nil, user.CoreV1().PersistentVolumes().Delete(ctx, name, metav1.DeleteOptions{}))
	touch("twice")
	if n := conn.Count("CreateVolume"); n != 2 || len(server.List("persistentvolumes")) != 1 {
		t.Errorf("CreateVolume called %d times, %d PersistentVolumes; want 2, 1", n, len(server.List("persistentvolumes")))
	}
}
