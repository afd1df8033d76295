package csi_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim/trace"
)

func TestMountLifecycle(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	source := " <- " + d.handle

	d.NoError(d.mountDevice())
	testcheck.Equal(d, "disk after MountDevice", d.globalLeaves(source), d.leaves())
	d.NoError(d.setUp())
	testcheck.Equal(d, "disk after SetUp", slices.Concat(d.globalLeaves(source), d.podLeaves(source)), d.leaves(), sorted)
	d.NoError(d.disk.WriteFile(d.mountPath("pv")+"/data", []byte("written by the pod")))
	d.NoError(d.tearDown())
	testcheck.Equal(d, "disk after TearDown", append(d.globalLeaves(source), emptyPodDir), d.leaves(), sorted)
	d.NoError(d.unmountDevice())
	testcheck.Equal(d, "disk after UnmountDevice", []string{d.emptyDriverDir(), emptyPodDir}, d.leaves())

	testcheck.Equal(d, "calls of the driver", []string{
		"NodeGetInfo", "NodeGetCapabilities",
		"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume",
	}, d.calls(trace.KindDriver))

	d.NoError(d.mountDevice())
	content, err := d.disk.ReadFile(d.globalMount() + "/data")
	d.NoError(err)
	testcheck.Equal(d, "content", "written by the pod", string(content))
}

func TestPaths(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	global, err := d.plugin.DeviceMountPath(d.spec)
	d.NoError(err)
	testcheck.Equal(d, "device", d.globalMount(), global)
	for _, name := range []string{"pv", "test.spec.1"} {
		testcheck.Equal(d, "pod", root+"/pods/uid-1/volumes/kubernetes.io~csi/"+name+"/mount", d.mountPath(name))
	}
}

func TestEverythingIsIdempotent(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	d.NoError(d.tearDown())
	d.NoError(d.unmountDevice())
	testcheck.Equal(d, "disk after undoing nothing", nil, d.leaves())
	source := " <- " + d.handle
	for _, step := range []struct {
		name string
		do   func() error
		want []string
	}{
		{"MountDevice", d.mountDevice, d.globalLeaves(source)},
		{"SetUp", d.setUp, slices.Concat(d.globalLeaves(source), d.podLeaves(source))},
		{"TearDown", d.tearDown, append(d.globalLeaves(source), emptyPodDir)},
		{"UnmountDevice", d.unmountDevice, []string{d.emptyDriverDir(), emptyPodDir}},
	} {
		for range 2 {
			d.NoError(step.do())
			testcheck.Equal(d, "disk after "+step.name, step.want, d.leaves(), sorted)
		}
	}
}

// TestFailedCalls injects a fault, checks what is left, and then retries the call or undoes it.
func TestFailedCalls(t *testing.T) {
	t.Parallel()
	final := []codes.Code{
		codes.Unknown, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented, codes.Internal, codes.DataLoss,
		codes.Unauthenticated,
	}
	uncertain := []codes.Code{
		codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted,
	}
	type outcome struct {
		err   error
		class plugins.Class
	}
	outcomes := []outcome{{errPipe, plugins.Uncertain}}
	for _, c := range final {
		outcomes = append(outcomes, outcome{coded(c), plugins.Final})
	}
	for _, c := range uncertain {
		outcomes = append(outcomes, outcome{coded(c), plugins.Uncertain})
	}
	for _, o := range outcomes {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v after=%v", o.err, after), func(t *testing.T) {
				t.Parallel()
				testFailedMount(t, fault{err: o.err, after: after}, o.class)
				testFailedUnmount(t, fault{err: o.err, after: after}, o.class)
			})
		}
	}
}

// testFailedMount injects faults into the two calls that mount.
func testFailedMount(t *testing.T, f fault, class plugins.Class) {
	t.Helper()
	if f.after {
		class = plugins.Uncertain // it is mounted, whatever the driver says
	}
	d := arrayDisk(t)
	mounted := " <- " + d.handle
	staged, published := d.globalLeaves(mounted), d.podLeaves(mounted)
	leftOfStage, leftOfPublish := d.globalLeaves(""), []string{d.podData()} // the driver makes the pod's directory
	switch {
	case f.after:
		leftOfStage, leftOfPublish = staged, published
	case class == plugins.Final:
		leftOfStage, leftOfPublish = []string{d.emptyDriverDir()}, []string{emptyPodDir}
	}

	f.method = "NodeStageVolume"
	d.conn.faults = []fault{f, f}
	d.class("MountDevice", d.mountDevice(), class)
	testcheck.Equal(d, "disk after MountDevice has failed", leftOfStage, d.leaves())
	d.NoError(d.unmountDevice())
	testcheck.Equal(d, "disk after it was undone", []string{d.emptyDriverDir()}, d.leaves())
	d.class("MountDevice", d.mountDevice(), class)
	d.NoError(d.mountDevice())
	testcheck.Equal(d, "disk after it was tried again", staged, d.leaves())

	f.method = "NodePublishVolume"
	d.conn.faults = []fault{f, f}
	d.class("SetUp", d.setUp(), class)
	testcheck.Equal(d, "disk after SetUp has failed", slices.Concat(staged, leftOfPublish), d.leaves(), sorted)
	d.NoError(d.tearDown())
	testcheck.Equal(d, "disk after it was undone", append(staged, emptyPodDir), d.leaves(), sorted)
	d.class("SetUp", d.setUp(), class)
	d.NoError(d.setUp())
	testcheck.Equal(d, "disk after it was tried again", slices.Concat(staged, published), d.leaves(), sorted)
}

