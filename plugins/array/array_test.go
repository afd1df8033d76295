package array_test

import (
	"fmt"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/nodefs"
)

const (
	gibibyte    = 1 << 30
	singleNode  = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	readers     = csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	oneWriter   = csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER
	manyWriters = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
)

// world is an array of 10 GiB with two nodes and one volume named "v".
type world struct {
	t          *testing.T
	array      *array.Array
	controller csi.ControllerServer
	fs         map[string]*nodefs.Memory
	nodes      map[string]csi.NodeServer
	id         string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, array: array.New(array.Config{CapacityBytes: 10 * gibibyte}),
		fs: map[string]*nodefs.Memory{}, nodes: map[string]csi.NodeServer{},
	}
	w.controller = w.array.Controller()
	for _, id := range []string{"one", "two"} {
		w.fs[id] = nodefs.NewMemory("/kubelet")
		w.nodes[id] = w.array.Node(id, w.fs[id])
	}
	w.id = w.create("v", 0, 0, codes.OK)
	return w
}

func capability(mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
	}
}

func (w *world) want(err error, code codes.Code) {
	w.t.Helper()
	if got := status.Code(err); got != code {
		w.t.Errorf("got %s (%v), want %s", got, err, code)
	}
}

func (w *world) create(name string, required, limit int64, code codes.Code) string {
	w.t.Helper()
	response, err := w.controller.CreateVolume(w.t.Context(), &csi.CreateVolumeRequest{
		Name: name, VolumeCapabilities: []*csi.VolumeCapability{capability(singleNode)},
		CapacityRange: &csi.CapacityRange{RequiredBytes: required, LimitBytes: limit},
	})
	w.want(err, code)
	return response.GetVolume().GetVolumeId()
}

func (w *world) attach(node string, mode csi.VolumeCapability_AccessMode_Mode, readOnly bool, code codes.Code) {
	w.t.Helper()
	_, err := w.controller.ControllerPublishVolume(w.t.Context(), &csi.ControllerPublishVolumeRequest{
		VolumeId: w.id, NodeId: node, VolumeCapability: capability(mode), Readonly: readOnly,
	})
	w.want(err, code)
}

func (w *world) detach(node string) {
	w.t.Helper()
	_, err := w.controller.ControllerUnpublishVolume(w.t.Context(),
		&csi.ControllerUnpublishVolumeRequest{VolumeId: w.id, NodeId: node})
	w.want(err, codes.OK)
}

func (w *world) delete(id string, code codes.Code) {
	w.t.Helper()
	_, err := w.controller.DeleteVolume(w.t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	w.want(err, code)
}

func (w *world) stage(node string, code codes.Code) {
	w.t.Helper()
	w.stageAt(node, "/kubelet/stage", code)
}

func (w *world) stageAt(node, path string, code codes.Code) {
	w.t.Helper()
	_, err := w.nodes[node].NodeStageVolume(w.t.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: w.id, StagingTargetPath: path, VolumeCapability: capability(singleNode),
		PublishContext: map[string]string{array.DiskKey: w.id},
	})
	w.want(err, code)
}

func (w *world) publish(node, target string, readOnly bool, code codes.Code) {
	w.t.Helper()
	_, err := w.nodes[node].NodePublishVolume(w.t.Context(), &csi.NodePublishVolumeRequest{
		VolumeId: w.id, StagingTargetPath: "/kubelet/stage", TargetPath: target,
		VolumeCapability: capability(singleNode), Readonly: readOnly,
	})
	w.want(err, code)
}

func (w *world) unpublish(node, target string, code codes.Code) {
	w.t.Helper()
	_, err := w.nodes[node].NodeUnpublishVolume(w.t.Context(),
		&csi.NodeUnpublishVolumeRequest{VolumeId: w.id, TargetPath: target})
	w.want(err, code)
}

func (w *world) unstage(node string, code codes.Code) {
	w.t.Helper()
	_, err := w.nodes[node].NodeUnstageVolume(w.t.Context(),
		&csi.NodeUnstageVolumeRequest{VolumeId: w.id, StagingTargetPath: "/kubelet/stage"})
	w.want(err, code)
}

