package csi_test

import (
	"cmp"
	"context"
	"path"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sim/trace"
)

// sorted compares lists ignoring the order.
var sorted = cmpopts.SortSlices(cmp.Less[string])

// stub is a node service that records its requests and mounts nothing.
type stub struct {
	csispec.UnimplementedNodeServer
	capabilities []csispec.NodeServiceCapability_RPC_Type
	requests     []proto.Message
	stats        *csispec.NodeGetVolumeStatsResponse
	health       *csispec.VolumeHealth
	expandError  error // of NodeExpandVolume
}

// last returns the last request of a kind.
func last[T proto.Message](s *stub) T {
	var found T
	for _, request := range s.requests {
		if r, ok := request.(T); ok {
			found = r
		}
	}
	return found
}

func (s *stub) NodeGetInfo(context.Context, *csispec.NodeGetInfoRequest) (*csispec.NodeGetInfoResponse, error) {
	return &csispec.NodeGetInfoResponse{NodeId: "id-1"}, nil
}

func (s *stub) NodeGetCapabilities(
	context.Context, *csispec.NodeGetCapabilitiesRequest,
) (*csispec.NodeGetCapabilitiesResponse, error) {
	out := &csispec.NodeGetCapabilitiesResponse{}
	for _, c := range s.capabilities {
		out.Capabilities = append(out.Capabilities, &csispec.NodeServiceCapability{Type: &csispec.NodeServiceCapability_Rpc{
			Rpc: &csispec.NodeServiceCapability_RPC{Type: c},
		}})
	}
	return out, nil
}

func (s *stub) NodeStageVolume(
	_ context.Context, r *csispec.NodeStageVolumeRequest,
) (*csispec.NodeStageVolumeResponse, error) {
	s.requests = append(s.requests, r)
	return &csispec.NodeStageVolumeResponse{}, nil
}

func (s *stub) NodePublishVolume(
	_ context.Context, r *csispec.NodePublishVolumeRequest,
) (*csispec.NodePublishVolumeResponse, error) {
	s.requests = append(s.requests, r)
	return &csispec.NodePublishVolumeResponse{}, nil
}

func (s *stub) NodeUnpublishVolume(
	_ context.Context, r *csispec.NodeUnpublishVolumeRequest,
) (*csispec.NodeUnpublishVolumeResponse, error) {
	s.requests = append(s.requests, r)
	return &csispec.NodeUnpublishVolumeResponse{}, nil
}

func (s *stub) NodeUnstageVolume(
	_ context.Context, r *csispec.NodeUnstageVolumeRequest,
) (*csispec.NodeUnstageVolumeResponse, error) {
	s.requests = append(s.requests, r)
	return &csispec.NodeUnstageVolumeResponse{}, nil
}

func (s *stub) NodeGetVolumeStats(
	_ context.Context, r *csispec.NodeGetVolumeStatsRequest,
) (*csispec.NodeGetVolumeStatsResponse, error) {
	s.requests = append(s.requests, r)
	return s.stats, nil
}

func (s *stub) NodeGetVolumeHealth(
	_ context.Context, r *csispec.NodeGetVolumeHealthRequest,
) (*csispec.NodeGetVolumeHealthResponse, error) {
	s.requests = append(s.requests, r)
	return &csispec.NodeGetVolumeHealthResponse{VolumeHealth: s.health}, nil
}

const stubName = "stub.example.com"

// stubDisk returns a world with a stub and an attached volume of it.
func stubDisk(t *testing.T, stages, multiWriter bool) (*stub, *disk) {
	t.Helper()
	var can []csispec.NodeServiceCapability_RPC_Type
	if stages {
		can = append(can, csispec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)
	}
	if multiWriter {
		can = append(can, csispec.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER)
	}
	return capableDisk(t, can...)
}

// capableDisk is stubDisk with a stub that has these capabilities.
func capableDisk(t *testing.T, can ...csispec.NodeServiceCapability_RPC_Type) (*stub, *disk) {
	t.Helper()
	return newWorld(t).stubDisk(can...)
}

// stubDisk is capableDisk in a world.
func (w *world) stubDisk(can ...csispec.NodeServiceCapability_RPC_Type) (*stub, *disk) {
	w.Helper()
	s := &stub{capabilities: can}
	w.add(stubName, func(r grpc.ServiceRegistrar) { csispec.RegisterNodeServer(r, s) })
	w.attachment("h-1", func(a *storagev1.VolumeAttachment) {
		a.Status.Attached, a.Status.AttachmentMetadata = true, map[string]string{"lun": "7"}
	})
	d := w.volume("h-1")
	volume := &d.spec.PersistentVolume.Spec
	volume.CSI.FSType, volume.CSI.VolumeAttributes, volume.MountOptions = "ext4", map[string]string{"pool": "fast"},
		[]string{"noatime"}
	return s, d
}

