package provisioner_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sidecars/provisioner"
	"github.com/volsim/volsim/sim"
)

// zonal is a driver with free bytes in each zone, in which it provisions volumes.
type zonal struct {
	grpc.ClientConnInterface
	free  map[string]int64
	fails bool
	asked int
}

// Invoke answers GetCapacity and creates volumes in the preferred zone.
func (z *zonal) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	const zone = "zone"
	switch r := request.(type) {
	case *csispec.GetCapacityRequest:
		z.asked++
		if z.fails {
			return status.Error(codes.Unavailable, "not now")
		}
		free := z.free[r.GetAccessibleTopology().GetSegments()[zone]]
		proto.Merge(reply.(proto.Message), &csispec.GetCapacityResponse{AvailableCapacity: free, MaximumVolumeSize: wrapperspb.Int64(free / 2)})
		return nil
	case *csispec.CreateVolumeRequest:
		if err := z.ClientConnInterface.Invoke(ctx, method, request, reply, options...); err != nil {
			return err
		}
		volume := reply.(*csispec.CreateVolumeResponse).GetVolume()
		volume.AccessibleTopology = r.GetAccessibilityRequirements().GetPreferred()[:1]
		z.free[volume.GetAccessibleTopology()[0].GetSegments()[zone]] -= r.GetCapacityRange().GetRequiredBytes()
		return nil
	}
	return z.ClientConnInterface.Invoke(ctx, method, request, reply, options...)
}

const gib = 1 << 30

// publishing returns a world whose provisioner publishes the capacity of two zones, in which a class
// "late" exists.
func publishing(t *testing.T, chooser sim.Chooser, change func(cfg *provisioner.Config)) (*world, *zonal) {
	t.Helper()
	cfg := provisioner.Config{Topology: true, StrictTopology: true, CapacityNamespace: "kube-system"}
	if change != nil {
		change(&cfg)
	}
	w := newWorldWith(t, chooser, cfg)
	driver := &zonal{ClientConnInterface: w.conn.ClientConnInterface, free: map[string]int64{"a": 4 * gib, "b": 8 * gib}}
	w.conn.ClientConnInterface = driver
	w.class(newClass("late", storagev1.VolumeBindingWaitForFirstConsumer))
	w.node("node-1", "a")
	w.node("node-2", "b")
	w.node("node-3", "b")
	return w, driver
}

// published returns the objects as text: class, segment, capacity and maximum volume size, sorted.
func (w *world) published() []string {
	var texts []string
	for _, obj := range w.Server.List("csistoragecapacities") {
		o := obj.(*storagev1.CSIStorageCapacity)
		texts = append(texts, fmt.Sprintf("%s %s %s %s", o.StorageClassName, metav1.FormatLabelSelector(o.NodeTopology), o.Capacity, o.MaximumVolumeSize))
	}
	slices.Sort(texts)
	return texts
}

func (w *world) wantPublished(want ...string) {
	w.Helper()
	w.Run()
	if diff := cmp.Diff(want, w.published()); diff != "" {
		w.Errorf("published capacities (-want +got):\n%s", diff)
	}
}

func TestCapacityIsPublished(t *testing.T) {
	t.Parallel()
	owner := &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "driver", UID: "u", Controller: ptr(true)}
	w, _ := publishing(t, sim.FIFO{}, func(cfg *provisioner.Config) { cfg.CapacityOwner = owner })
	w.class(newClass("fast", storagev1.VolumeBindingImmediate))
	w.class(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Provisioner: "other.example.com", VolumeBindingMode: ptr(storagev1.VolumeBindingWaitForFirstConsumer)})
	w.wantPublished("late zone=a 4Gi 2Gi", "late zone=b 8Gi 4Gi")
	for _, obj := range w.Server.List("csistoragecapacities") {
		want := map[string]string{"csi.storage.k8s.io/drivername": driverName, "csi.storage.k8s.io/managed-by": "external-provisioner"}
		if diff := cmp.Diff(want, obj.GetLabels()); diff != "" || !strings.HasPrefix(obj.GetName(), "csisc-") || obj.GetNamespace() != "kube-system" {
			t.Errorf("%s/%s: labels (-want +got):\n%s", obj.GetNamespace(), obj.GetName(), diff)
		}
		if diff := cmp.Diff([]metav1.OwnerReference{*owner}, obj.GetOwnerReferences()); diff != "" {
			t.Errorf("owners (-want +got):\n%s", diff)
		}
	}
}

