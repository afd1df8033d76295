package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/plugins/array"
)

// A mixedWorld is a live cluster with snapshots, whose driver is the array. Some of our components are
// stopped, and upstream's programs do their work, with the same array on a socket.
type mixedWorld struct {
	*sidecarWorld
	disks    *array.Array
	programs string   // folder of the sidecars
	reach    []string // arguments of the programs
	socket   string
}

// ourCounterparts are our components, by the programs that they stand for.
var ourCounterparts = map[string]string{
	"csi-provisioner": "provisioner(" + driverName + ")", "csi-resizer": "resizer(" + driverName + ")",
	"csi-snapshotter": "snapshotter(" + driverName + ")", "snapshot-controller": "snapshotcontroller",
}

func newMixedWorld(t testing.TB, programs string) *mixedWorld {
	t.Helper()
	dir := t.TempDir()
	m := &mixedWorld{disks: array.New(array.Config{DriverName: driverName}), programs: programs, socket: "unix://" + filepath.Join(dir, "csi.sock")}
	register, err := m.controller(cluster.DriverNode{})
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, register, filepath.Join(dir, "csi.sock"))
	w := newServedWorld(t, cluster.Config{
		Devices: cluster.Array, Nodes: 1, WithoutDriver: true, Snapshots: true,
		Drivers: []cluster.Driver{{Name: driverName, Controller: m.controller, Classes: []runtime.Object{
			&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "real"}, AllowVolumeExpansion: ptr.To(true)},
			&storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Parameters: map[string]string{"iops": "9000"}},
		}}},
	})
	m.sidecarWorld = w
	m.reach = []string{"--kube-api-qps=1000", "--kube-api-burst=1000", "--retry-interval-start=100ms"}
	w.createSnapshotClass()
	return m
}

// controller returns what registers the services of the array's controller.
func (m *mixedWorld) controller(cluster.DriverNode) (func(grpc.ServiceRegistrar), error) {
	return func(r grpc.ServiceRegistrar) {
		csi.RegisterIdentityServer(r, m.disks.Identity())
		csi.RegisterControllerServer(r, m.disks.Controller())
		csi.RegisterGroupControllerServer(r, m.disks.GroupController())
	}, nil
}

// serveOn serves a driver on a unix socket until the end of the test.
func serveOn(t testing.TB, register func(grpc.ServiceRegistrar), socket string) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	register(server)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// with runs do while programs of upstream's do the work of our components.
func (m *mixedWorld) with(programs []string, do func()) {
	m.t.Helper()
	for _, program := range programs {
		if err := m.served.cluster.Stop(ourCounterparts[program]); err != nil {
			m.t.Fatal(err)
		}
		args := slices.Clone(m.reach)
		if program != "snapshot-controller" {
			args = append(args, "--csi-address="+m.socket)
		}
		if program == "csi-provisioner" {
			args = append(args, "--worker-threads=1") // see settled
		}
		end := m.run(filepath.Join(m.programs, program), args)
		defer func() {
			end()
			if err := m.served.cluster.Resume(ourCounterparts[program]); err != nil {
				m.t.Error(err)
			}
		}()
	}
	do()
}

// source returns a data source of a claim.
func source(kind, name string) *corev1.TypedLocalObjectReference {
	s := &corev1.TypedLocalObjectReference{Kind: kind, Name: name}
	if kind == "VolumeSnapshot" {
		s.APIGroup = &snapshots.Group
	}
	return s
}

// snapshotAndRestore takes a snapshot of a claim and restores it into another one.
func (m *mixedWorld) snapshotAndRestore() {
	m.t.Helper()
	claims := m.client.CoreV1().PersistentVolumeClaims("default")
	m.snapshot("snap", "data")
	m.create(claims.Create(m.t.Context(), m.claim("restored", source("VolumeSnapshot", "snap")), metav1.CreateOptions{}))
	m.bound("restored")
}

// provisioned creates a claim and waits for its volume.
func (m *mixedWorld) provisioned() {
	m.t.Helper()
	m.create(m.client.CoreV1().PersistentVolumeClaims("default").Create(m.t.Context(), m.claim("data", nil), metav1.CreateOptions{}))
	m.bound("data")
}

