package arrayhealth_test

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/arrayhealth"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/nodefs"
)

const (
	mebibyte = 1 << 20
	staging  = "/kubelet/stage"
	target   = "/kubelet/pod"
)

// world is an array of 3 MiB with volumes of 1 MiB and a node.
type world struct {
	*testing.T
	array      *array.Array
	controller csi.ControllerServer
	node       csi.NodeServer
	fs         *nodefs.Memory
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, array: array.New(array.Config{CapacityBytes: 3 * mebibyte}), fs: nodefs.NewMemory("/kubelet")}
	services := arrayhealth.New(w.array)
	w.controller, w.node = services.Controller(), services.Node("one", w.fs)
	return w
}

func writer(block bool) *csi.VolumeCapability {
	capability := &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
	}
	if block {
		capability.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	}
	return capability
}

func (w *world) create(name string) string {
	w.Helper()
	response, err := w.controller.CreateVolume(w.Context(), &csi.CreateVolumeRequest{
		Name: name, VolumeCapabilities: []*csi.VolumeCapability{writer(false)},
		CapacityRange: &csi.CapacityRange{RequiredBytes: mebibyte},
	})
	testcheck.NoError(w, err)
	return response.GetVolume().GetVolumeId()
}

// publish attaches, stages and publishes a volume.
func (w *world) publish(id string, block bool) {
	w.Helper()
	attached, err := w.controller.ControllerPublishVolume(w.Context(), &csi.ControllerPublishVolumeRequest{
		VolumeId: id, NodeId: "one", VolumeCapability: writer(block),
	})
	testcheck.NoError(w, err)
	_, err = w.node.NodeStageVolume(w.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: staging, VolumeCapability: writer(block),
		PublishContext: attached.GetPublishContext(),
	})
	testcheck.NoError(w, err)
	_, err = w.node.NodePublishVolume(w.Context(), &csi.NodePublishVolumeRequest{
		VolumeId: id, StagingTargetPath: staging, TargetPath: target, VolumeCapability: writer(block),
		PublishContext: attached.GetPublishContext(),
	})
	testcheck.NoError(w, err)
}

// texts returns the entries of a volume's health.
func texts(health *csi.VolumeHealth) []string {
	var all []string
	for _, each := range health.GetHealthStatuses() {
		all = append(all, each.GetStatus().String()+" "+each.GetReason()+" "+each.GetMessage())
	}
	return all
}

// TestVolumeHealth reports the conditions of one of three volumes until they are cleared.
func TestVolumeHealth(t *testing.T) {
	w := newWorld(t)
	healthy, sick, other := w.create("healthy"), w.create("sick"), w.create("other")
	get := func(id string, want ...string) {
		t.Helper()
		response, err := w.controller.ControllerGetVolumeHealth(t.Context(),
			&csi.ControllerGetVolumeHealthRequest{VolumeId: id})
		testcheck.NoError(w, err)
		testcheck.Equal(w, "health of "+id, want, texts(response.GetVolumeHealth()))
	}
	list := func(token string, entriesMax int32, want ...string) string {
		t.Helper()
		response, err := w.controller.ControllerListVolumeHealth(t.Context(),
			&csi.ControllerListVolumeHealthRequest{StartingToken: token, MaxEntries: entriesMax})
		testcheck.NoError(w, err)
		var ids []string
		for _, each := range response.GetEntries() {
			ids = append(ids, each.GetVolumeId())
		}
		testcheck.Equal(w, "unhealthy volumes", want, ids)
		return response.GetNextToken()
	}
	list("", 0)
	testcheck.NoError(w,
		w.array.SetCondition(sick, "DATA_LOSS", "DisksFailed", "disks 3 and 4"),
		w.array.SetCondition(sick, "DEGRADED", "Rebuilding", ""))
	get(healthy)
	get(sick, "DATA_LOSS DisksFailed disks 3 and 4", "DEGRADED Rebuilding ")
	list("", 0, sick)
	testcheck.NoError(w, w.array.SetCondition(other, "INACCESSIBLE", "PathsDown", ""))
	first, last := min(sick, other), max(sick, other)
	list(list("", 1, first), 1, last)
	w.array.ClearConditions(sick)
	get(sick)
	list("", 0, other)

	_, err := w.controller.ControllerGetVolumeHealth(t.Context(), &csi.ControllerGetVolumeHealthRequest{VolumeId: "x"})
	testcheck.Equal(w, "code", codes.NotFound, status.Code(err))
	_, err = w.controller.ControllerListVolumeHealth(t.Context(),
		&csi.ControllerListVolumeHealthRequest{StartingToken: "x"})
	testcheck.Equal(w, "code", codes.Aborted, status.Code(err))
}

