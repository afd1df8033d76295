package provisioner_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sidecars/provisioner"
	"github.com/volsim/volsim/sim"
)

const hostLabel = "disk.example.com/host"

// localDriver is the driver of one node: its volumes are on that node.
type localDriver struct {
	csispec.ControllerServer
	node string
	free int64
	full bool // it refuses volumes although it reports free capacity
}

func (d *localDriver) place() *csispec.Topology {
	return &csispec.Topology{Segments: map[string]string{hostLabel: d.node}}
}

func (d *localDriver) GetCapacity(_ context.Context, r *csispec.GetCapacityRequest) (*csispec.GetCapacityResponse, error) {
	if r.GetAccessibleTopology().GetSegments()[hostLabel] != d.node {
		return &csispec.GetCapacityResponse{}, nil
	}
	return &csispec.GetCapacityResponse{AvailableCapacity: d.free}, nil
}

func (d *localDriver) CreateVolume(ctx context.Context, r *csispec.CreateVolumeRequest) (*csispec.CreateVolumeResponse, error) {
	if d.full {
		return nil, status.Error(codes.ResourceExhausted, "no space is left")
	}
	made, err := d.ControllerServer.CreateVolume(ctx, r)
	if err == nil {
		made.Volume.AccessibleTopology = []*csispec.Topology{d.place()}
	}
	return made, err
}

// localWorld is a world with a provisioner on each of two nodes.
type localWorld struct {
	*world
	drivers []*localDriver
}

func newLocalWorld(t *testing.T, cfg provisioner.Config, on provisioner.NodeDeployment) *localWorld {
	t.Helper()
	w := &localWorld{world: &world{World: testworld.New(t, sim.SteppedConfig{StepsMax: 20_000})}}
	for _, node := range []string{"node-1", "node-2"} {
		disks := array.New(array.Config{CapacityBytes: 10 << 30})
		d := &localDriver{ControllerServer: disks.Controller(), node: node, free: 10 << 30}
		w.drivers = append(w.drivers, d)
		c := w.Host.Process("provisioner(" + node + ")")
		cfg, on := cfg, on
		on.Node, on.NodeID, on.Segments = node, node, d.place().GetSegments()
		cfg.Process, cfg.Client, cfg.Informers, cfg.DriverName = c, w.Server.Client(c), w.Server.Informers(c), driverName
		cfg.Recorder = events.New(events.Config{Process: c, Client: w.Server.Client(c), Source: driverName})
		cfg.Conn = csi.Suspend(c, driverName, csi.Direct(func(r grpc.ServiceRegistrar) { csispec.RegisterControllerServer(r, d) }))
		cfg.Topology, cfg.StrictTopology, cfg.NodeDeployment = true, true, &on
		testcheck.Must(provisioner.New(cfg))
	}
	newBinder(w.Host, w.Server)
	return w
}

// placed returns the node of a claim, and that of its volume; "" if there is none.
func (w *localWorld) placed(claim string) (selected, volume string) {
	w.Helper()
	is := w.claim(claim)
	if is.Spec.VolumeName != "" {
		v := testcheck.Must(w.User.CoreV1().PersistentVolumes().Get(context.Background(), is.Spec.VolumeName, metav1.GetOptions{}))
		volume = v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
		if identity := v.Spec.CSI.VolumeAttributes["storage.kubernetes.io/csiProvisionerIdentity"]; !strings.HasSuffix(identity, "-"+volume) {
			w.Errorf("identity %q of the provisioner of %s", identity, volume)
		}
	}
	return is.Annotations["volume.kubernetes.io/selected-node"], volume
}

