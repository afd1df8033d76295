package csi_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Two volumes whose attachments have the same name: concatenated, handle, driver and node are
// equal.
const (
	driverA, handleA = "csi.example.com", "vol-1"
	driverB, handleB = "si.example.com", "vol-1c"
)

// other is the spec of an attachment with the name of the volume's that belongs to something else.
type other struct {
	name string
	spec storagev1.VolumeAttachmentSpec
	what string // as the error names it
}

func others() []other {
	named := func(name string) storagev1.VolumeAttachmentSource {
		return storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}
	}
	return []other{
		{
			"another driver's",
			storagev1.VolumeAttachmentSpec{Attacher: driverB, NodeName: node1, Source: named("pv-b")},
			"volume vol-1c of driver si.example.com on node node-1",
		},
		{
			"another driver's, whose volume is not to be seen",
			storagev1.VolumeAttachmentSpec{Attacher: driverB, NodeName: node1, Source: named("pv-gone")},
			"PersistentVolume pv-gone of driver si.example.com on node node-1",
		},
		{
			"another handle's",
			storagev1.VolumeAttachmentSpec{Attacher: driverA, NodeName: node1, Source: named("pv-c")},
			"volume vol-3 of driver csi.example.com on node node-1",
		},
		{
			"another node's",
			storagev1.VolumeAttachmentSpec{Attacher: driverA, NodeName: "node-2", Source: named("pv")},
			"volume vol-1 of driver csi.example.com on node node-2",
		},
		{
			"our volume's, for another attacher",
			storagev1.VolumeAttachmentSpec{Attacher: driverB, NodeName: node1, Source: named("pv")},
			"volume vol-1 of driver csi.example.com, attacher si.example.com on node node-1",
		},
		{
			"another driver's, for our attacher",
			storagev1.VolumeAttachmentSpec{Attacher: driverA, NodeName: node1, Source: named("pv-b")},
			"volume vol-1c of driver si.example.com, attacher csi.example.com on node node-1",
		},
		{
			"one's of no driver",
			storagev1.VolumeAttachmentSpec{Attacher: driverA, NodeName: node1, Source: named("pv-nfs")},
			"PersistentVolume pv-nfs of driver none, attacher csi.example.com on node node-1",
		},
		{
			"another one's, written out",
			storagev1.VolumeAttachmentSpec{Attacher: driverA, NodeName: node1, Source: storagev1.VolumeAttachmentSource{
				InlineVolumeSpec: writtenOut(driverA, "vol-3"),
			}},
			"volume vol-3 of driver csi.example.com on node node-1",
		},
	}
}

func persistent(name, driver, handle string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle},
			},
		},
	}
}

// writtenOut is the spec of an inline volume.
func writtenOut(driver, handle string) *corev1.PersistentVolumeSpec {
	spec := persistent("", driver, handle).Spec
	spec.Capacity, spec.PersistentVolumeReclaimPolicy = nil, ""
	return &spec
}

// taken returns a world with a foreign attachment, attached, that has the name of the volume's.
func (o other) taken(t *testing.T) *disk {
	t.Helper()
	d := attaching(t, handleA)
	d.persistent(persistent("pv-b", driverB, handleB))
	d.persistent(persistent("pv-c", driverA, "vol-3"))
	nfs := persistent("pv-nfs", "", "")
	nfs.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}}
	d.persistent(nfs)
	d.make(o)
	d.Run()
	return d
}

// make creates the attachment, attached.
func (d *disk) make(o other) {
	d.Helper()
	a := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: d.attachmentName(handleA), Finalizers: []string{attacherFinalizer}}, Spec: o.spec,
	}
	_, err := d.User.StorageV1().VolumeAttachments().Create(context.Background(), a, metav1.CreateOptions{})
	d.NoError(err)
	d.change(handleA, attached)
}

// untouched checks that the foreign attachment is unchanged.
func (d *disk) untouched() {
	d.Helper()
	if a := d.stored(handleA); a == nil || a.DeletionTimestamp != nil {
		d.Errorf("the other's attachment is %v", a)
	}
}

// takes checks that attaching fails because the name is taken.
func (d *disk) takes(o other, err error) {
	d.Helper()
	if !errors.Is(err, csi.ErrForeignAttachment) {
		d.Fatalf("error %v, want %v", err, csi.ErrForeignAttachment)
	}
	d.class("attach", err, plugins.Final)
	testcheck.Equal(d, "message", "VolumeAttachment "+d.attachmentName(handleA)+" is of "+o.what+
		", not of volume vol-1 of driver csi.example.com on node node-1: name is taken", err.Error())
}

func TestAttachmentNameCollision(t *testing.T) {
	t.Parallel()
	if a, b := csi.AttachmentName(handleA, driverA, node1), csi.AttachmentName(handleB, driverB, node1); a != b {
		t.Errorf("%s and %s: nothing to tell apart", a, b)
	}
}

func TestForeignAttachmentIsRejected(t *testing.T) {
	t.Parallel()
	for _, o := range others() {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			t.Run("attach", func(t *testing.T) {
				t.Parallel()
				d := o.taken(t)
				d.takes(o, d.do(d.attach))
				testcheck.Equal(d, "requests", nil, d.calls(trace.KindAPI))
				d.untouched()
			})
			t.Run("detach", func(t *testing.T) {
				t.Parallel()
				d := o.taken(t)
				d.NoError(d.do(d.detach))
				testcheck.Equal(d, "requests", []string{"get"}, d.calls(trace.KindAPI))
				d.untouched()
			})
			t.Run("verify", func(t *testing.T) {
				t.Parallel()
				d := o.taken(t)
				if seen, is := d.verify(); seen != plugins.Detached || is != plugins.Detached {
					t.Errorf("seen %v, is %v, want detached", seen, is)
				}
			})
		})
	}
}