func TestCapacityFollowsClassesAndTopology(t *testing.T) {
	t.Parallel()
	w, _ := publishing(t, sim.FIFO{}, nil)
	w.wantPublished("late zone=a 4Gi 2Gi", "late zone=b 8Gi 4Gi")
	w.class(newClass("later", storagev1.VolumeBindingWaitForFirstConsumer))
	w.wantPublished("late zone=a 4Gi 2Gi", "late zone=b 8Gi 4Gi", "later zone=a 4Gi 2Gi", "later zone=b 8Gi 4Gi")
	testcheck.NoError(t, w.User.StorageV1().StorageClasses().Delete(context.Background(), "late", metav1.DeleteOptions{}))
	w.wantPublished("later zone=a 4Gi 2Gi", "later zone=b 8Gi 4Gi")
	testcheck.NoError(t, w.User.CoreV1().Nodes().Delete(context.Background(), "node-2", metav1.DeleteOptions{}))
	w.wantPublished("later zone=a 4Gi 2Gi", "later zone=b 8Gi 4Gi")
	testcheck.NoError(t, w.User.CoreV1().Nodes().Delete(context.Background(), "node-3", metav1.DeleteOptions{}))
	w.wantPublished("later zone=a 4Gi 2Gi")
	testcheck.NoError(t, w.User.StorageV1().CSINodes().Delete(context.Background(), "node-1", metav1.DeleteOptions{}))
	w.wantPublished()
}

func TestCapacityOfImmediateBinding(t *testing.T) {
	t.Parallel()
	w, _ := publishing(t, sim.FIFO{}, func(cfg *provisioner.Config) { cfg.CapacityImmediate = true })
	w.class(newClass("fast", storagev1.VolumeBindingImmediate))
	w.wantPublished("fast zone=a 4Gi 2Gi", "fast zone=b 8Gi 4Gi", "late zone=a 4Gi 2Gi", "late zone=b 8Gi 4Gi")
}

// TestCapacityIsRefreshed checks that the capacity follows volumes at once, and other changes when the driver
// is asked again.
func TestCapacityIsRefreshed(t *testing.T) {
	t.Parallel()
	w, driver := publishing(t, sim.FIFO{}, func(cfg *provisioner.Config) { cfg.CapacityPollPeriod = time.Hour })
	w.wantPublished("late zone=a 4Gi 2Gi", "late zone=b 8Gi 4Gi")
	before := w.Host.Now()
	w.create(newClaim("data", "late"))
	w.selectNode("data", "node-1")
	w.wantPublished("late zone=a 3Gi 1536Mi", "late zone=b 8Gi 4Gi")
	if passed := w.Host.Now().Sub(before); passed < time.Hour {
		t.Errorf("%v have passed; the period is an hour", passed)
	}
	driver.free["b"] = gib // by another user of the storage
	w.touch("data")
	w.wantPublished("late zone=a 3Gi 1536Mi", "late zone=b 1Gi 512Mi")
	driver.free["a"] = 4 * gib
	w.delete("data")
	w.wantPublished("late zone=a 4Gi 2Gi", "late zone=b 1Gi 512Mi")
}

func TestCapacityOfADriverThatFails(t *testing.T) {
	t.Parallel()
	w, driver := publishing(t, sim.FIFO{}, nil)
	driver.fails = true
	w.wantPublished()
	if driver.asked == 0 {
		t.Error("the driver was not asked")
	}
	driver.fails = false
	w.class(newClass("fast", storagev1.VolumeBindingImmediate)) // any change
	w.wantPublished("late zone=a 4Gi 2Gi", "late zone=b 8Gi 4Gi")
}

