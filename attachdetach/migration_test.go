package attachdetach_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/csi"
)

const (
	ebsDriver = "ebs.csi.aws.com"
	ebsDisk   = corev1.UniqueVolumeName(csi.PluginName + "/" + ebsDriver + "^vol-1")
	ebsOn1    = ebsDriver + "^vol-1 on node-1"
	ebsOn2    = ebsDriver + "^vol-1 on node-2"
)

func ebs() *corev1.AWSElasticBlockStoreVolumeSource {
	return &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}
}

// ebsPod creates a pod with the disk, by a claim or inline.
func (w *world) ebsPod(name, node string, inline bool) {
	w.Helper()
	pod := newPod(name, node, "disk")
	if inline {
		pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{AWSElasticBlockStore: ebs()}
	}
	_, err := w.User.CoreV1().Pods("default").Create(context.Background(), pod, metav1.CreateOptions{})
	w.NoError(err)
}

// migrating returns a world with an in-tree disk with a migrated plugin, of a claim or inline in
// pods only.
func migrating(t *testing.T, inline bool) (*world, *attachers) {
	t.Helper()
	w := newWorld(t, nil)
	backend := newAttachers(w)
	w.nodeObject("node-1")
	w.nodeObject("node-2")
	if !inline {
		w.source("disk", corev1.PersistentVolumeSource{AWSElasticBlockStore: ebs()})
	}
	return w, backend
}

func eachMigrated(t *testing.T, test func(t *testing.T, inline bool)) {
	t.Helper()
	t.Parallel()
	for name, inline := range map[string]bool{"PersistentVolume": false, "written out": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, inline)
		})
	}
}

// TestMigratedVolumeIsAttachedByItsDriver also shows that no CSINode is read to check the node's
// migration.
func TestMigratedVolumeIsAttachedByItsDriver(t *testing.T) {
	eachMigrated(t, func(t *testing.T, inline bool) {
		w, backend := migrating(t, inline)
		w.start(withCSI)
		w.ebsPod("a", "node-1", inline)
		w.Run()
		w.quiet()
		testcheck.Equal(w, "attached", []string{ebsOn1}, backend.has())
		testcheck.Equal(w, "volumes attached", []string{string(ebsDisk) + "="}, w.attachedIn("node-1"))

		object, _ := w.Server.Get("volumeattachments", "", csi.AttachmentName("vol-1", ebsDriver, "node-1"))
		spec := object.(*storagev1.VolumeAttachment).Spec
		named, what := "disk", "disk"
		if inline {
			what = ebsDriver + "-vol-1"
			if written := spec.Source.InlineVolumeSpec; written == nil || written.CSI.VolumeHandle != "vol-1" ||
				spec.Source.PersistentVolumeName != nil {
				t.Errorf("source of its VolumeAttachment: %v", spec.Source)
			}
		} else if name := spec.Source.PersistentVolumeName; name == nil || *name != named {
			t.Errorf("source of its VolumeAttachment: %v", spec.Source)
		}
		testcheck.Equal(w, "events", []string{fmt.Sprintf("x1 Normal SuccessfulAttachVolume a: AttachVolume.Attach succeeded for volume %q ", what)}, w.events())

		w.ebsPod("b", "node-1", inline) // the same disk under another name
		w.Run()
		w.deletePod("a")
		w.Run()
		w.quiet()
		testcheck.Equal(w, "calls", []string{"0s attach " + ebsOn1}, backend.calls)
		w.deletePod("b")
		w.Run()
		w.quiet()
		testcheck.Equal(w, "attached", nil, backend.has())
		testcheck.Equal(w, "attachments", nil, w.attachments())
	})
}

// TestMigratedVolumeIsOfOneNode makes a pod with an inline disk wait for one with its claim, and
// vice versa: after translation both have the same name.
func TestMigratedVolumeIsOfOneNode(t *testing.T) {
	eachMigrated(t, func(t *testing.T, inline bool) {
		w, backend := migrating(t, false)
		w.start(withCSI)
		w.ebsPod("a", "node-1", inline)
		w.Run()
		w.ebsPod("b", "node-2", !inline)
		w.Run()
		testcheck.Equal(w, "attached", []string{ebsOn1}, backend.has())
		w.deletePod("a")
		w.Run()
		w.quiet()
		testcheck.Equal(w, "calls",
			[]string{"0s attach " + ebsOn1, "0s detach " + ebsOn1, "0s attach " + ebsOn2}, backend.calls)
	})
}

// A change of a pod causes no sync: its volume is translated again and unchanged.
func TestPodOfAMigratedVolumeChanges(t *testing.T) {
	eachMigrated(t, func(t *testing.T, inline bool) {
		w, _ := migrating(t, inline)
		w.start(withCSI)
		w.ebsPod("a", "node-1", inline)
		w.Run()
		object, _ := w.Server.Get("pods", "default", "a")
		pod := object.(*corev1.Pod).DeepCopy()
		pod.Labels = map[string]string{"a": "b"}
		_, err := w.User.CoreV1().Pods("default").Update(context.Background(), pod, metav1.UpdateOptions{})
		w.NoError(err)
		looked := false
		err = w.Host.Wait(context.Background(), "a look at the volume", func() bool {
			looked = looked || slices.Contains(w.Host.Enabled(), "attachdetach/volumes")
			return looked
		})
		if looked {
			t.Error("the volume is synced again")
		}
		if err == nil {
			t.Error("no quiescence")
		}
	})
}

