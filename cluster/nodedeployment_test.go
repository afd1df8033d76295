package cluster_test

import (
	"context"
	"strings"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// A nodeLocal is the services of a driver on a node, whose volumes are on that node.
type nodeLocal struct {
	csispec.IdentityServer
	csispec.ControllerServer
	csispec.NodeServer
	node  string
	place *csispec.Topology
}

func newNodeLocal(at cluster.DriverNode) (func(grpc.ServiceRegistrar), error) {
	disks := array.New(array.Config{DriverName: "local.example.com"})
	d := &nodeLocal{
		disks.Identity(), disks.Controller(), disks.Node(at.Name, at.Disk.(*nodefs.Memory)), at.Name,
		&csispec.Topology{Segments: map[string]string{"local.example.com/node": at.Name}},
	}
	return func(r grpc.ServiceRegistrar) {
		csispec.RegisterIdentityServer(r, d)
		csispec.RegisterControllerServer(r, d)
		csispec.RegisterNodeServer(r, d)
	}, nil
}

func (d *nodeLocal) GetPluginCapabilities(
	context.Context, *csispec.GetPluginCapabilitiesRequest,
) (*csispec.GetPluginCapabilitiesResponse, error) {
	return &csispec.GetPluginCapabilitiesResponse{Capabilities: []*csispec.PluginCapability{{Type: &csispec.PluginCapability_Service_{
		Service: &csispec.PluginCapability_Service{Type: csispec.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS},
	}}}}, nil
}

func (d *nodeLocal) NodeGetInfo(ctx context.Context, r *csispec.NodeGetInfoRequest) (*csispec.NodeGetInfoResponse, error) {
	info, err := d.NodeServer.NodeGetInfo(ctx, r)
	if err == nil {
		info.AccessibleTopology = d.place
	}
	return info, err
}

func (d *nodeLocal) CreateVolume(ctx context.Context, r *csispec.CreateVolumeRequest) (*csispec.CreateVolumeResponse, error) {
	made, err := d.ControllerServer.CreateVolume(ctx, r)
	if err == nil {
		made.Volume.AccessibleTopology = []*csispec.Topology{d.place}
	}
	return made, err
}

// attach attaches a volume to its node, since there is no attacher.
func (d *nodeLocal) attach(ctx context.Context, volume string, capability *csispec.VolumeCapability) (map[string]string, error) {
	attached, err := d.ControllerPublishVolume(ctx, &csispec.ControllerPublishVolumeRequest{
		VolumeId: volume, NodeId: d.node, VolumeCapability: capability,
	})
	return attached.GetPublishContext(), err
}

func (d *nodeLocal) NodeStageVolume(
	ctx context.Context, r *csispec.NodeStageVolumeRequest,
) (answer *csispec.NodeStageVolumeResponse, err error) {
	if r.PublishContext, err = d.attach(ctx, r.GetVolumeId(), r.GetVolumeCapability()); err != nil {
		return nil, err
	}
	return d.NodeServer.NodeStageVolume(ctx, r)
}

func (d *nodeLocal) NodePublishVolume(
	ctx context.Context, r *csispec.NodePublishVolumeRequest,
) (answer *csispec.NodePublishVolumeResponse, err error) {
	if r.PublishContext, err = d.attach(ctx, r.GetVolumeId(), r.GetVolumeCapability()); err != nil {
		return nil, err
	}
	return d.NodeServer.NodePublishVolume(ctx, r)
}

func (d *nodeLocal) NodeUnstageVolume(ctx context.Context, r *csispec.NodeUnstageVolumeRequest) (*csispec.NodeUnstageVolumeResponse, error) {
	answer, err := d.NodeServer.NodeUnstageVolume(ctx, r)
	if err == nil {
		_, err = d.ControllerUnpublishVolume(ctx, &csispec.ControllerUnpublishVolumeRequest{VolumeId: r.GetVolumeId(), NodeId: d.node})
	}
	return answer, err
}

// TestProvisionerOnEachNode has a driver without a controller of its own: each node's services make the volumes there. A
// pod gets its volume on the node that the scheduler selects, another claim on the node that owns it first.
func TestProvisionerOnEachNode(t *testing.T) {
	t.Parallel()
	for name, stepped := range map[string]*sim.SteppedConfig{"stepped": {StepsMax: 50_000}, "live": nil} {
		t.Run(name, func(t *testing.T) {
			const driver = "local.example.com"
			late, no := storagev1.VolumeBindingWaitForFirstConsumer, false
			cfg := cluster.Config{WithoutDriver: true, Nodes: 2, Devices: cluster.Array, Stepped: stepped, Drivers: []cluster.Driver{{
				Name: driver, Node: newNodeLocal,
				CSIDriver: &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: &no}},
				Classes: []runtime.Object{
					&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "late"}, VolumeBindingMode: &late},
					&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "now"}},
				},
				Sidecars: cluster.Sidecars{NodeDeployment: true, StrictTopology: true},
			}}}
			if stepped == nil {
				cfg.ClockSpeed = 100
			}
			c := start(t, cfg)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			for _, node := range []string{"node-1", "node-2"} {
				component := "provisioner(" + driver + "@" + node + ")"
				testcheck.NoError(t, c.StopDriver(node, driver), c.Crash(component), c.StartDriver(node, driver))
			}
			claims := map[string]string{"of-the-pod": "late", "other": "now"}
			for name, class := range claims {
				claim := cluster.NewClaim(name, "1Gi")
				claim.Spec.StorageClassName = &class
				add(t, c, claim)
			}
			pod := cluster.NewPod("web", "of-the-pod")
			pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-2"}
			add(t, c, pod)
			testcheck.NoError(t, c.WaitForPod(ctx, "default", "web", corev1.PodRunning),
				c.WaitForClaim(ctx, "default", "other", corev1.ClaimBound))
			testcheck.NoError(t, c.WriteFile("default", "web", "of-the-pod", "f", []byte("here")),
				c.Client().CoreV1().Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}))
			for name := range claims {
				testcheck.NoError(t, c.Client().CoreV1().PersistentVolumeClaims("default").Delete(ctx, name, metav1.DeleteOptions{}),
					c.WaitForGone(ctx, "persistentvolumeclaims", "default", name))
			}
			testcheck.NoError(t, c.WaitForRest(ctx))
			testcheck.Equal(t, "volumes that are left", 0, len(c.Server().List("persistentvolumes")))
		})
	}
}

// TestNodeDeploymentNeedsNodes refuses a driver without services on the nodes.
func TestNodeDeploymentNeedsNodes(t *testing.T) {
	t.Parallel()
	disks := array.New(array.Config{DriverName: "local.example.com"})
	_, err := cluster.New(cluster.Config{WithoutDriver: true, Stepped: &sim.SteppedConfig{}, Drivers: []cluster.Driver{{
		Name: "local.example.com", Sidecars: cluster.Sidecars{NodeDeployment: true},
		Controller: func(cluster.DriverNode) (func(grpc.ServiceRegistrar), error) {
			return func(r grpc.ServiceRegistrar) { csispec.RegisterControllerServer(r, disks.Controller()) }, nil
		},
	}}})
	if want := `driver "local.example.com": NodeDeployment without services on the nodes`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}
