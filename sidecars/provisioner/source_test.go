package provisioner_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sidecars/provisioner"
)

// A cloner is a driver that makes volumes from others, or from snapshots, and says where they are: in its records only.
type cloner struct {
	grpc.ClientConnInterface
	silent bool // about what a volume was made from
}

func (c *cloner) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	asked, creates := request.(*csispec.CreateVolumeRequest)
	if creates {
		plain := proto.CloneOf(asked)
		plain.VolumeContentSource, plain.AccessibilityRequirements = nil, nil
		request = plain
	}
	if err := c.ClientConnInterface.Invoke(ctx, method, request, reply, options...); err != nil {
		return err
	}
	if can, ok := reply.(*csispec.ControllerGetCapabilitiesResponse); ok {
		for _, each := range []csispec.ControllerServiceCapability_RPC_Type{
			csispec.ControllerServiceCapability_RPC_CLONE_VOLUME, csispec.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		} {
			can.Capabilities = append(can.Capabilities, &csispec.ControllerServiceCapability{Type: &csispec.ControllerServiceCapability_Rpc{
				Rpc: &csispec.ControllerServiceCapability_RPC{Type: each},
			}})
		}
	}
	if creates {
		made := reply.(*csispec.CreateVolumeResponse).GetVolume()
		if made.AccessibleTopology = asked.GetAccessibilityRequirements().GetPreferred(); !c.silent {
			made.ContentSource = asked.GetVolumeContentSource()
		}
	}
	return nil
}

func (w *world) cloning() *cloner {
	c := &cloner{ClientConnInterface: w.conn.ClientConnInterface}
	w.conn.ClientConnInterface = c
	return c
}

func newClone(name, class, source string) *corev1.PersistentVolumeClaim {
	claim := newClaim(name, class)
	claim.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: source}
	return claim
}

// requests are the CreateVolume calls that were made.
func (w *world) requests() []*csispec.CreateVolumeRequest {
	var all []*csispec.CreateVolumeRequest
	for _, call := range w.conn.Calls {
		if request, is := call.Request.(*csispec.CreateVolumeRequest); is {
			all = append(all, request)
		}
	}
	return all
}

func TestCloneIsMadeOfTheSourcesVolume(t *testing.T) {
	w := newWorld(t, nil)
	w.cloning()
	w.class(newClass("fast", storagev1.VolumeBindingImmediate))
	w.create(newClaim("data", "fast"))
	w.Run()
	source := w.volumes()[0].Spec.CSI.VolumeHandle
	w.bound("data")
	w.create(newClone("copy", "fast", "data"))
	w.Run()
	if got := w.requests()[1].GetVolumeContentSource().GetVolume().GetVolumeId(); got != source {
		t.Errorf("made from %q, want %q", got, source)
	}
	if !slices.Contains(w.claim("data").Finalizers, provisioner.CloneFinalizer) {
		t.Errorf("the source has finalizers %v", w.claim("data").Finalizers)
	}
	if len(w.volumes()) != 2 {
		t.Errorf("%d volumes, want 2", len(w.volumes()))
	}
}

// bound says in a claim's status that it is bound, which the stand-in for the PersistentVolume controller does not.
func (w *world) bound(name string) {
	w.Helper()
	claim := w.claim(name).DeepCopy()
	claim.Status.Phase = corev1.ClaimBound
	testcheck.Must(w.User.CoreV1().PersistentVolumeClaims("default").
		UpdateStatus(context.Background(), claim, metav1.UpdateOptions{}))
	w.Run()
}

func TestSourceStaysUntilItsCloneIsMade(t *testing.T) {
	w := newWorld(t, nil)
	w.cloning()
	w.class(newClass("fast", storagev1.VolumeBindingImmediate))
	w.class(newClass("late", storagev1.VolumeBindingWaitForFirstConsumer))
	source := newClaim("data", "fast")
	w.create(source)
	w.Run()
	w.bound("data")
	w.create(newClone("copy", "late", "data"))
	w.create(newClone("other", "fast", "data"))
	w.Run()
	w.bound("other")
	w.delete("data")
	w.Run()
	if w.claim("data") == nil {
		t.Fatal("the source is gone while a claim that is made from it waits for a node")
	}
	w.bound("copy")
	if claim := w.claim("data"); claim != nil {
		t.Errorf("the source stays with finalizers %v", claim.Finalizers)
	}
}

func TestSourceThatIsGoneBlocksNoClaim(t *testing.T) {
	w := newWorld(t, nil)
	w.cloning()
	w.class(newClass("fast", storagev1.VolumeBindingImmediate))
	w.class(newClass("late", storagev1.VolumeBindingWaitForFirstConsumer))
	w.create(newClaim("data", "fast"))
	w.Run()
	w.bound("data")
	w.create(newClone("other", "fast", "data"))
	w.create(newClone("copy", "late", "data"))
	w.Run()
	w.bound("other")
	w.delete("data")
	w.Run()
	w.delete("copy")
	w.Run()
	if claim := w.claim("data"); claim != nil {
		t.Errorf("the source stays with finalizers %v though nobody wants it", claim.Finalizers)
	}
}

