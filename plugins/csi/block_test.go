package csi_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim/trace"
)

const devicesDir = "plugins/kubernetes.io/csi/volumeDevices"

func (d *disk) setUpDevice() (string, error) {
	d.Helper()
	path := ""
	return path, d.do(func(ctx context.Context) (err error) {
		path, err = d.plugin.SetUpDevice(ctx, d.spec, d.pod, d.use)
		return err
	})
}

func (d *disk) mapPodDevice() (string, error) {
	d.Helper()
	path := ""
	return path, d.do(func(ctx context.Context) (err error) {
		path, err = d.plugin.MapPodDevice(ctx, d.spec, d.pod, d.use)
		return err
	})
}

func (d *disk) unmapPodDevice() error {
	d.Helper()
	return d.do(func(ctx context.Context) error { return d.plugin.UnmapPodDevice(ctx, d.spec.Name(), d.pod.UID) })
}

func (d *disk) tearDownDevice() error {
	d.Helper()
	return d.do(func(ctx context.Context) error { return d.plugin.TearDownDevice(ctx, d.spec) })
}

func (d *disk) blockData() string {
	return fmt.Sprintf(`%s/pv/data/vol_data.json {"specVolID":"pv","volumeHandle":%q,"driverName":%q,"nodeName":"node-1","attachmentID":%q}`,
		devicesDir, d.handle, d.driver, d.attachmentName(d.handle))
}

// The files of a staged volume, and of a published one.
func (d *disk) staged() []string {
	return []string{d.blockData(), devicesDir + "/staging/pv/device <- " + d.handle}
}

func (d *disk) published() []string {
	return append(d.staged(), devicesDir+"/publish/pv/uid-1 <- "+d.handle)
}

// noneStaged are the remaining directories of all volumes.
var noneStaged = []string{devicesDir + "/publish/", devicesDir + "/staging/"}

func TestBlockPaths(t *testing.T) {
	t.Parallel()
	_, d := stubDisk(t, true, false)
	for _, name := range []string{"pv", "test.vol.1", "simple-with-dashes"} {
		d.spec.PersistentVolume.Name = name
		global, err := d.plugin.GlobalMapPath(d.spec)
		d.NoError(err)
		testcheck.Equal(d, "global", root+"/"+devicesDir+"/"+name+"/dev", global)
		dir, link := d.plugin.PodDeviceMapPath(name, podUID)
		testcheck.Equal(d, "of the pod", root+"/pods/uid-1/volumeDevices/kubernetes.io~csi/"+name, dir+"/"+link)
		staging, err := d.setUpDevice()
		d.NoError(err)
		testcheck.Equal(d, "staged", root+"/"+devicesDir+"/staging/"+name, staging)
		published, err := d.mapPodDevice()
		d.NoError(err)
		testcheck.Equal(d, "published", root+"/"+devicesDir+"/publish/"+name+"/uid-1", published)
	}
}

func TestDeviceLifecycle(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	for range 2 {
		testcheck.Must(d.setUpDevice())
		testcheck.Equal(d, "disk after SetUpDevice", d.staged(), d.leaves(), sorted)
	}
	for range 2 {
		testcheck.Must(d.mapPodDevice())
		testcheck.Equal(d, "disk after MapPodDevice", d.published(), d.leaves(), sorted)
	}
	for range 2 {
		d.NoError(d.unmapPodDevice())
		testcheck.Equal(d, "disk after UnmapPodDevice", append(d.staged(), devicesDir+"/publish/pv/"), d.leaves(), sorted)
	}
	for range 2 {
		d.NoError(d.tearDownDevice())
		testcheck.Equal(d, "disk after TearDownDevice", noneStaged, d.leaves())
	}
	d.NoError(d.unmapPodDevice())
	testcheck.Equal(d, "calls of the driver", []string{
		"NodeGetInfo", "NodeGetCapabilities", "NodeStageVolume", "NodeStageVolume", "NodePublishVolume", "NodePublishVolume",
		"NodeUnpublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume",
	}, d.calls(trace.KindDriver))
}