// TestForeignAttachmentAppearsDuringAttach has it appear between the lookup and the creation.
func TestForeignAttachmentAppearsDuringAttach(t *testing.T) {
	t.Parallel()
	o := others()[0]
	d := attaching(t, handleA)
	d.persistent(persistent("pv-b", driverB, handleB))
	d.Run()
	started := d.begin(d.attach)
	d.upTo("api create volumeattachments")
	d.make(o)
	d.Run()
	d.ended(started, true)
	d.takes(o, started.err)
	testcheck.Equal(d, "requests", []string{"create!"}, d.calls(trace.KindAPI))
	d.untouched()
}

// TestForeignAttachmentAppearsDuringDetach has it replace ours between the lookup and the deletion.
func TestForeignAttachmentAppearsDuringDetach(t *testing.T) {
	t.Parallel()
	d := attaching(t, handleA)
	d.attachment(handleA, attached)
	d.Run()
	started := d.begin(d.detach)
	d.upTo("api delete volumeattachments")
	d.removeAttachment()
	d.make(others()[1])
	d.Run()
	d.ended(started, true)
	if started.err == nil {
		t.Error("no error, although the object to delete does not exist")
	}
	d.untouched()
	d.NoError(d.do(d.detach)) // now it is seen
	d.untouched()
}

// TestAttachAfterForeignAttachmentIsDeleted has the cache still contain the foreign one.
func TestAttachAfterForeignAttachmentIsDeleted(t *testing.T) {
	t.Parallel()
	d := others()[0].taken(t)
	d.removeAttachment()
	d.attachment(handleA, attached)
	d.Host.SetStrategy(lagging("process/cache volumeattachments"))
	d.NoError(d.do(d.detach))
	testcheck.Equal(d, "requests", []string{"get", "delete"}, d.calls(trace.KindAPI))
	if a := d.stored(handleA); a != nil {
		t.Errorf("the attachment is still there: %v", a)
	}
}

// TestForeignPersistentVolumeMissingFromCache reads the attachment's volume from the API server.
func TestForeignPersistentVolumeMissingFromCache(t *testing.T) {
	t.Parallel()
	o := others()[2]
	world := func(t *testing.T) *disk {
		d := attaching(t, handleA)
		d.make(o)
		d.Run()
		d.Host.SetStrategy(lagging("process/cache persistentvolumes"))
		d.persistent(persistent("pv-c", driverA, "vol-3"))
		return d
	}
	d := world(t)
	d.takes(o, d.do(d.attach))
	testcheck.Equal(d, "requests", []string{"get"}, d.calls(trace.KindAPI))
	d = world(t)
	d.NoError(d.do(d.detach))
	testcheck.Equal(d, "requests", []string{"get", "get"}, d.calls(trace.KindAPI)) // the attachment and its volume
	d.untouched()
	testcheck.Equal(d, "time", sim.Epoch, d.Host.Now())
	d = world(t)
	if _, is := d.verify(); is != plugins.Detached {
		t.Errorf("it is %v, want detached", is)
	}
}

// TestAttachmentOfInTreeVolume accepts the attachment if its volume translates to ours.
func TestAttachmentOfInTreeVolume(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]plugins.AttachState{"vol-1": plugins.Attached, "vol-2": plugins.Detached} {
		w := newWorld(t)
		w.driver = "ebs.csi.aws.com"
		d := w.volume("vol-1")
		v := persistent("pv", "", "")
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
			AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: id},
		}
		d.persistent(v)
		d.attachment("vol-1", attached)
		d.Run()
		if seen, is := d.verify(); seen != want || is != want {
			t.Errorf("attachment of %s: seen %v, is %v, want %v", id, seen, is, want)
		}
	}
}

// TestAttachmentOfSecondVolumeWithSameHandle accepts the attachment: both PersistentVolumes are the
// same disk.
func TestAttachmentOfSecondVolumeWithSameHandle(t *testing.T) {
	t.Parallel()
	twin := "pv-twin"
	for _, known := range []bool{true, false} {
		d := attaching(t, handleA)
		if known {
			d.persistent(persistent(twin, driverA, handleA))
		}
		d.make(other{spec: storagev1.VolumeAttachmentSpec{
			Attacher: driverA, NodeName: node1, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &twin},
		}})
		d.Run()
		d.NoError(d.do(d.attach))
		if seen, is := d.verify(); seen != plugins.Attached || is != plugins.Attached {
			t.Errorf("seen %v, is %v, want attached", seen, is)
		}
	}
}

// TestInlineAttachmentHasNoPersistentVolume has a PersistentVolume with the name of the translated
// inline volume.
func TestInlineAttachmentHasNoPersistentVolume(t *testing.T) {
	t.Parallel()
	o := others()[2]
	d := o.taken(t)
	d.spec = &plugins.Spec{PersistentVolume: persistent("pv-c", driverA, handleA), Inline: true}
	d.takes(o, d.do(d.attach))
}

func TestKubeletIgnoresForeignAttachment(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	a := d.stored(d.handle)
	d.NoError(d.User.StorageV1().VolumeAttachments().Delete(context.Background(), a.Name, metav1.DeleteOptions{}))
	a = &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: a.Name}, Spec: a.Spec, Status: a.Status}
	a.Spec.Attacher = driverB
	_, err := d.User.StorageV1().VolumeAttachments().Create(context.Background(), a, metav1.CreateOptions{})
	d.NoError(err)
	d.change(d.handle, attached)
	d.Run()
	if err := d.mountDevice(); !errors.Is(err, csi.ErrForeignAttachment) {
		t.Errorf("mounting it by another's attachment: error %v", err)
	}
	testcheck.Equal(d, "left on disk", nil, d.leaves())
}
