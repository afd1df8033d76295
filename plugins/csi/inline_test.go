package csi_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/plugintest"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// inlineDisk returns a world with a stub that supports the given modes, and an inline volume of it.
func inlineDisk(t *testing.T, modes ...storagev1.VolumeLifecycleMode) (*stub, *disk) {
	t.Helper()
	s, d := stubDisk(t, true, false)
	d.csiDriver(storagev1.CSIDriverSpec{VolumeLifecycleModes: modes})
	return s, d.written()
}

// written is an inline volume of the driver.
func (d *disk) written() *disk {
	inline := *d
	inline.handle = fmt.Sprintf("csi-%x", sha256.Sum256([]byte(string(podUID)+"cache")))
	fsType := "ext4"
	inline.spec = &plugins.Spec{Volume: &corev1.Volume{
		Name: "cache",
		VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
			Driver: d.driver, FSType: &fsType, VolumeAttributes: map[string]string{"size": "1Gi"},
		}},
	}}
	return &inline
}

const inlineDir = root + "/pods/uid-1/volumes/kubernetes.io~csi/cache"

func TestInlineVolume(t *testing.T) {
	t.Parallel()
	const ephemeral, persistent = storagev1.VolumeLifecycleEphemeral, storagev1.VolumeLifecyclePersistent
	for name, modes := range map[string][]storagev1.VolumeLifecycleMode{
		"served": {ephemeral}, "in addition to persistent ones": {persistent, ephemeral},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, d := inlineDisk(t, modes...)
			attached, attachErr := d.plugin.CanAttach(d.spec)
			staged, stageErr := d.plugin.CanDeviceMount(d.spec)
			d.NoError(errors.Join(attachErr, stageErr))
			testcheck.Equal(d, "supported, attached, staged", []bool{true, false, false},
				[]bool{d.plugin.CanSupport(d.spec), attached, staged})
			d.NoError(d.setUp())
			testcheck.Equal(d, "disk", []string{fmt.Sprintf("pods/uid-1/volumes/kubernetes.io~csi/cache/vol_data.json "+
				`{"specVolID":"cache","volumeHandle":%q,"driverName":%q,"nodeName":"node-1","attachmentID":%q,"volumeLifecycleMode":"Ephemeral"}`,
				d.handle, d.driver, d.attachmentName(d.handle))}, d.leaves())
			d.NoError(d.tearDown())
			testcheck.Equal(d, "requests", []proto.Message{
				&csispec.NodePublishVolumeRequest{
					VolumeId: d.handle, TargetPath: inlineDir + "/mount", VolumeContext: map[string]string{"size": "1Gi"},
					VolumeCapability: &csispec.VolumeCapability{
						AccessMode: &csispec.VolumeCapability_AccessMode{Mode: csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
						AccessType: &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{FsType: "ext4"}},
					},
				},
				&csispec.NodeUnpublishVolumeRequest{VolumeId: d.handle, TargetPath: inlineDir + "/mount"},
			}, s.requests, protocmp.Transform())
			testcheck.Equal(d, "requests to the API server", nil, d.calls(trace.KindAPI))
			testcheck.Equal(d, "disk at the end", []string{emptyPodDir}, d.leaves())
		})
	}
}

func TestInlineVolumeUnsupportedByDriver(t *testing.T) {
	t.Parallel()
	for name, driver := range map[string]*storagev1.CSIDriverSpec{
		"no CSIDriver":     nil,
		"no modes":         {},
		"persistent alone": {VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, d := stubDisk(t, true, false)
			if driver != nil {
				d.csiDriver(*driver)
			}
			inline := d.written()
			d.class("SetUp", inline.setUp(), plugins.Transient)
			testcheck.Equal(d, "requests", 0, len(s.requests))
			testcheck.Equal(d, "disk", nil, d.leaves())
		})
	}
}

// TestInlineVolumeHasNoName: other pods cannot use it, and it is not mounted for the node.
func TestInlineVolumeHasNoName(t *testing.T) {
	t.Parallel()
	_, d := inlineDisk(t, storagev1.VolumeLifecycleEphemeral)
	_, nameErr := d.plugin.VolumeName(d.spec)
	_, pathErr := d.plugin.DeviceMountPath(d.spec)
	d.class("VolumeName", nameErr, plugins.Final)
	d.class("DeviceMountPath", pathErr, plugins.Final)
	d.class("Attach", d.do(d.attach), plugins.Final)
	path := root + "/plugins/kubernetes.io/csi/" + d.driver + "/globalmount"
	d.class("MountDevice", d.do(func(ctx context.Context) error {
		return d.plugin.MountDevice(ctx, d.spec, path,
			d.use)
	}), plugins.Final)
	testcheck.Equal(d, "disk", nil, d.leaves())
}