func TestBlockRequests(t *testing.T) {
	t.Parallel()
	s, d := stubDisk(t, true, false)
	d.csiDriver(storagev1.CSIDriverSpec{PodInfoOnMount: ptr(true)})
	d.secret("default", "stage", "user", "alice")
	d.secret("default", "publish", "token", "t")
	source := d.spec.PersistentVolume.Spec.CSI
	source.NodeStageSecretRef = &corev1.SecretReference{Namespace: "default", Name: "stage"}
	source.NodePublishSecretRef = &corev1.SecretReference{Namespace: "default", Name: "publish"}
	d.spec.ReadOnly = true
	testcheck.Must(d.setUpDevice())
	testcheck.Must(d.mapPodDevice())
	d.NoError(d.unmapPodDevice())
	d.NoError(d.tearDownDevice())
	capability := &csispec.VolumeCapability{
		AccessMode: &csispec.VolumeCapability_AccessMode{Mode: csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csispec.VolumeCapability_Block{Block: &csispec.VolumeCapability_BlockVolume{}},
	}
	staging, target := root+"/"+devicesDir+"/staging/pv", root+"/"+devicesDir+"/publish/pv/uid-1"
	testcheck.Equal(d, "requests", []proto.Message{
		&csispec.NodeStageVolumeRequest{
			VolumeId: "h-1", PublishContext: map[string]string{"lun": "7"}, StagingTargetPath: staging,
			VolumeCapability: capability,
			Secrets:          map[string]string{"user": "alice"}, VolumeContext: map[string]string{"pool": "fast"},
		},
		&csispec.NodePublishVolumeRequest{
			VolumeId: "h-1", PublishContext: map[string]string{"lun": "7"}, StagingTargetPath: staging, TargetPath: target,
			VolumeCapability: capability, Readonly: true, Secrets: map[string]string{"token": "t"},
			VolumeContext: map[string]string{
				"pool": "fast", "csi.storage.k8s.io/pod.name": "a", "csi.storage.k8s.io/pod.namespace": "default",
				"csi.storage.k8s.io/pod.uid": "uid-1", "csi.storage.k8s.io/serviceAccount.name": "robot",
				"csi.storage.k8s.io/ephemeral": "false",
			},
		},
		&csispec.NodeUnpublishVolumeRequest{VolumeId: "h-1", TargetPath: target},
		&csispec.NodeUnstageVolumeRequest{VolumeId: "h-1", StagingTargetPath: staging},
	}, s.requests, protocmp.Transform())
	testcheck.Equal(d, "disk", noneStaged, d.leaves())
}

func ptr[T any](v T) *T { return &v }

func TestDeviceOfDriverWithoutAttach(t *testing.T) {
	t.Parallel()
	s, d := stubDisk(t, true, false)
	d.csiDriver(storagev1.CSIDriverSpec{AttachRequired: ptr(false)})
	free := d.volume("h-2")
	testcheck.Must(free.setUpDevice())
	testcheck.Must(free.mapPodDevice())
	testcheck.Equal(d, "publish context", map[string]string(nil), last[*csispec.NodePublishVolumeRequest](s).GetPublishContext())
	testcheck.Equal(d, "requests to the API server", nil, d.calls(trace.KindAPI))
}

// TestDeviceOfDriverWithoutStaging writes the record when the device is published.
func TestDeviceOfDriverWithoutStaging(t *testing.T) {
	t.Parallel()
	s, d := stubDisk(t, false, false)
	staging, err := d.setUpDevice()
	d.NoError(err)
	testcheck.Equal(d, "staged at", "", staging)
	testcheck.Equal(d, "disk after SetUpDevice", nil, d.leaves())
	testcheck.Must(d.mapPodDevice())
	testcheck.Equal(d, "disk after MapPodDevice", []string{d.blockData(), devicesDir + "/publish/pv/"}, d.leaves(), sorted)
	d.NoError(d.unmapPodDevice())
	d.NoError(d.tearDownDevice())
	testcheck.Equal(d, "disk at the end", noneStaged[:1], d.leaves())
	testcheck.Equal(d, "requests", 2, len(s.requests))
}

func TestDeviceWithMissingPrerequisiteIsTransient(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	other := d.volume("vol-other")
	other.spec.PersistentVolume.Spec.CSI.Driver = "other.example.com"
	unattached := d.volume("vol-unattached")
	secret := d.volume(d.handle)
	ref := &corev1.SecretReference{Namespace: "default", Name: "foo"}
	secret.spec.PersistentVolume.Spec.CSI.NodeStageSecretRef,
		secret.spec.PersistentVolume.Spec.CSI.NodePublishSecretRef = ref, ref
	for what, v := range map[string]*disk{
		"without the driver": other, "without an attachment": unattached,
		"without its secret": secret,
	} {
		_, err := v.setUpDevice()
		d.class("SetUpDevice "+what, err, plugins.Transient)
		_, err = v.mapPodDevice()
		d.class("MapPodDevice "+what, err, plugins.Transient)
	}
	testcheck.Equal(d, "disk", nil, d.leaves())
	testcheck.Equal(d, "calls of the driver", []string{"NodeGetInfo", "NodeGetCapabilities"}, d.calls(trace.KindDriver))
}

// TestDeviceCleanupNeedsDriver restarts a kubelet with a device on its disk, before the driver
// registers again.
func TestDeviceCleanupNeedsDriver(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	testcheck.Must(d.setUpDevice())
	testcheck.Must(d.mapPodDevice())
	before := d.leaves()
	again := csi.New(csi.Config{
		Process: d.process, CSIDrivers: d.Server.Informers(d.process).Storage().V1().CSIDrivers(), Root: root, FS: d.disk,
	})
	d.class("UnmapPodDevice", again.UnmapPodDevice(t.Context(), "pv", podUID), plugins.Transient)
	d.class("TearDownDevice", again.TearDownDevice(t.Context(), d.spec), plugins.Transient)
	testcheck.Equal(d, "disk", before, d.leaves())
}

// TestSetUpDeviceFails: a final error leaves nothing, an uncertain one leaves what TearDownDevice
// needs, and a final one for a volume that is staged after all is uncertain.
func TestSetUpDeviceFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fault fault
		class plugins.Class
		left  func(d *disk) []string
	}{
		{fault{err: coded(codes.InvalidArgument)}, plugins.Final, func(*disk) []string { return noneStaged[1:] }},
		{
			fault{err: coded(codes.DeadlineExceeded)},
			plugins.Uncertain,
			func(d *disk) []string { return []string{d.blockData(), devicesDir + "/staging/pv/"} },
		},
		{fault{err: coded(codes.DeadlineExceeded), after: true}, plugins.Uncertain, (*disk).staged},
		{fault{err: coded(codes.Internal), after: true}, plugins.Uncertain, (*disk).staged},
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.fault.err, " after=", tt.fault.after, " again=", again), func(t *testing.T) {
				t.Parallel()
				d := arrayDisk(t)
				d.conn.faults = []fault{tt.fault.of("NodeStageVolume")}
				_, err := d.setUpDevice()
				d.class("SetUpDevice", err, tt.class)
				testcheck.Equal(d, "disk after it has failed", tt.left(d), d.leaves(), sorted)
				if again {
					testcheck.Must(d.setUpDevice())
					testcheck.Equal(d, "disk after it was tried again", d.staged(), d.leaves(), sorted)
				}
				d.NoError(d.tearDownDevice())
				if got := d.leaves(); slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "/pv") }) {
					t.Errorf("left at the end: %q", got)
				}
			})
		}
	}
}