func TestDataFollowsTheVolumeToAnotherNode(t *testing.T) {
	w := newWorld(t)
	w.attach("one", singleNode, false, codes.OK)
	for range 2 { // each step is idempotent
		w.stage("one", codes.OK)
		w.publish("one", "/kubelet/pod", false, codes.OK)
	}
	if err := w.fs["one"].WriteFile("/kubelet/pod/file", []byte("data")); err != nil {
		t.Fatal(err)
	}
	before := w.array.Volumes()
	w.publish("one", "/kubelet/pod", true, codes.AlreadyExists)
	w.publish("one", "/kubelet/stage", true, codes.AlreadyExists)
	for range 2 {
		w.unpublish("one", "/kubelet/pod", codes.OK)
	}
	for range 2 {
		w.unstage("one", codes.OK)
		w.detach("one")
	}
	w.attach("two", singleNode, false, codes.OK)
	w.stage("two", codes.OK)
	w.publish("two", "/kubelet/pod", true, codes.OK)
	data, err := w.fs["two"].ReadFile("/kubelet/pod/file")
	if err != nil || string(data) != "data" {
		t.Errorf("read on the other node: %q, %v", data, err)
	}
	after := w.array.Volumes()
	looked, ok := w.array.Volume(after[0].ID)
	if looked.Hash = after[0].Hash; !ok || !cmp.Equal(looked, after[0]) {
		t.Errorf("Volume returns %+v, Volumes %+v", looked, after[0])
	}
	if ids, files := w.array.IDs(), w.array.Files(after[0].ID); !cmp.Equal(ids, []string{after[0].ID}) || len(files) != 1 {
		t.Errorf("ids %v, files %v", ids, files)
	}
	if _, ok := w.array.Volume("other"); ok || w.array.Files("other") != nil {
		t.Error("found a volume that does not exist")
	}
	after[0].AttachedTo = []string{"one"}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("volumes but for where they are attached (-before +after):\n%s", diff)
	}
}

func TestCreateDeleteContract(t *testing.T) {
	w := newWorld(t)
	if again := w.create("v", gibibyte, 0, codes.OK); again != w.id {
		t.Errorf("created again as %s, first as %s", again, w.id)
	}
	w.create("v", 2*gibibyte, 0, codes.AlreadyExists)
	w.create("v", 0, gibibyte/2, codes.AlreadyExists)
	w.create("w", -1, 0, codes.InvalidArgument)
	w.create("w", 2, 1, codes.InvalidArgument)
	w.create("w", 11*gibibyte, 0, codes.OutOfRange)
	w.create("w", 10*gibibyte, 0, codes.ResourceExhausted)
	w.create("w", 9*gibibyte, 0, codes.OK)
	w.create("x", 1, 0, codes.ResourceExhausted)
	w.create("", 1, 0, codes.InvalidArgument)
	w.delete("", codes.InvalidArgument)
	w.delete("vol-unknown", codes.OK)
	w.attach("one", singleNode, false, codes.OK)
	w.delete(w.id, codes.FailedPrecondition)
	w.detach("")
	w.delete(w.id, codes.OK)
	w.delete(w.id, codes.OK)
	response, err := w.controller.GetCapacity(t.Context(), &csi.GetCapacityRequest{})
	w.want(err, codes.OK)
	if got := response.GetAvailableCapacity(); got != gibibyte {
		t.Errorf("GetCapacity = %d, want %d", got, gibibyte)
	}
}