// TestStaleListOfMigratedVolumes starts the controller with a cache that does not show the disk on
// node-1.
func TestStaleListOfMigratedVolumes(t *testing.T) {
	eachMigrated(t, func(t *testing.T, inline bool) {
		w, backend := migrating(t, inline)
		w.attached(inline)
		w.Run()
		backend.calls = nil
		w.ebsPod("a", "node-2", inline)
		w.start(func(cfg *attachdetach.Config) { w.Server.DelayCache(cfg.Process, "volumeattachments", 9) }, withCSI)
		w.Run()
		w.quiet()
		testcheck.Equal(w, "calls", []string{"0s detach " + ebsOn1, "500ms attach " + ebsOn2}, backend.calls)
	})
}

// TestRecoveryOfMigratedVolumes starts the controller in worlds in which another one has attached
// the disk to node-1.
func TestRecoveryOfMigratedVolumes(t *testing.T) {
	eachMigrated(t, func(t *testing.T, inline bool) {
		for _, test := range []struct {
			name     string
			reported bool
			pod      string // its current node; "" if deleted
			calls    []string
		}{
			{"reported, pod exists", true, "node-1", nil},
			{"reported, pod deleted", true, "", []string{"0s detach " + ebsOn1}},
			{"reported, pod moved", true, "node-2", []string{"0s detach " + ebsOn1, "0s attach " + ebsOn2}},
			{"VolumeAttachment, pod exists", false, "node-1", nil},
			{"VolumeAttachment, pod deleted", false, "", []string{"0s detach " + ebsOn1}},
			{"VolumeAttachment, pod moved", false, "node-2", []string{"0s detach " + ebsOn1, "0s attach " + ebsOn2}},
		} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				w, backend := migrating(t, inline)
				w.attached(inline)
				w.Run()
				backend.calls = nil
				if test.reported {
					w.status("node-1", "volumesAttached", []corev1.AttachedVolume{{Name: ebsDisk}})
				}
				if test.pod != "" {
					w.ebsPod("a", test.pod, inline)
				}
				w.start(withCSI)
				w.Run()
				w.quiet()
				testcheck.Equal(w, "calls", test.calls, backend.calls)
				var where []string
				if test.pod != "" {
					where = []string{ebsDriver + "^vol-1 on " + test.pod}
				}
				testcheck.Equal(w, "attached", where, backend.has())
				for _, a := range w.controller.Actual().All() {
					if a.State != attachdetach.Attached || a.Spec == nil {
						t.Errorf("%s, spec %v", a, a.Spec)
					}
				}
			})
		}
	})
}

// attached creates the VolumeAttachment of the disk on node-1, as another controller did.
func (w *world) attached(inline bool) {
	w.Helper()
	va := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: csi.AttachmentName("vol-1", ebsDriver, "node-1")},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: ebsDriver, NodeName: "node-1"},
	}
	name := "disk"
	va.Spec.Source.PersistentVolumeName = &name
	if inline {
		mode := corev1.PersistentVolumeFilesystem
		va.Spec.Source = storagev1.VolumeAttachmentSource{InlineVolumeSpec: &corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{rwo}, VolumeMode: &mode,
			PersistentVolumeSource: csiSource(ebsDriver, "vol-1"),
		}}
	}
	_, err := w.User.StorageV1().VolumeAttachments().Create(context.Background(), va, metav1.CreateOptions{})
	w.NoError(err)
}

// TestCrashWhileAMigratedVolumeMoves crashes the controller before each of its steps and restarts
// it.
func TestCrashWhileAMigratedVolumeMoves(t *testing.T) {
	eachMigrated(t, func(t *testing.T, inline bool) {
		moved := []string{ebsOn2}
		for crash := 0; ; crash++ {
			w, backend := migrating(t, inline)
			component := w.start(withCSI)
			w.ebsPod("a", "node-1", inline)
			w.Run()
			w.deletePod("a")
			w.ebsPod("b", "node-2", inline)
			steps := 0
			ended := w.Host.Wait(context.Background(), "the crash", func() bool {
				steps++
				return steps > crash
			}) != nil
			w.Host.Crash(component)
			w.start(withCSI)
			w.Run()
			w.quiet()
			testcheck.Equal(w, "attached", moved, backend.has())
			testcheck.Equal(w, "attachments",
				[]string{csi.AttachmentName("vol-1", ebsDriver, "node-2")}, w.attachments())
			if t.Failed() {
				t.Fatalf("crash before step %d\n%s", crash, w.Host.Log().Text())
			}
			if ended {
				if crash < 10 {
					t.Errorf("only %d steps: too few crashes", crash)
				}
				return
			}
		}
	})
}
