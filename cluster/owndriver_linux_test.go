package cluster_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/sidecars/registrar"
)

const ownDriver = "own.example.com"

// directories is the node service of a CSI driver with directories as volumes.
type directories struct {
	csispec.UnimplementedNodeServer
	dir string
}

func (d *directories) NodeGetInfo(context.Context, *csispec.NodeGetInfoRequest) (*csispec.NodeGetInfoResponse, error) {
	return &csispec.NodeGetInfoResponse{
		NodeId: "own-1", MaxVolumesPerNode: 7,
		AccessibleTopology: &csispec.Topology{Segments: map[string]string{"own.example.com/zone": "z"}},
	}, nil
}

func (d *directories) NodeGetCapabilities(context.Context,
	*csispec.NodeGetCapabilitiesRequest,
) (*csispec.NodeGetCapabilitiesResponse, error) {
	return &csispec.NodeGetCapabilitiesResponse{}, nil
}

func (d *directories) NodePublishVolume(_ context.Context,
	r *csispec.NodePublishVolumeRequest,
) (*csispec.NodePublishVolumeResponse, error) {
	source := filepath.Join(d.dir, r.GetVolumeId())
	for _, dir := range []string{source, r.GetTargetPath()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	return &csispec.NodePublishVolumeResponse{}, unix.Mount(source, r.GetTargetPath(), "", unix.MS_BIND, "")
}

func (d *directories) NodeUnpublishVolume(_ context.Context,
	r *csispec.NodeUnpublishVolumeRequest,
) (*csispec.NodeUnpublishVolumeResponse, error) {
	if err := unix.Unmount(r.GetTargetPath(), 0); err != nil && err != unix.EINVAL && err != unix.ENOENT {
		return nil, err
	}
	return &csispec.NodeUnpublishVolumeResponse{}, os.RemoveAll(r.GetTargetPath())
}

// serveAt runs a gRPC server at a unix socket, and returns a function that stops it and removes the
// socket.
func serveAt(t *testing.T, socket string, offer func(grpc.ServiceRegistrar)) (stop func()) {
	t.Helper()
	testcheck.NoError(t, os.MkdirAll(filepath.Dir(socket), 0o755))
	listener, err := net.Listen("unix", socket)
	testcheck.NoError(t, err)
	server := grpc.NewServer()
	offer(server)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	return func() {
		server.Stop()
		testcheck.NoError(t, <-done)
	}
}

// TestThirdPartyDriver registers a CSI driver with the kubelet of a node by sockets of this
// machine, uses a volume of it in a pod, and deregisters it.
func TestThirdPartyDriver(t *testing.T) {
	if err := loop.Probe(); err != nil {
		t.Skipf("loop devices: %v", err)
	}
	c, err := cluster.New(cluster.Config{Devices: cluster.Loop, Nodes: 1})
	testcheck.NoError(t, err)
	defer func() { testcheck.NoError(t, c.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	testcheck.NoError(t, c.Start(ctx))
	dir, err := c.KubeletDir("node-1")
	testcheck.NoError(t, err)

	driver := &directories{dir: filepath.Join(t.TempDir(), "own")}
	socket := filepath.Join(dir, "plugins", ownDriver, "csi.sock")
	stopDriver := serveAt(t, socket, func(s grpc.ServiceRegistrar) { csispec.RegisterNodeServer(s, driver) })
	announces := registrar.New(ownDriver, socket)
	stopRegistrar := serveAt(t, filepath.Join(dir, "plugins_registry", ownDriver+"-reg.sock"), announces.Register)
	entry := func() *storagev1.CSINodeDriver {
		own, there := c.Server().Get("csinodes", "", "node-1")
		if !there {
			return nil
		}
		for _, d := range own.(*storagev1.CSINode).Spec.Drivers {
			if d.Name == ownDriver {
				return &d
			}
		}
		return nil
	}
	testcheck.NoError(t, c.Wait(ctx, "the notification of the driver",
		func() bool { _, _, notified := announces.Status(); return notified }))
	if registered, why, _ := announces.Status(); !registered {
		t.Fatalf("not registered: %s", why)
	}
	if d := entry(); d == nil || d.NodeID != "own-1" || d.Allocatable == nil || *d.Allocatable.Count != 7 ||
		len(d.TopologyKeys) != 1 {
		t.Errorf("drivers of the CSINode: %v", d)
	}
	if node, _ := c.Server().Get("nodes", "", "node-1"); node.GetLabels()["own.example.com/zone"] != "z" {
		t.Errorf("labels of the Node: %v", node.GetLabels())
	}

	useOwnVolume(ctx, t, c)
	if content, err := os.ReadFile(filepath.Join(driver.dir, "disk", "file")); err != nil ||
		string(content) != "hello" {
		t.Errorf("content of the volume: %q, %v", content, err)
	}
	stopRegistrar()
	testcheck.NoError(t, c.Wait(ctx, "the driver to be unregistered", func() bool { return entry() == nil }))
	stopDriver()
	testcheck.NoError(t, c.WaitForRest(ctx))
}

// useOwnVolume uses a volume of the driver in a pod.
func useOwnVolume(ctx context.Context, t *testing.T, c *cluster.Cluster) {
	t.Helper()
	unattached, none := false, ""
	core, storage := c.Client().CoreV1(), c.Client().StorageV1()
	_, err := storage.CSIDrivers().Create(ctx, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: ownDriver}, Spec: storagev1.CSIDriverSpec{AttachRequired: &unattached},
	}, metav1.CreateOptions{})
	testcheck.NoError(t, err)
	_, err = core.PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "own"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: ownDriver, VolumeHandle: "disk"},
			},
		},
	}, metav1.CreateOptions{})
	testcheck.NoError(t, err)
	claim := cluster.NewClaim("data", "1Mi")
	claim.Spec.StorageClassName, claim.Spec.VolumeName = &none, "own"
	_, err = core.PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{})
	testcheck.NoError(t, err)
	_, err = core.Pods("default").Create(ctx, cluster.NewPod("web", "data"), metav1.CreateOptions{})
	testcheck.NoError(t, err)
	testcheck.NoError(t, c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
	testcheck.NoError(t, c.WriteFile("default", "web", "data", "file", []byte("hello")))
	testcheck.NoError(t, core.Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}))
	testcheck.NoError(t, c.WaitForGone(ctx, "pods", "default", "web"))
}