func TestWhatCannotBeASourceIsSaid(t *testing.T) {
	handle := "error getting handle for DataSource Type PersistentVolumeClaim by Name data: "
	tests := []struct {
		name   string
		change func(source, clone *corev1.PersistentVolumeClaim)
		want   string
	}{
		{"another name", func(_, clone *corev1.PersistentVolumeClaim) { clone.Spec.DataSource.Name = "none" }, "error getting PVC none"},
		{"a smaller clone", func(source, _ *corev1.PersistentVolumeClaim) {
			source.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
		}, handle + "error, new PVC request must be greater than or equal in size to the specified PVC data source, requested 1073741824 but source is 2147483648"},
		{"a device", func(_, clone *corev1.PersistentVolumeClaim) {
			clone.Spec.VolumeMode = ptr(corev1.PersistentVolumeBlock)
		}, handle + "the source PVC and destination PVCs must have the same volume mode for cloning.  Source is Filesystem, but new PVC requested Block"},
		{"of a device", func(source, _ *corev1.PersistentVolumeClaim) {
			source.Spec.VolumeMode = ptr(corev1.PersistentVolumeBlock)
		}, handle + "the source PVC and destination PVCs must have the same volume mode for cloning.  Source is Block, but new PVC requested Filesystem"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.cloning()
			w.class(newClass("fast", storagev1.VolumeBindingImmediate))
			source, clone := newClaim("data", "fast"), newClone("copy", "fast", "data")
			test.change(source, clone)
			w.create(source)
			w.Run()
			w.bound("data")
			w.create(clone)
			w.Until("the event", func() bool {
				return slices.ContainsFunc(w.events(), func(e string) bool {
					return strings.Contains(e, "ProvisioningFailed: ") && strings.Contains(e, test.want)
				})
			})
			if n := len(w.requests()); n != 1 {
				t.Errorf("%d volumes were asked for, want 1", n)
			}
		})
	}
}

func TestSourceThatIsNotBoundIsWaitedFor(t *testing.T) {
	w := newWorld(t, nil)
	w.cloning()
	w.class(newClass("fast", storagev1.VolumeBindingImmediate))
	w.create(newClaim("data", "fast"))
	w.create(newClone("copy", "fast", "data"))
	w.Until("a refusal", func() bool {
		return slices.ContainsFunc(w.events(), func(e string) bool { return strings.Contains(e, "must have a status of Bound.  Got") })
	})
	w.Until("the first volume", func() bool { return len(w.volumes()) == 1 && w.volumes()[0].Status.Phase == corev1.VolumeBound })
	claim := w.claim("data").DeepCopy()
	claim.Status.Phase = corev1.ClaimBound
	testcheck.Must(w.User.CoreV1().PersistentVolumeClaims("default").
		UpdateStatus(context.Background(), claim, metav1.UpdateOptions{}))
	w.Run()
	if len(w.volumes()) != 2 {
		t.Errorf("%d volumes, want 2", len(w.volumes()))
	}
}

func TestCloneThatDoesNotSayItsSourceIsNoClone(t *testing.T) {
	w := newWorld(t, nil)
	c := w.cloning()
	c.silent = true
	w.class(newClass("fast", storagev1.VolumeBindingImmediate))
	w.create(newClaim("data", "fast"))
	w.Run()
	w.bound("data")
	w.create(newClone("copy", "fast", "data"))
	w.Until("a refusal", func() bool { return slices.Contains(w.events(), "ProvisioningFailed: volume content source missing") })
	if w.Until("its removal", func() bool { return w.conn.Count("DeleteVolume") == 1 }); len(w.volumes()) != 1 {
		t.Errorf("%d volumes, want 1", len(w.volumes()))
	}
	c.silent = false
	w.Run()
	if len(w.volumes()) != 2 {
		t.Errorf("%d volumes, want 2 once the driver says what it made", len(w.volumes()))
	}
}

func TestVolumeIsMadeWhereItsPodIsToRun(t *testing.T) {
	w := newWorldWith(t, nil, provisioner.Config{Topology: true, StrictTopology: true})
	w.cloning()
	w.class(newClass("late", storagev1.VolumeBindingWaitForFirstConsumer))
	for _, node := range []string{"node-1", "node-2"} {
		w.node(node, node)
	}
	claim := newClaim("data", "late")
	claim.Annotations["volume.kubernetes.io/selected-node"] = "node-2"
	w.create(claim)
	w.Run()
	terms := w.volumes()[0].Spec.NodeAffinity.Required.NodeSelectorTerms
	want := corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"node-2"}}
	if len(terms) != 1 || len(terms[0].MatchExpressions) != 1 || !slices.Equal(terms[0].MatchExpressions[0].Values, want.Values) {
		t.Errorf("usable at %v, want %v", terms, want)
	}
	if got := w.requests()[0].GetAccessibilityRequirements().GetRequisite(); len(got) != 1 || got[0].GetSegments()["zone"] != "node-2" {
		t.Errorf("asked for %v", got)
	}
}

// node makes a node in a zone, with what the driver's registration says of it.
func (w *world) node(name, zone string) {
	w.Helper()
	ctx := context.Background()
	testcheck.Must(w.User.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone}},
	}, metav1.CreateOptions{}))
	testcheck.Must(w.User.StorageV1().CSINodes().Create(ctx, &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: driverName, NodeID: name, TopologyKeys: []string{"zone"}},
		}},
	}, metav1.CreateOptions{}))
}

func TestNodeThatIsGoneIsGivenBack(t *testing.T) {
	w := newWorldWith(t, nil, provisioner.Config{Topology: true, StrictTopology: true})
	w.cloning()
	w.class(newClass("late", storagev1.VolumeBindingWaitForFirstConsumer))
	claim := newClaim("data", "late")
	claim.Annotations["volume.kubernetes.io/selected-node"] = "gone"
	w.create(claim)
	w.Run()
	if node, chosen := w.claim("data").Annotations["volume.kubernetes.io/selected-node"]; chosen {
		t.Errorf("node %s, which is gone, is still chosen", node)
	}
	want := `ProvisioningFailed: failed to get selected CSINode gone: csinode.storage.k8s.io "gone" not found`
	if !slices.Contains(w.events(), want) {
		t.Errorf("events %q, want %q", w.events(), want)
	}
	if n := len(w.requests()); n != 0 {
		t.Errorf("%d volumes were asked for", n)
	}
}