func TestAttachContract(t *testing.T) {
	type step struct {
		node     string
		mode     csi.VolumeCapability_AccessMode_Mode
		readOnly bool
		want     codes.Code
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{"single node", []step{
			{"one", singleNode, false, 0},
			{"one", singleNode, false, 0},
			{"two", singleNode, false, codes.FailedPrecondition},
		}},
		{"other access to the same node", []step{
			{"one", singleNode, false, 0},
			{"one", singleNode, true, codes.AlreadyExists},
		}},
		{"a single-node mode and a multi-node one", []step{
			{"one", manyWriters, false, 0},
			{"two", singleNode, false, codes.FailedPrecondition},
		}},
		{"many writers", []step{{"one", manyWriters, false, 0}, {"two", manyWriters, false, 0}}},
		{"readers", []step{{"one", readers, false, 0}, {"two", readers, true, 0}}},
		{"one writer", []step{{"one", oneWriter, false, 0}, {"two", oneWriter, true, 0}}},
		{"two that want to be the writer", []step{
			{"one", oneWriter, false, 0},
			{"two", oneWriter, false, codes.FailedPrecondition},
		}},
		{"unknown node", []step{{"three", singleNode, false, codes.NotFound}}},
		{"no node", []step{{"", singleNode, false, codes.InvalidArgument}}},
		{"no access mode", []step{{"one", csi.VolumeCapability_AccessMode_UNKNOWN, false, codes.InvalidArgument}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			for _, step := range test.steps {
				w.attach(step.node, step.mode, step.readOnly, step.want)
			}
		})
	}
}

func TestNodeContract(t *testing.T) {
	w := newWorld(t)
	w.stage("one", codes.FailedPrecondition) // not attached
	w.attach("one", singleNode, true, codes.OK)
	w.stage("two", codes.FailedPrecondition) // attached elsewhere
	w.publish("one", "/kubelet/pod", false, codes.FailedPrecondition)
	w.stage("one", codes.OK)
	w.publish("one", "/elsewhere", false, codes.InvalidArgument)
	w.publish("one", "/kubelet/pod", false, codes.OK)
	if err := w.fs["one"].WriteFile("/kubelet/pod/file", nil); err == nil {
		t.Error("wrote to a volume that is attached read-only")
	}
	w.unpublish("one", "", codes.InvalidArgument)
	_, err := w.nodes["one"].NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: w.id, StagingTargetPath: "/kubelet/other", VolumeCapability: capability(singleNode),
	})
	w.want(err, codes.InvalidArgument) // the publish context got lost
	stats := func(id, path string) error {
		_, err := w.nodes["one"].NodeGetVolumeStats(t.Context(),
			&csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: path})
		return err
	}
	w.want(stats(w.id, "/kubelet/pod"), codes.OK)
	w.want(stats(w.id, "/kubelet/missing"), codes.NotFound)
	w.want(stats("vol-unknown", "/kubelet/pod"), codes.NotFound)
	w.want(stats(w.id, ""), codes.InvalidArgument)
	w.fs["one"].Reset()
	w.publish("one", "/kubelet/pod", false, codes.FailedPrecondition) // rebooted: stage again
	w.stage("one", codes.OK)
	w.publish("one", "/kubelet/pod", false, codes.OK)
	w.id = "vol-unknown"
	w.stage("one", codes.NotFound)
	w.publish("one", "/kubelet/other", false, codes.NotFound)
	w.attach("one", singleNode, false, codes.NotFound)
}

// TestWritersOfOneNode publishes a volume twice: at another path, at the same path, and at another
// path after unpublishing.
func TestWritersOfOneNode(t *testing.T) {
	const single = csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	for mode, elsewhere := range map[csi.VolumeCapability_AccessMode_Mode]codes.Code{
		singleNode: codes.OK,
		csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER: codes.OK,
		single: codes.FailedPrecondition,
	} {
		w := newWorld(t)
		publish := func(target string, code codes.Code) {
			t.Helper()
			_, err := w.nodes["one"].NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{
				VolumeId: w.id, StagingTargetPath: "/kubelet/stage", TargetPath: target, VolumeCapability: capability(mode),
			})
			w.want(err, code)
		}
		w.attach("one", mode, false, codes.OK)
		w.stage("one", codes.OK)
		publish("/kubelet/a", codes.OK)
		publish("/kubelet/a", codes.OK)
		publish("/kubelet/b", elsewhere)
		w.unpublish("one", "/kubelet/a", codes.OK)
		publish("/kubelet/b", codes.OK)
	}
}