func TestRequests(t *testing.T) {
	t.Parallel()
	s, d := stubDisk(t, true, false)
	d.NoError(d.mountDevice())
	d.NoError(d.setUp())
	d.NoError(d.tearDown())
	d.NoError(d.unmountDevice())
	capability := &csispec.VolumeCapability{
		AccessMode: &csispec.VolumeCapability_AccessMode{Mode: csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{
			FsType:     "ext4",
			MountFlags: []string{"noatime"},
		}},
	}
	target := root + "/pods/uid-1/volumes/kubernetes.io~csi/pv/mount"
	testcheck.Equal(d, "requests", []proto.Message{
		&csispec.NodeStageVolumeRequest{
			VolumeId: "h-1", PublishContext: map[string]string{"lun": "7"}, StagingTargetPath: d.globalMount(),
			VolumeCapability: capability, VolumeContext: map[string]string{"pool": "fast"},
		},
		&csispec.NodePublishVolumeRequest{
			VolumeId: "h-1", PublishContext: map[string]string{"lun": "7"}, StagingTargetPath: d.globalMount(),
			TargetPath:       target,
			VolumeCapability: capability, VolumeContext: map[string]string{"pool": "fast"},
		},
		&csispec.NodeUnpublishVolumeRequest{VolumeId: "h-1", TargetPath: target},
		&csispec.NodeUnstageVolumeRequest{VolumeId: "h-1", StagingTargetPath: d.globalMount()},
	}, s.requests, protocmp.Transform())
	testcheck.Equal(d, "disk", []string{d.emptyDriverDir(), emptyPodDir}, d.leaves())
}

// TestDriverWithoutStaging does not stage, and leaves nothing on disk.
func TestDriverWithoutStaging(t *testing.T) {
	t.Parallel()
	s, d := stubDisk(t, false, false)
	can, err := d.plugin.CanDeviceMount(d.spec)
	d.NoError(err)
	testcheck.Equal(d, "mounted for the node first", true, can)
	d.NoError(d.mountDevice())
	testcheck.Equal(d, "disk after MountDevice", nil, d.leaves())
	d.NoError(d.setUp())
	testcheck.Equal(d, "staging path", "", last[*csispec.NodePublishVolumeRequest](s).GetStagingTargetPath())
	d.NoError(d.tearDown())
	d.NoError(d.unmountDevice())
	testcheck.Equal(d, "disk at the end", []string{emptyPodDir}, d.leaves())
	testcheck.Equal(d, "calls of the driver", []string{
		"NodeGetInfo", "NodeGetCapabilities", "NodePublishVolume",
		"NodeUnpublishVolume",
	},
		d.calls(trace.KindDriver))
}

// TestStagedVolumeOfDriverWithoutStaging finds a record that no driver can undo now: nothing is
// left.
func TestStagedVolumeOfDriverWithoutStaging(t *testing.T) {
	t.Parallel()
	s, d := stubDisk(t, false, false)
	d.NoError(d.disk.MkdirAll(d.globalMount()))
	d.NoError(d.disk.WriteFile(path.Dir(d.globalMount())+"/vol_data.json",
		[]byte(`{"driverName":"stub.example.com","volumeHandle":"h-1"}`)))
	d.NoError(d.unmountDevice())
	testcheck.Equal(d, "disk", []string{d.emptyDriverDir()}, d.leaves())
	testcheck.Equal(d, "requests", 0, len(s.requests))
}

// TestMountWithoutAttachment fails unless the driver needs no attachment.
func TestMountWithoutAttachment(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for name, test := range map[string]struct {
		driver *storagev1.CSIDriverSpec // nil: no object
		fails  bool
	}{
		"no CSIDriver": {nil, true},
		"not said":     {&storagev1.CSIDriverSpec{}, true},
		"required":     {&storagev1.CSIDriverSpec{AttachRequired: &yes}, true},
		"not required": {&storagev1.CSIDriverSpec{AttachRequired: &no}, false},
	} {
		_, d := stubDisk(t, true, false)
		if test.driver != nil {
			d.csiDriver(*test.driver)
		}
		free := d.volume("h-2")
		if err := free.mountDevice(); test.fails {
			d.class(name, err, plugins.Transient)
		} else {
			d.NoError(err)
		}
	}
}