// TestOtherCapacityObjects checks which objects of others are changed and removed.
func TestOtherCapacityObjects(t *testing.T) {
	t.Parallel()
	w, _ := publishing(t, sim.FIFO{}, nil)
	object := func(name, namespace, class, zone string, managed bool) {
		o := &storagev1.CSIStorageCapacity{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StorageClassName: class,
			NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": zone}}, Capacity: ptr(resource.MustParse("1")),
		}
		if managed {
			o.Labels = map[string]string{"csi.storage.k8s.io/drivername": driverName, "csi.storage.k8s.io/managed-by": "external-provisioner"}
		}
		testcheck.Must(w.User.StorageV1().CSIStorageCapacities(namespace).Create(context.Background(), o, metav1.CreateOptions{}))
	}
	object("taken", "kube-system", "late", "a", true)
	object("twice", "kube-system", "late", "a", true)
	object("gone", "kube-system", "gone", "a", true)
	object("manual", "kube-system", "gone", "a", false)
	object("elsewhere", "default", "late", "a", true)
	w.Run()
	var names []string
	for _, obj := range w.Server.List("csistoragecapacities") {
		names = append(names, obj.GetName()[:5])
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"csisc", "elsew", "manua", "taken"}, names); diff != "" {
		t.Fatalf("objects (-want +got):\n%s", diff)
	}
	objects := w.User.StorageV1().CSIStorageCapacities("kube-system")
	taken := testcheck.Must(objects.Get(context.Background(), "taken", metav1.GetOptions{}))
	if taken.Capacity.Value() != 4*gib {
		t.Errorf("capacity %v", taken.Capacity)
	}
	testcheck.NoError(t, objects.Delete(context.Background(), "taken", metav1.DeleteOptions{}))
	w.wantPublished("gone zone=a 1 <nil>", "late zone=a 1 <nil>", "late zone=a 4Gi 2Gi", "late zone=b 8Gi 4Gi")
}

// TestCapacityUnderSchedules checks that there is one object for each class and zone, with the driver's
// capacity, however the tasks are ordered.
func TestCapacityUnderSchedules(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		w, driver := publishing(t, sim.NewSeeded(seed), nil)
		c := w.Host.Process("user")
		client := w.Server.Client(c)
		c.User("uses", func(ctx context.Context) {
			for i := range 3 {
				claim := newClaim(fmt.Sprint("data-", i), "late")
				claim.Annotations["volume.kubernetes.io/selected-node"] = fmt.Sprint("node-", i+1)
				testcheck.Must(client.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{}))
			}
			testcheck.NoError(t, client.StorageV1().StorageClasses().Delete(ctx, "late", metav1.DeleteOptions{}))
			testcheck.Must(client.StorageV1().StorageClasses().Create(ctx, newClass("late", storagev1.VolumeBindingWaitForFirstConsumer), metav1.CreateOptions{}))
		})
		w.Run()
		var want []string
		for _, zone := range []string{"a", "b"} {
			want = append(want, fmt.Sprintf("late zone=%s %s %s", zone, resource.NewQuantity(driver.free[zone], resource.BinarySI),
				resource.NewQuantity(driver.free[zone]/2, resource.BinarySI)))
		}
		if diff := cmp.Diff(want, w.published()); diff != "" {
			t.Errorf("seed %d (-want +got):\n%s", seed, diff)
		}
	}
}

// TestRestartTakesWhatIsPublished checks that a provisioner that starts again creates nothing.
func TestRestartTakesWhatIsPublished(t *testing.T) {
	t.Parallel()
	w, _ := publishing(t, sim.FIFO{}, nil)
	w.wantPublished("late zone=a 4Gi 2Gi", "late zone=b 8Gi 4Gi")
	before := w.Server.List("csistoragecapacities")
	w.Host.Crash(w.process)
	w.start()
	w.wantPublished("late zone=a 4Gi 2Gi", "late zone=b 8Gi 4Gi")
	for i, obj := range w.Server.List("csistoragecapacities") {
		if obj.GetUID() != before[i].GetUID() {
			t.Errorf("%s is another object", obj.GetName())
		}
	}
}