func TestNodeDeployment(t *testing.T) {
	const immediate, late = storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer
	only2 := []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: hostLabel, Values: []string{"node-2"}}}}}
	tests := []struct {
		name    string
		binding storagev1.VolumeBindingMode
		allowed []corev1.TopologySelectorTerm
		on      provisioner.NodeDeployment
		change  func(w *localWorld, claim *corev1.PersistentVolumeClaim)
		node    string // that gets the volume; "any", or "" for none
	}{
		{"immediate", immediate, nil, provisioner.NodeDeployment{}, nil, "any"},
		{"immediate, one node is full", immediate, nil, provisioner.NodeDeployment{}, func(w *localWorld, _ *corev1.PersistentVolumeClaim) { w.drivers[0].free = 1 << 20 }, "node-2"},
		{"immediate, all nodes are full", immediate, nil, provisioner.NodeDeployment{}, func(w *localWorld, _ *corev1.PersistentVolumeClaim) {
			w.drivers[0].free, w.drivers[1].free = 1<<20, 1<<20
		}, ""},
		{"immediate, one class allows one node", immediate, only2, provisioner.NodeDeployment{}, nil, "node-2"},
		{"immediate is not served", immediate, nil, provisioner.NodeDeployment{NoImmediateBinding: true}, nil, ""},
		{"a node is selected", late, nil, provisioner.NodeDeployment{}, func(_ *localWorld, claim *corev1.PersistentVolumeClaim) {
			metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "volume.kubernetes.io/selected-node", "node-2")
		}, "node-2"},
		{"no node is selected yet", late, nil, provisioner.NodeDeployment{}, nil, ""},
		{"another node is selected", late, nil, provisioner.NodeDeployment{}, func(_ *localWorld, claim *corev1.PersistentVolumeClaim) {
			metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "volume.kubernetes.io/selected-node", "node-3")
		}, ""},
		{"one node refuses although it reports capacity", immediate, nil, provisioner.NodeDeployment{}, func(w *localWorld, _ *corev1.PersistentVolumeClaim) { w.drivers[0].full = true }, "node-2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newLocalWorld(t, provisioner.Config{}, tt.on)
			class := newClass("fast", tt.binding)
			class.AllowedTopologies = tt.allowed
			w.class(class)
			claim := newClaim("data", "fast")
			if tt.change != nil {
				tt.change(w, claim)
			}
			w.create(claim)
			w.NoError(w.Host.Run())
			selected, volume := w.placed("data")
			if tt.node == "any" {
				tt.node = selected
			}
			if volume != tt.node || volume != "" && selected != volume {
				t.Fatalf("node %q is selected, and the volume is on %q; want %q\n%s", selected, volume, tt.node, w.Host.Log().Text())
			}
			if volume == "" {
				return
			}
			w.delete("data")
			w.NoError(w.Host.Run())
			testcheck.Equal(t, "volumes that are left", 0, len(w.volumes()))
		})
	}
}

// TestContestTakesItsTime checks the delays: within BaseDelay, and not the same on all nodes.
func TestContestTakesItsTime(t *testing.T) {
	w := newLocalWorld(t, provisioner.Config{}, provisioner.NodeDeployment{BaseDelay: 10 * time.Second})
	w.class(newClass("fast", storagev1.VolumeBindingImmediate))
	var owners []string
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		began := w.Host.Now()
		w.create(newClaim(name, "fast"))
		w.NoError(w.Host.Run())
		owner, _ := w.placed(name)
		owners = append(owners, owner)
		if took := w.Host.Now().Sub(began); took > 10*time.Second {
			t.Errorf("claim %s has its node after %v", name, took)
		}
	}
	slices.Sort(owners)
	testcheck.Equal(t, "nodes that own claims", []string{"node-1", "node-2"}, slices.Compact(owners))
}

// TestCapacityOfANode has objects of each node's provisioner, with its label.
func TestCapacityOfANode(t *testing.T) {
	w := newLocalWorld(t, provisioner.Config{CapacityNamespace: "default"}, provisioner.NodeDeployment{})
	w.class(newClass("fast", storagev1.VolumeBindingWaitForFirstConsumer))
	w.NoError(w.Host.Run())
	var got []string
	for _, obj := range w.Server.List("csistoragecapacities") {
		o := obj.(*storagev1.CSIStorageCapacity)
		got = append(got, o.NodeTopology.MatchLabels[hostLabel]+" "+o.Labels["csi.storage.k8s.io/managed-by"]+" "+o.Capacity.String())
	}
	slices.Sort(got)
	testcheck.Equal(t, "objects", []string{"node-1 external-provisioner-node-1 10Gi", "node-2 external-provisioner-node-2 10Gi"}, got)
}
