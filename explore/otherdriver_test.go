package explore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/nodefs"
)

const otherDriver = "disk.example.com"

// arrayBackend is the actual state of an array that is a driver of the test's own.
type arrayBackend struct{ *array.Array }

func (b arrayBackend) Driver() string { return otherDriver }

func (b arrayBackend) Volumes() []invariant.Volume {
	var all []invariant.Volume
	for _, id := range b.IDs() {
		if v, ok := b.Volume(id); ok {
			all = append(all, v)
		}
	}
	return all
}

func (b arrayBackend) Volume(handle string) (invariant.Volume, bool) {
	v, ok := b.Array.Volume(handle)
	return invariant.Volume{Handle: v.ID, Name: v.Name, Attached: v.AttachedTo, Bytes: v.SizeBytes, FSBytes: v.FSBytes}, ok
}

// newOtherDriver returns a correct driver of the test's own, with or without its actual state.
func newOtherDriver(known bool) cluster.Driver {
	disks := array.New(array.Config{DriverName: otherDriver})
	d := cluster.Driver{
		Name: otherDriver,
		Controller: func(cluster.DriverNode) (func(grpc.ServiceRegistrar), error) {
			return func(r grpc.ServiceRegistrar) {
				csispec.RegisterIdentityServer(r, disks.Identity())
				csispec.RegisterControllerServer(r, disks.Controller())
			}, nil
		},
		Node: func(at cluster.DriverNode) (func(grpc.ServiceRegistrar), error) {
			server := disks.Node(at.Name, at.Disk.(*nodefs.Memory))
			return func(r grpc.ServiceRegistrar) {
				csispec.RegisterIdentityServer(r, disks.Identity())
				csispec.RegisterNodeServer(r, server)
			}, nil
		},
	}
	d.Classes = []runtime.Object{&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
		Name: cluster.ClassName, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
	}, AllowVolumeExpansion: ptr.To(true)}}
	if known {
		d.Backend = arrayBackend{disks}
	}
	return d
}

// withOtherDriver returns a scenario in which a driver of the test's own has the place of the array.
func withOtherDriver(s *scenario.Scenario, known bool) *scenario.Scenario {
	other := *s
	other.DriverNames = []string{"disk"}
	other.Drivers = map[string]func() cluster.Driver{"disk": func() cluster.Driver { return newOtherDriver(known) }}
	if between := s.Interceptors.Driver; between != nil {
		other.Interceptors.Driver = func(component string, conn grpc.ClientConnInterface) grpc.ClientConnInterface {
			return between(strings.TrimSuffix(component, "("+otherDriver+")"), conn)
		}
	}
	return &other
}

// withoutBackend are the rules that need no actual state of the driver.
var withoutBackend = []string{"I15", "I16", "I16b", "I17", "I18", "I19", "I20", "I21", "I22", "I24", "I27", "I35", "I36", "I37", "L4", "L5", "L6"}

// TestRulesOfAnotherDriver searches for the defects of attaching and mounting in worlds with a driver of the
// test's own: each rule detects there what it detects with the array, and finds nothing in correct worlds.
func TestRulesOfAnotherDriver(t *testing.T) {
	for _, known := range []bool{true, false} {
		for i, m := range slices.Concat(nodeMutants, attachMutants, restartMutants) {
			if !known && !slices.Contains(withoutBackend, m.rule) || strings.Contains(m.scenario, "volumes-per-node") {
				continue // the limit is one of the array
			}
			t.Run(fmt.Sprintf("%s, backend known %v", m.name, known), func(t *testing.T) {
				t.Parallel()
				sparse(t, i, 16)
				cfg := m.config
				cfg.Count = max(m.within, spared)
				r := testcheck.Must(explore.Search(t.Context(), withOtherDriver(m.scene(t, false, ""), known), cfg))
				if f := r.Failure; f != nil {
					t.Errorf("the correct world fails: %v\nunder %s", f, f.Scenario.Schedule)
				}
				m.hunt(t, withOtherDriver(m.scene(t, true, ""), known), m.within)
			})
		}
	}
}

// TestLivelockSaysWhatIsAttached attaches a volume behind the control plane, so that a pod on another node waits
// indefinitely: the failure says why.
func TestLivelockSaysWhatIsAttached(t *testing.T) {
	t.Parallel()
	var disks *array.Array
	s := &scenario.Scenario{
		Name: "attached", DriverNames: []string{"disk"},
		Drivers: map[string]func() cluster.Driver{"disk": func() cluster.Driver {
			d := newOtherDriver(true)
			disks = d.Backend.(arrayBackend).Array
			return d
		}},
		Users: []scenario.User{{Name: "alice", Script: func(ctx context.Context, c *cluster.Cluster) error {
			for _, text := range []string{"create claim data 64Mi", "wait claim data Bound"} {
				if err := testcheck.Must(scenario.ParseAct(text)).Do(ctx, c, nil); err != nil {
					return err
				}
			}
			_, err := disks.Controller().ControllerPublishVolume(ctx, &csispec.ControllerPublishVolumeRequest{
				VolumeId: disks.IDs()[0], NodeId: "node-1", VolumeCapability: &csispec.VolumeCapability{
					AccessType: &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{}},
					AccessMode: &csispec.VolumeCapability_AccessMode{Mode: csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
				},
			})
			return errors.Join(err, testcheck.Must(scenario.ParseAct("create pod web data on=node-2")).Do(ctx, c, nil))
		}}},
	}
	r := testcheck.Must(s.Run(t.Context(), scenario.Options{StepsMax: 3000}))
	var livelock *scenario.Livelock
	want := "volumes/" + disks.IDs()[0] + " is attached to node node-1 by the driver, and there is no attachment (L5)"
	if !errors.As(r.Failure, &livelock) || !strings.Contains(livelock.Error(), want) {
		t.Errorf("failure %v, want a livelock with %q", r.Failure, want)
	}
}