func TestValidateRejectsInItsResponse(t *testing.T) {
	w := newWorld(t)
	shared := capability(csi.VolumeCapability_AccessMode_UNKNOWN)
	validate := func(id string, wanted ...*csi.VolumeCapability) (*csi.ValidateVolumeCapabilitiesResponse, error) {
		return w.controller.ValidateVolumeCapabilities(t.Context(),
			&csi.ValidateVolumeCapabilitiesRequest{VolumeId: id, VolumeCapabilities: wanted})
	}
	response, err := validate(w.id, capability(manyWriters))
	w.want(err, codes.OK)
	if response.GetConfirmed() == nil {
		t.Errorf("not confirmed: %s", response.GetMessage())
	}
	response, err = validate(w.id, shared)
	w.want(err, codes.OK)
	if response.GetConfirmed() != nil || response.GetMessage() != "volume_capability has no access_mode" {
		t.Errorf("without an access mode: %v", response)
	}
	response, err = validate(w.id, device(singleNode))
	w.want(err, codes.OK)
	if response.GetConfirmed() == nil {
		t.Errorf("a device is not confirmed: %s", response.GetMessage())
	}
	_, err = validate(w.id)
	w.want(err, codes.InvalidArgument)
	_, err = validate("vol-unknown", capability(singleNode))
	w.want(err, codes.NotFound)
}

func TestListVolumesInPages(t *testing.T) {
	w := newWorld(t)
	for i := range 4 {
		w.create(fmt.Sprint(i), 1, 0, codes.OK)
	}
	w.attach("one", singleNode, false, codes.OK)
	var got []string
	request := &csi.ListVolumesRequest{MaxEntries: 2}
	for {
		response, err := w.controller.ListVolumes(t.Context(), request)
		w.want(err, codes.OK)
		for _, entry := range response.GetEntries() {
			got = append(got, fmt.Sprint(entry.GetVolume().GetVolumeId(), entry.GetStatus().GetPublishedNodeIds()))
		}
		if request.StartingToken = response.GetNextToken(); request.StartingToken == "" {
			break
		}
	}
	var want []string
	for _, volume := range w.array.Volumes() {
		want = append(want, fmt.Sprint(volume.ID, volume.AttachedTo))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("all pages (-want +got):\n%s", diff)
	}
	_, err := w.controller.ListVolumes(t.Context(), &csi.ListVolumesRequest{StartingToken: "invalid"})
	w.want(err, codes.Aborted)
	_, err = w.controller.ListVolumes(t.Context(), &csi.ListVolumesRequest{MaxEntries: -1})
	w.want(err, codes.InvalidArgument)
}

func TestVolumesPerNode(t *testing.T) {
	w := newWorld(t)
	places := func() int64 {
		info, err := w.nodes["one"].NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
		w.want(err, codes.OK)
		return info.GetMaxVolumesPerNode()
	}
	if n := places(); n != 0 {
		t.Errorf("%d, want any number", n)
	}
	w.array.SetVolumesPerNode(1)
	if n := places(); n != 1 {
		t.Errorf("%d, want 1", n)
	}
	first := w.id
	w.attach("one", singleNode, false, codes.OK)
	w.attach("one", singleNode, false, codes.OK) // it has its place
	w.id = w.create("w", 0, 0, codes.OK)
	w.attach("one", singleNode, false, codes.ResourceExhausted)
	w.attach("two", singleNode, false, codes.OK)
	w.id = first
	_, err := w.controller.ControllerUnpublishVolume(t.Context(),
		&csi.ControllerUnpublishVolumeRequest{VolumeId: first, NodeId: "one"})
	w.want(err, codes.OK)
	w.id = w.create("x", 0, 0, codes.OK)
	w.attach("one", singleNode, false, codes.OK)
	w.array.SetVolumesPerNode(0)
	w.id = w.create("y", 0, 0, codes.OK)
	w.attach("one", singleNode, false, codes.OK)
}