// testFailedUnmount injects faults into the two calls that unmount: everything that a retry needs
// stays.
func testFailedUnmount(t *testing.T, f fault, class plugins.Class) {
	t.Helper()
	d := arrayDisk(t)
	source := " <- " + d.handle
	d.NoError(d.mountDevice())
	d.NoError(d.setUp())

	f.method = "NodeUnpublishVolume"
	d.conn.faults = []fault{f}
	d.class("TearDown", d.tearDown(), class)
	if !slices.Contains(d.leaves(), d.podData()) {
		t.Errorf("the data file is missing after a failed TearDown: %q", d.leaves())
	}
	d.NoError(d.tearDown())
	testcheck.Equal(d, "disk after TearDown", append(d.globalLeaves(source), emptyPodDir), d.leaves(), sorted)

	f.method = "NodeUnstageVolume"
	d.conn.faults = []fault{f}
	d.class("UnmountDevice", d.unmountDevice(), class)
	if f.after {
		source = ""
	}
	testcheck.Equal(d, "disk after UnmountDevice has failed", append(d.globalLeaves(source), emptyPodDir), d.leaves(), sorted)
	d.NoError(d.unmountDevice())
	testcheck.Equal(d, "disk after UnmountDevice", []string{d.emptyDriverDir(), emptyPodDir}, d.leaves())
}

// TestFinalErrorAfterUncertainError leaves nothing: there will be no retry.
func TestFinalErrorAfterUncertainError(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	d.conn.faults = []fault{
		{method: "NodeStageVolume", err: coded(codes.Unavailable)}, {method: "NodeStageVolume", err: coded(codes.NotFound)},
	}
	d.class("first", d.mountDevice(), plugins.Uncertain)
	d.class("second", d.mountDevice(), plugins.Final)
	testcheck.Equal(d, "disk", []string{d.emptyDriverDir()}, d.leaves())
}

// TestFinalErrorWhileMounted is uncertain: it must be unmounted some time, so it must not be
// forgotten.
func TestFinalErrorWhileMounted(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	source := " <- " + d.handle
	d.NoError(d.mountDevice())
	d.NoError(d.setUp())
	d.conn.faults = []fault{
		{method: "NodeStageVolume", err: coded(codes.Internal)}, {method: "NodePublishVolume", err: coded(codes.Internal)},
	}
	for what, mount := range map[string]func() error{"MountDevice": d.mountDevice, "SetUp": d.setUp} {
		err := mount()
		d.class(what, err, plugins.Uncertain)
		if !errors.Is(err, nodefs.ErrMounted) {
			t.Errorf("%s: %v does not say that it is mounted", what, err)
		}
	}
	testcheck.Equal(d, "disk", slices.Concat(d.globalLeaves(source), d.podLeaves(source)), d.leaves(), sorted)
}

func TestMissingPrerequisiteIsTransient(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	other := d.volume("vol-other")
	other.spec.PersistentVolume.Spec.CSI.Driver = "other.example.com"
	d.class("MountDevice without the driver", other.mountDevice(), plugins.Transient)
	d.class("SetUp without the driver", other.setUp(), plugins.Transient)

	unattached := d.volume("vol-unattached")
	d.class("MountDevice without an attachment", unattached.mountDevice(), plugins.Transient)
	d.class("SetUp without an attachment", unattached.setUp(), plugins.Transient)
	d.attachment("vol-unattached", func(*storagev1.VolumeAttachment) {})
	d.class("MountDevice of what is being attached", unattached.mountDevice(), plugins.Transient)
	d.class("SetUp of what is being attached", unattached.setUp(), plugins.Transient)

	testcheck.Equal(d, "disk", nil, d.leaves())
	testcheck.Equal(d, "calls of the driver", []string{"NodeGetInfo", "NodeGetCapabilities"}, d.calls(trace.KindDriver))
}