func TestPodInfoOnMount(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	bare := map[string]string{"pool": "fast"}
	tests := []struct {
		name   string
		driver *storagev1.CSIDriverSpec // nil: no object
		want   map[string]string
	}{
		{"no CSIDriver", nil, bare},
		{"not asked for", &storagev1.CSIDriverSpec{PodInfoOnMount: &no}, bare},
		{"asked for", &storagev1.CSIDriverSpec{PodInfoOnMount: &yes}, map[string]string{
			"pool":                                   "fast",
			"csi.storage.k8s.io/pod.name":            "a",
			"csi.storage.k8s.io/pod.namespace":       "default",
			"csi.storage.k8s.io/pod.uid":             "uid-1",
			"csi.storage.k8s.io/serviceAccount.name": "robot",
			"csi.storage.k8s.io/ephemeral":           "false",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, d := stubDisk(t, true, false)
			if tt.driver != nil {
				d.csiDriver(*tt.driver)
			}
			d.NoError(d.mountDevice())
			d.NoError(d.setUp())
			testcheck.Equal(d, "attributes when staged", bare, last[*csispec.NodeStageVolumeRequest](s).GetVolumeContext())
			testcheck.Equal(d, "attributes when published", tt.want, last[*csispec.NodePublishVolumeRequest](s).GetVolumeContext())
			testcheck.Equal(d, "attributes of the volume, which is everybody's", bare, d.spec.PersistentVolume.Spec.CSI.VolumeAttributes)
		})
	}
}

func TestDriverWithoutPersistentLifecycle(t *testing.T) {
	t.Parallel()
	s, d := stubDisk(t, true, false)
	d.csiDriver(storagev1.CSIDriverSpec{VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}})
	d.class("SetUp", d.setUp(), plugins.Transient)
	testcheck.Equal(d, "requests", 0, len(s.requests))
	testcheck.Equal(d, "disk", nil, d.leaves())
}

func TestDriverWithoutAttach(t *testing.T) {
	t.Parallel()
	s, d := stubDisk(t, true, false)
	no := false
	d.csiDriver(storagev1.CSIDriverSpec{AttachRequired: &no})
	free := d.volume("h-2") // has no VolumeAttachment
	can, err := d.plugin.CanAttach(free.spec)
	d.NoError(err)
	testcheck.Equal(d, "attached", false, can)
	d.NoError(free.mountDevice())
	d.NoError(free.setUp())
	testcheck.Equal(d, "publish context", map[string]string(nil), last[*csispec.NodePublishVolumeRequest](s).GetPublishContext())
	d.NoError(free.tearDown())
	d.NoError(free.unmountDevice())
	testcheck.Equal(d, "requests to the API server", nil, d.calls(trace.KindAPI))
}

func TestCanAttach(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	tests := []struct {
		name   string
		driver *storagev1.CSIDriverSpec // nil: no object
		want   bool
	}{
		{"no CSIDriver", nil, true},
		{"not said", &storagev1.CSIDriverSpec{}, true},
		{"required", &storagev1.CSIDriverSpec{AttachRequired: &yes}, true},
		{"not required", &storagev1.CSIDriverSpec{AttachRequired: &no}, false},
	}
	for _, tt := range tests {
		_, d := stubDisk(t, true, false)
		if tt.driver != nil {
			d.csiDriver(*tt.driver)
		}
		got, err := d.plugin.CanAttach(d.spec)
		d.NoError(err)
		testcheck.Equal(d, tt.name, tt.want, got)
	}
}

func TestFailedRegistrationAddsNoDriver(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"NodeGetInfo", "NodeGetCapabilities"} {
		w := newWorld(t)
		w.driver = stubName
		s := &stub{}
		conn := &faulty{
			ClientConnInterface: csi.Direct(func(r grpc.ServiceRegistrar) { csispec.RegisterNodeServer(r, s) }),
			faults:              []fault{{method: method, err: errPipe}},
		}
		err := w.do(func(ctx context.Context) error {
			_, err := w.plugin.AddDriver(ctx, stubName, conn)
			return err
		})
		if err == nil {
			t.Errorf("%s fails, and AddDriver does not", method)
		}
		w.class("MountDevice after "+method+" has failed", w.volume("h-1").mountDevice(), plugins.Transient)
	}
}

func TestVolumeName(t *testing.T) {
	t.Parallel()
	_, d := stubDisk(t, true, false)
	testcheck.Equal(d, "plugin", "kubernetes.io/csi", d.plugin.Name())
	source := d.spec.PersistentVolume.Spec.CSI
	for want, of := range map[string][2]string{
		"stub.example.com^h-1":          {"stub.example.com", "h-1"},
		"test.Driver.CC^testvol":        {"test.Driver.CC", "testvol"},
		"stub.example.com^vol_1/%a#b^c": {"stub.example.com", "vol_1/%a#b^c"},
	} {
		source.Driver, source.VolumeHandle = of[0], of[1]
		testcheck.Equal(d, "supported", true, d.plugin.CanSupport(d.spec))
		name, err := d.plugin.VolumeName(d.spec)
		d.NoError(err)
		testcheck.Equal(d, "name", want, name)
	}
}