// TestDeviceStagedByEarlierKubelet stays staged, and can be unstaged, after a final error of
// staging it again.
func TestDeviceStagedByEarlierKubelet(t *testing.T) {
	t.Parallel()
	s, d := stubDisk(t, true, false) // which leaves nothing in the directory
	testcheck.Must(d.setUpDevice())
	before := d.leaves()
	d.conn.faults = []fault{{method: "NodeStageVolume", err: coded(codes.InvalidArgument)}}
	d.use = plugins.MountOptions{Reconstructed: true}
	_, err := d.setUpDevice()
	d.class("SetUpDevice", err, plugins.Final)
	testcheck.Equal(d, "disk", before, d.leaves(), sorted)
	d.NoError(d.tearDownDevice())
	if last[*csispec.NodeUnstageVolumeRequest](s).GetVolumeId() != "h-1" {
		t.Error("it is not unstaged")
	}
}

// TestMapPodDeviceFails is TestSetUpDeviceFails for the pod: the record stays for TearDownDevice.
func TestMapPodDeviceFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fault fault
		class plugins.Class
		left  func(d *disk) []string
	}{
		{
			fault{err: coded(codes.NotFound)},
			plugins.Final,
			func(d *disk) []string { return append(d.staged(), devicesDir+"/publish/pv/") },
		},
		{
			fault{err: coded(codes.Aborted)},
			plugins.Uncertain,
			func(d *disk) []string { return append(d.staged(), devicesDir+"/publish/pv/") },
		},
		{fault{err: coded(codes.Aborted), after: true}, plugins.Uncertain, (*disk).published},
		{fault{err: coded(codes.Internal), after: true}, plugins.Uncertain, (*disk).published},
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.fault.err, " after=", tt.fault.after, " again=", again), func(t *testing.T) {
				t.Parallel()
				d := arrayDisk(t)
				testcheck.Must(d.setUpDevice())
				d.conn.faults = []fault{tt.fault.of("NodePublishVolume")}
				_, err := d.mapPodDevice()
				d.class("MapPodDevice", err, tt.class)
				testcheck.Equal(d, "disk after it has failed", tt.left(d), d.leaves(), sorted)
				if again {
					testcheck.Must(d.mapPodDevice())
					testcheck.Equal(d, "disk after it was tried again", d.published(), d.leaves(), sorted)
				}
				d.NoError(d.unmapPodDevice())
				d.NoError(d.tearDownDevice())
				testcheck.Equal(d, "disk at the end", noneStaged, d.leaves())
			})
		}
	}
}