func TestInlineVolumeReadOnly(t *testing.T) {
	t.Parallel()
	s, d := inlineDisk(t, storagev1.VolumeLifecycleEphemeral)
	yes := true
	d.spec.Volume.CSI.ReadOnly, d.spec.Volume.CSI.FSType = &yes, nil
	d.NoError(d.setUp())
	asked := last[*csispec.NodePublishVolumeRequest](s)
	testcheck.Equal(d, "read-only", true, asked.GetReadonly())
	testcheck.Equal(d, "file system", "", asked.GetVolumeCapability().GetMount().GetFsType())
}

// TestInlineVolumeIsReconstructed even if it is uncertain whether it was published, and torn down
// from the record.
func TestInlineVolumeIsReconstructed(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		_, d := inlineDisk(t, storagev1.VolumeLifecycleEphemeral)
		if fails {
			d.conn.faults = []fault{{"NodePublishVolume", coded(codes.DeadlineExceeded), false}}
		}
		if err := d.setUp(); (err != nil) != fails {
			t.Fatal(err)
		}
		made, err := d.plugin.Reconstruct("cache", podUID)
		d.NoError(err)
		testcheck.Equal(d, "volume", &plugins.Spec{Volume: &corev1.Volume{
			Name: "cache", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: d.driver}},
		}}, made.Spec)
		d.NoError(d.tearDown())
		if _, err := d.plugin.Reconstruct("cache", podUID); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after it is torn down: %v, want %v", err, fs.ErrNotExist)
		}
	}
}

// TestVolumeOutsideTheAPI mounts a translated inline volume, whose spec has everything that is
// needed.
func TestVolumeOutsideTheAPI(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	d.spec.Inline = true
	a := d.stored(d.handle)
	attachments := d.User.StorageV1().VolumeAttachments()
	d.NoError(attachments.Delete(t.Context(), a.Name, metav1.DeleteOptions{}))
	written := d.spec.PersistentVolume.Spec
	_, err := attachments.Create(t.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: a.Name},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: d.driver, NodeName: node1, Source: storagev1.VolumeAttachmentSource{InlineVolumeSpec: &written},
		},
	}, metav1.CreateOptions{})
	d.NoError(err)
	d.change(d.handle, func(made *storagev1.VolumeAttachment) { made.Status = a.Status })
	d.NoError(d.mountDevice())
	d.NoError(d.setUp())
	source := " <- " + d.handle
	testcheck.Equal(d, "disk", append(d.globalLeaves(source), d.podLeaves(source)...), d.leaves(), sorted)
	d.NoError(d.tearDown())
	d.NoError(d.unmountDevice())
	testcheck.Equal(d, "disk at the end", []string{d.emptyDriverDir(), emptyPodDir}, d.leaves())
}

// TestPluginContractInline checks the contract of package plugins for inline volumes.
func TestPluginContractInline(t *testing.T) {
	t.Parallel()
	err := plugintest.Check(t.Context(), func() (*plugintest.World, error) {
		host := sim.NewStepped(sim.SteppedConfig{StepsMax: 10_000})
		driver := &stub{
			capabilities: []csispec.NodeServiceCapability_RPC_Type{csispec.NodeServiceCapability_RPC_GET_VOLUME_STATS},
			stats: &csispec.NodeGetVolumeStatsResponse{Usage: []*csispec.VolumeUsage{{
				Unit:  csispec.VolumeUsage_BYTES,
				Total: 1,
			}}},
		}
		s := &scene{
			storage: storage{
				driver: stubName, disk: nodefs.NewMemory(root), root: root,
				node: func() csispec.NodeServer { return driver },
			},
			host: host, server: fake.NewServer(fake.Config{Now: host.Now}),
		}
		w := &plugintest.World{
			Host: host, Resources: s.left, Nodes: []types.NodeName{node1},
			Pods: []*corev1.Pod{
				{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "uid-a"}},
				{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b", UID: "uid-b"}},
			},
		}
		for _, name := range []string{"cache", "scratch"} {
			w.Volumes = append(w.Volumes, &plugins.Spec{Volume: &corev1.Volume{
				Name: name, VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: stubName}},
			}})
		}
		err := s.server.Add(&storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: stubName},
			Spec:       storagev1.CSIDriverSpec{VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}},
		})
		if err != nil {
			return nil, err
		}
		w.Process, w.Plugin, err = s.process()
		w.Restart = func() (*sim.Process, plugins.Plugin, error) {
			host.Crash(w.Process)
			s.server.RemoveComponent(w.Process)
			return s.process()
		}
		return w, err
	})
	if err != nil {
		t.Error(strings.ReplaceAll("\n"+err.Error(), "\n", "\n  "))
	}
}