// TestCleanupNeedsDriver restarts a kubelet with a mount on its disk, before the driver registers
// again.
func TestCleanupNeedsDriver(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	for dir, data := range map[string]string{
		path.Dir(d.globalMount()):                         `{"volumeHandle":"h","driverName":"other.example.com"}`,
		root + "/pods/uid-1/volumes/kubernetes.io~csi/pv": `{"volumeHandle":"h","driverName":"other.example.com"}`,
	} {
		d.NoError(d.disk.MkdirAll(dir))
		d.NoError(d.disk.WriteFile(dir+"/vol_data.json", []byte(data)))
	}
	before := d.leaves()
	d.class("UnmountDevice", d.unmountDevice(), plugins.Transient)
	d.class("TearDown", d.tearDown(), plugins.Transient)
	testcheck.Equal(d, "disk", before, d.leaves())
}

func TestVolumeOfOtherKind(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	d.spec = &plugins.Spec{Volume: &corev1.Volume{Name: "tmp"}}
	testcheck.Equal(d, "supported", false, d.plugin.CanSupport(d.spec))
	_, nameErr := d.plugin.VolumeName(d.spec)
	_, attachErr := d.plugin.CanAttach(d.spec)
	_, deviceErr := d.plugin.CanDeviceMount(d.spec)
	_, pathErr := d.plugin.DeviceMountPath(d.spec)
	for what, err := range map[string]error{
		"VolumeName": nameErr, "CanAttach": attachErr, "CanDeviceMount": deviceErr, "DeviceMountPath": pathErr,
		"Attach":      d.do(d.attach),
		"MountDevice": d.mountDevice(), "SetUp": d.setUp(),
	} {
		d.class(what, err, plugins.Final)
	}
	testcheck.Equal(d, "disk", nil, d.leaves())
}

// TestVolumeWithoutHandle has a volume that no API server stores; no path is derived from it.
func TestVolumeWithoutHandle(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	d.spec.PersistentVolume.Spec.CSI.VolumeHandle = ""
	path, err := d.plugin.DeviceMountPath(d.spec)
	d.class("DeviceMountPath", err, plugins.Final)
	testcheck.Equal(d, "path", "", path)
	for what, err := range map[string]error{"MountDevice": d.mountDevice(), "SetUp": d.setUp(), "Attach": d.do(d.attach)} {
		d.class(what, err, plugins.Final)
	}
	testcheck.Equal(d, "disk", nil, d.leaves())
}

func TestMountDeviceWithoutPath(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	d.class("MountDevice", d.do(func(ctx context.Context) error {
		return d.plugin.MountDevice(ctx, d.spec, "",
			plugins.MountOptions{})
	}), plugins.Final)
	testcheck.Equal(d, "disk", nil, d.leaves())
}

// TestDataFileWriteFails has a directory at its path: the driver is not called, since the call
// could not be undone.
func TestDataFileWriteFails(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	d.NoError(d.disk.MkdirAll(path.Dir(d.globalMount()) + "/vol_data.json/in-the-way"))
	if err := d.mountDevice(); err == nil {
		t.Error("no error")
	}
	testcheck.Equal(d, "calls of the driver", []string{"NodeGetInfo", "NodeGetCapabilities"}, d.calls(trace.KindDriver))
}

func TestLostDataFile(t *testing.T) {
	t.Parallel()
	t.Run("what is mounted stays, and is an error", func(t *testing.T) {
		t.Parallel()
		d := arrayDisk(t)
		source := " <- " + d.handle
		d.NoError(d.mountDevice())
		d.NoError(d.setUp())
		d.NoError(d.disk.Remove(path.Dir(d.mountPath("pv")) + "/vol_data.json"))
		d.NoError(d.disk.Remove(path.Dir(d.globalMount()) + "/vol_data.json"))
		for what, err := range map[string]error{"TearDown": d.tearDown(), "UnmountDevice": d.unmountDevice()} {
			if !errors.Is(err, nodefs.ErrMounted) {
				t.Errorf("%s: %v, want ErrMounted", what, err)
			}
		}
		testcheck.Equal(d, "disk", []string{d.globalLeaves(source)[0], d.podLeaves(source)[0]}, d.leaves(), sorted)
	})
	t.Run("bare directories are removed", func(t *testing.T) {
		t.Parallel()
		d := arrayDisk(t)
		d.NoError(d.disk.MkdirAll(d.globalMount()))
		d.NoError(d.disk.MkdirAll(d.mountPath("pv")))
		d.NoError(d.tearDown())
		d.NoError(d.unmountDevice())
		testcheck.Equal(d, "disk", []string{d.emptyDriverDir(), emptyPodDir}, d.leaves())
	})
	t.Run("what cannot be read is an error", func(t *testing.T) {
		t.Parallel()
		for _, data := range []string{"", "{", "{}", `{"volumeHandle":"h"}`, `{"driverName":"d"}`} {
			d := arrayDisk(t)
			d.NoError(d.mountDevice())
			d.NoError(d.disk.WriteFile(path.Dir(d.globalMount())+"/vol_data.json", []byte(data)))
			if err := d.unmountDevice(); err == nil {
				t.Errorf("data file %q: no error", data)
			}
			if mounted, err := d.disk.IsMountPoint(d.globalMount()); err != nil || !mounted {
				t.Errorf("data file %q: the mount was removed", data)
			}
		}
	})
}