// TestDeviceCleanupFails leaves everything that a retry needs.
func TestDeviceCleanupFails(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.Internal, codes.Unavailable} {
		d := arrayDisk(t)
		testcheck.Must(d.setUpDevice())
		testcheck.Must(d.mapPodDevice())
		d.conn.faults = []fault{
			{method: "NodeUnpublishVolume", err: coded(code)},
			{method: "NodeUnstageVolume", err: coded(code), after: true},
		}
		if d.unmapPodDevice() == nil {
			t.Errorf("UnmapPodDevice after %s: no error", code)
		}
		testcheck.Equal(d, "disk after it has failed", d.published(), d.leaves(), sorted)
		if d.tearDownDevice() == nil { // the array unstages what is still published
			t.Errorf("TearDownDevice after %s: no error", code)
		}
		d.NoError(d.unmapPodDevice())
		d.NoError(d.tearDownDevice())
		testcheck.Equal(d, "disk at the end", noneStaged, d.leaves())
	}
}

// TestTearDownPublishedDevice returns an error and keeps the record.
func TestTearDownPublishedDevice(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	testcheck.Must(d.setUpDevice())
	testcheck.Must(d.mapPodDevice())
	if err := d.tearDownDevice(); !errors.Is(err, nodefs.ErrNotEmpty) {
		t.Errorf("got %v, want %v", err, nodefs.ErrNotEmpty)
	}
	if !slices.Contains(d.leaves(), d.blockData()) {
		t.Errorf("the data file is missing: %q", d.leaves())
	}
}

