package attacher_test

import (
	"context"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sidecars/attacher"
	"github.com/volsim/volsim/sidecars/internal/scripted"
	"github.com/volsim/volsim/sim"
)

// world is an API server, a disk array and the attacher.
type world struct {
	*testworld.World
	array *array.Array
	conn  *scripted.Conn
}

func newWorld(t *testing.T, chooser sim.Chooser) *world {
	t.Helper()
	w := testworld.New(t, sim.SteppedConfig{Chooser: chooser, StepsMax: 100_000})
	disks := array.New(array.Config{})
	conn := &scripted.Conn{ClientConnInterface: csi.Direct(func(r grpc.ServiceRegistrar) {
		csispec.RegisterControllerServer(r, disks.Controller())
	})}
	all := &world{w, disks, conn}
	all.startAttacher(w.Host.Process("attacher"))
	return all
}

// startAttacher starts an attacher in a new process.
func (w *world) startAttacher(c *sim.Process) {
	attacher.New(attacher.Config{
		Process: c, Client: w.Server.Client(c), Informers: w.Server.Informers(c),
		DriverName: array.DriverName, Conn: csi.Suspend(c, array.DriverName, w.conn),
	})
}

// node makes a node with the driver.
func (w *world) node(name, id string) {
	w.Helper()
	w.array.Node(id, nodefs.NewMemory("/"))
	testcheck.Must(w.User.StorageV1().CSINodes().Create(context.Background(), &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: array.DriverName, NodeID: id}}},
	}, metav1.CreateOptions{}))
}

// volume makes a volume and its PersistentVolume, and returns its handle.
func (w *world) volume(name string) string {
	w.Helper()
	made := testcheck.Must(w.array.Controller().CreateVolume(context.Background(), &csispec.CreateVolumeRequest{
		Name: name,
		VolumeCapabilities: []*csispec.VolumeCapability{{
			AccessMode: &csispec.VolumeCapability_AccessMode{Mode: csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
			AccessType: &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{FsType: "ext4"}},
		}},
	}))
	testcheck.Must(w.User.CoreV1().PersistentVolumes().Create(context.Background(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:  []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:     corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			MountOptions: []string{"noatime"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: array.DriverName, VolumeHandle: made.GetVolume().GetVolumeId(),
				FSType: "ext4", VolumeAttributes: map[string]string{"k": "v"},
			}},
		},
	}, metav1.CreateOptions{}))
	return made.GetVolume().GetVolumeId()
}

func newAttachment(name, volume, node string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: array.DriverName, NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
		},
	}
}

func (w *world) attach(name, volume, node string) {
	w.Helper()
	testcheck.Must(w.User.StorageV1().VolumeAttachments().
		Create(context.Background(), newAttachment(name, volume, node), metav1.CreateOptions{}))
}

func (w *world) detach(name string) {
	w.Helper()
	w.NoError(w.User.StorageV1().VolumeAttachments().Delete(context.Background(), name, metav1.DeleteOptions{}))
}

func (w *world) patchAttachment(patch string) {
	w.Helper()
	testcheck.Must(w.User.StorageV1().VolumeAttachments().
		Patch(context.Background(), "va", types.MergePatchType, []byte(patch), metav1.PatchOptions{}))
}

func (w *world) attachment(name string) *storagev1.VolumeAttachment {
	obj, ok := w.Server.Get("volumeattachments", "", name)
	if !ok {
		return nil
	}
	return obj.(*storagev1.VolumeAttachment)
}

func (w *world) get(volume string) *corev1.PersistentVolume {
	obj, ok := w.Server.Get("persistentvolumes", "", volume)
	if !ok {
		return nil
	}
	return obj.(*corev1.PersistentVolume)
}