// settled waits until nothing works on the claims and the snapshot any more. Deleted before that, they may
// last: upstream's provisioner may provision a bound claim again, with a stale cache, and make its volume
// again or protect its snapshot again; upstream's snapshotter ignores a deletion that its own last
// write of the content already had.
func (m *mixedWorld) settled() {
	m.t.Helper()
	m.wait("the content without annotation", func(ctx context.Context) (bool, error) {
		all, err := m.dynamic.Resource(contents).List(ctx, metav1.ListOptions{})
		if err != nil || len(all.Items) != 1 || all.Items[0].GetAnnotations()[beingCreated] != "" {
			return false, remaining(all, err)
		}
		return true, nil
	})
	// A single worker refuses this claim after its work on the others.
	m.create(m.client.CoreV1().PersistentVolumeClaims("default").Create(m.t.Context(), m.claim("last", source("PersistentVolumeClaim", "absent")), metav1.CreateOptions{}))
	m.wait("the refusal of the last claim", func(ctx context.Context) (bool, error) {
		events, err := m.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.Name == "last" && e.Reason == "ProvisioningFailed"
		}), errors.New("no event ProvisioningFailed")
	})
	if err := m.client.CoreV1().Events("default").DeleteCollection(m.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		m.t.Fatal(err)
	}
}

// beingCreated is the annotation of a content while the driver takes the snapshot.
const beingCreated = "snapshot.storage.kubernetes.io/volumesnapshot-being-created"

// runMixedWithOurs runs the life of a snapshot several times, each time with another of upstream's programs.
func runMixedWithOurs(t *testing.T, programs string) {
	m := newMixedWorld(t, programs)
	for _, real := range [][]string{
		{"csi-snapshotter"},
		{"snapshot-controller"},
		{"csi-provisioner"},
		{"csi-resizer"},
		{"csi-snapshotter", "csi-provisioner"},
	} {
		m.with(real, func() { m.liveOnce(real) })
	}
	m.refusals()
}

// liveOnce provisions, snapshots, restores, clones, modifies, and deletes.
func (m *mixedWorld) liveOnce(real []string) {
	m.t.Helper()
	claims := m.client.CoreV1().PersistentVolumeClaims("default")
	m.provisioned()
	m.snapshotAndRestore()
	m.create(claims.Create(m.t.Context(), m.claim("cloned", source("PersistentVolumeClaim", "data")), metav1.CreateOptions{}))
	m.bound("cloned")
	m.patchClaim("cloned", `{"spec":{"volumeAttributesClassName":"fast"}}`)
	m.wait("the modification", func(ctx context.Context) (bool, error) {
		c, err := claims.Get(ctx, "cloned", metav1.GetOptions{})
		return err == nil && ptr.Deref(c.Status.CurrentVolumeAttributesClassName, "") == "fast", err
	})
	var sources, modified int
	for _, v := range m.disks.Volumes() {
		if v.SourceID != "" {
			sources++
		}
		if v.Settings["iops"] == "9000" {
			modified++
		}
	}
	if n := len(m.disks.Snapshots()); n != 1 || sources != 2 || modified != 1 {
		m.t.Errorf("with %q: %d snapshots, %d copies, %d modified volumes, want 1, 2 and 1", real, n, sources, modified)
	}
	m.settled()
	m.tearDown()
	m.wait("the array to be empty", func(context.Context) (bool, error) {
		volumes, left := m.disks.Volumes(), m.disks.Snapshots()
		return len(volumes)+len(left) == 0, fmt.Errorf("remaining: %v, %v", volumes, left)
	})
}

// BenchmarkSnapshotRestore measures how long it takes from the creation of a snapshot of a claim until
// another claim, which restores it, is bound: with our components only, and with upstream's snapshot-controller,
// csi-snapshotter and csi-provisioner as processes instead of ours. Both use the same API server and driver.
func BenchmarkSnapshotRestore(b *testing.B) {
	programs := buildSidecars(b, b.TempDir())
	for _, bench := range []struct {
		name string
		real []string
	}{{"ours", nil}, {"upstream", []string{"snapshot-controller", "csi-snapshotter", "csi-provisioner"}}} {
		b.Run(bench.name, func(b *testing.B) {
			m := newMixedWorld(b, programs)
			m.with(bench.real, func() {
				var took []time.Duration
				for i := 0; b.Loop(); i++ {
					m.provisioned()
					at := time.Now()
					m.snapshotAndRestore()
					took = append(took, time.Since(at))
					m.tearDown()
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			})
		})
	}
}