// TestContentOutlivesFailures is I25: no sequence of failures touches what is stored in the volume.
func TestContentOutlivesFailures(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	d.NoError(d.mountDevice())
	d.NoError(d.setUp())
	target := d.mountPath("pv")
	d.NoError(d.disk.WriteFile(target+"/data", []byte("precious")))
	for _, method := range []string{"NodePublishVolume", "NodeStageVolume", "NodeUnpublishVolume", "NodeUnstageVolume"} {
		for _, c := range []codes.Code{codes.Internal, codes.Unavailable} {
			d.conn.faults = append(d.conn.faults, fault{method: method, err: coded(c)})
		}
	}
	for range 2 {
		if d.setUp() == nil || d.mountDevice() == nil || d.tearDown() == nil || d.unmountDevice() == nil {
			t.Error("a call that was to fail has not")
		}
	}
	for _, file := range []string{target + "/data", d.globalMount() + "/data"} {
		content, err := d.disk.ReadFile(file)
		d.NoError(err)
		testcheck.Equal(d, file, "precious", string(content))
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		spec, source  bool
		mode          corev1.PersistentVolumeAccessMode
		device, mount string
	}{
		{"not", false, false, corev1.ReadWriteOnce, "", ""},
		{"as the pod has it", true, false, corev1.ReadWriteOnce, "", " ro"},
		{"as the volume has it", false, true, corev1.ReadWriteOnce, "", " ro"},
		{"as both have it", true, true, corev1.ReadWriteOnce, "", " ro"},
		{"as the mode has it", false, false, corev1.ReadOnlyMany, " ro", " ro"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := arrayDisk(t)
			d.spec.ReadOnly = tt.spec
			d.spec.PersistentVolume.Spec.CSI.ReadOnly = tt.source
			d.spec.PersistentVolume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{tt.mode}
			d.NoError(d.mountDevice())
			d.NoError(d.setUp())
			source := " <- " + d.handle
			testcheck.Equal(d, "disk", slices.Concat(d.globalLeaves(source+tt.device), d.podLeaves(source+tt.mount)), d.leaves(), sorted)
		})
	}
}

func TestAccessMode(t *testing.T) {
	t.Parallel()
	const (
		rwo, rwop = corev1.ReadWriteOnce, corev1.ReadWriteOncePod
		rwx, rox  = corev1.ReadWriteMany, corev1.ReadOnlyMany
	)
	type modes = []corev1.PersistentVolumeAccessMode
	tests := []struct {
		modes              modes
		plain, multiWriter string // for a driver without and with SINGLE_NODE_MULTI_WRITER
	}{
		{nil, "SINGLE_NODE_WRITER", "SINGLE_NODE_MULTI_WRITER"},
		{modes{rwo}, "SINGLE_NODE_WRITER", "SINGLE_NODE_MULTI_WRITER"},
		{modes{rwop}, "SINGLE_NODE_WRITER", "SINGLE_NODE_SINGLE_WRITER"},
		{modes{rwx}, "MULTI_NODE_MULTI_WRITER", "MULTI_NODE_MULTI_WRITER"},
		{modes{rox}, "MULTI_NODE_READER_ONLY", "MULTI_NODE_READER_ONLY"},
		{modes{rwo, rwx}, "SINGLE_NODE_WRITER", "SINGLE_NODE_MULTI_WRITER"}, // only the first counts
		{modes{rox, rwo}, "MULTI_NODE_READER_ONLY", "MULTI_NODE_READER_ONLY"},
	}
	for _, tt := range tests {
		for _, multiWriter := range []bool{false, true} {
			s, d := stubDisk(t, true, multiWriter)
			want := tt.plain
			if multiWriter {
				want = tt.multiWriter
			}
			d.spec.PersistentVolume.Spec.AccessModes = tt.modes
			d.NoError(d.mountDevice())
			d.NoError(d.setUp())
			testcheck.Equal(d, fmt.Sprintf("modes of %v", tt.modes), []string{want, want}, []string{
				last[*csispec.NodeStageVolumeRequest](s).GetVolumeCapability().GetAccessMode().GetMode().String(),
				last[*csispec.NodePublishVolumeRequest](s).GetVolumeCapability().GetAccessMode().GetMode().String(),
			})
		}
	}
}