func TestLostDataFileOfDevice(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	testcheck.Must(d.setUpDevice())
	testcheck.Must(d.mapPodDevice())
	file := root + "/" + devicesDir + "/pv/data/vol_data.json"
	d.NoError(d.disk.Remove(file))
	if err := d.unmapPodDevice(); !errors.Is(err, nodefs.ErrMounted) {
		t.Errorf("of a device that is still there: %v, want %v", err, nodefs.ErrMounted)
	}
	d.NoError(d.disk.Unmount(root + "/" + devicesDir + "/publish/pv/uid-1"))
	d.NoError(d.unmapPodDevice())
	d.NoError(d.disk.WriteFile(file, []byte("{")))
	if d.unmapPodDevice() == nil {
		t.Error("a data file that cannot be read: no error")
	}
}

func TestDeviceOfOtherKind(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	d.spec = &plugins.Spec{Volume: &corev1.Volume{Name: "tmp"}}
	_, err := d.setUpDevice()
	d.class("SetUpDevice", err, plugins.Final)
	_, err = d.mapPodDevice()
	d.class("MapPodDevice", err, plugins.Final)
	d.class("TearDownDevice", d.tearDownDevice(), plugins.Final)
	testcheck.Equal(d, "disk", nil, d.leaves())
}

// TestReconstructBlock determines in a restarted process which device was mapped, also after an
// uncertain call.
func TestReconstructBlock(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		d := arrayDisk(t)
		if _, err := d.plugin.ReconstructBlock("pv", podUID); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("before it is set up: %v, want %v", err, fs.ErrNotExist)
		}
		if fails {
			d.conn.faults = []fault{{"NodeStageVolume", coded(codes.DeadlineExceeded), false}}
		}
		if _, err := d.setUpDevice(); (err != nil) != fails {
			t.Fatal(err)
		}
		made, err := d.plugin.ReconstructBlock("pv", podUID)
		d.NoError(err)
		name, err := d.plugin.VolumeName(made.Spec)
		d.NoError(err)
		path, err := d.plugin.GlobalMapPath(made.Spec)
		d.NoError(err)
		testcheck.Equal(d, "name of the volume", d.driver+"^"+d.handle, name)
		testcheck.Equal(d, "where it is mapped", root+"/"+devicesDir+"/pv/dev", path)
		testcheck.Equal(d, "its mode", corev1.PersistentVolumeBlock, *made.Spec.PersistentVolume.Spec.VolumeMode)
		d.spec = made.Spec
		d.NoError(d.tearDownDevice())
		if _, err := d.plugin.ReconstructBlock("pv", podUID); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after it is torn down: %v, want %v", err, fs.ErrNotExist)
		}
	}
}

// TestDeviceStats measures at the pod's node in the volume's global directory.
func TestDeviceStats(t *testing.T) {
	t.Parallel()
	s, d := capableDisk(t, csispec.NodeServiceCapability_RPC_GET_VOLUME_STATS)
	s.stats = &csispec.NodeGetVolumeStatsResponse{Usage: []*csispec.VolumeUsage{{
		Unit:  csispec.VolumeUsage_BYTES,
		Total: 42,
	}}}
	testcheck.Must(d.mapPodDevice())
	var usage plugins.Usage
	d.NoError(d.do(func(ctx context.Context) (err error) {
		usage, err = d.plugin.VolumeStats(ctx, "pv", podUID)
		return err
	}))
	testcheck.Equal(d, "capacity", int64(42), usage.CapacityBytes)
	testcheck.Equal(d, "asked about", root+"/"+devicesDir+"/pv/dev/uid-1", last[*csispec.NodeGetVolumeStatsRequest](s).GetVolumePath())
}