// TestNodeVolumeHealth checks the paths of a volume before it is attached, in use, unmounted behind the driver's back,
// and with a condition.
func TestNodeVolumeHealth(t *testing.T) {
	for name, block := range map[string]bool{"mounted": false, "device": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.create("v")
			check := func(want ...string) {
				t.Helper()
				response, err := w.node.NodeGetVolumeHealth(t.Context(), &csi.NodeGetVolumeHealthRequest{
					VolumeId: id, StagingTargetPath: staging, VolumePublishPath: target,
				})
				testcheck.NoError(w, err)
				testcheck.Equal(w, "health", want, texts(response.GetVolumeHealth()))
			}
			check("INACCESSIBLE NotAttached volume " + id + " is not attached to node one")
			w.publish(id, block)
			check()
			testcheck.NoError(w, w.fs.Unmount(target))
			check("INACCESSIBLE NotMounted volume " + id + " is not at " + target)
			testcheck.NoError(w, w.array.SetCondition(id, "DEGRADED", "Rebuilding", "50 %"))
			check("DEGRADED Rebuilding 50 %", "INACCESSIBLE NotMounted volume "+id+" is not at "+target)
		})
	}
}

// TestStorageHealth reports the conditions of the array, and that it is full.
func TestStorageHealth(t *testing.T) {
	w := newWorld(t)
	check := func(want ...string) {
		t.Helper()
		response, err := w.node.NodeGetStorageHealth(t.Context(), &csi.NodeGetStorageHealthRequest{})
		testcheck.NoError(w, err)
		var got []string
		for _, each := range response.GetBackendHealth() {
			got = append(got, each.GetStatus().String()+" "+each.GetReason())
		}
		testcheck.Equal(w, "storage health", want, got)
	}
	check()
	testcheck.NoError(w, w.array.SetCondition("", "STORAGE_UNREACHABLE", "PathsDown", ""))
	check("STORAGE_UNREACHABLE PathsDown")
	w.array.ClearConditions("")
	w.create("a")
	w.create("b")
	w.create("c")
	check("STORAGE_DEGRADED PoolFull")
}

// TestCapabilities asks twice, since all arrays share the capabilities of the controller service.
func TestCapabilities(t *testing.T) {
	w := newWorld(t)
	for range 2 {
		response, err := w.controller.ControllerGetCapabilities(t.Context(), &csi.ControllerGetCapabilitiesRequest{})
		testcheck.NoError(w, err)
		had := map[csi.ControllerServiceCapability_RPC_Type]int{}
		for _, each := range response.GetCapabilities() {
			had[each.GetRpc().GetType()]++
		}
		testcheck.Equal(w, "get health", 1, had[csi.ControllerServiceCapability_RPC_GET_VOLUME_HEALTH])
		testcheck.Equal(w, "list health", 1, had[csi.ControllerServiceCapability_RPC_LIST_VOLUME_HEALTH])
		testcheck.Equal(w, "snapshots", 1, had[csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT])
	}
	response, err := w.array.Controller().ControllerGetCapabilities(t.Context(), &csi.ControllerGetCapabilitiesRequest{})
	testcheck.NoError(w, err)
	for _, each := range response.GetCapabilities() {
		if each.GetRpc().GetType() == csi.ControllerServiceCapability_RPC_GET_VOLUME_HEALTH {
			t.Error("the array has no health calls of its own")
		}
	}
}
