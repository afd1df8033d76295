package invariant_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// hostPath is the plugin of these tests, and inTreeFinalizer what keeps its volumes.
const (
	hostPath        = "kubernetes.io/host-path"
	inTreeFinalizer = "kubernetes.io/pv-controller"
)

// ofPlugin makes a volume one of the plugin, at a path.
func ofPlugin(path string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}
	}
}

// madeByPlugin makes a volume one that the plugin made for a claim.
func madeByPlugin(v *corev1.PersistentVolume) {
	toDelete(v)
	metav1.SetMetaDataAnnotation(&v.ObjectMeta, storagehelpers.AnnDynamicallyProvisioned, hostPath)
	v.Finalizers = append(v.Finalizers, inTreeFinalizer)
}

func toRecycle(v *corev1.PersistentVolume) {
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRecycle
}

// pluginHolding has the plugin hold volumes, by path.
func (s *scene) pluginHolding(volumes ...invariant.Volume) {
	p := &pluginStub{}
	p.volumes = volumes
	s.devices.plugins = []invariant.Backend{p}
}

// pluginVolume has the plugin hold a volume, and a PersistentVolume v for it and a claim c.
func (s *scene) pluginVolume(options ...func(*corev1.PersistentVolume)) *corev1.PersistentVolumeClaim {
	s.controller("pvcontroller")
	s.controller("pvcontroller#2")
	s.pluginHolding(invariant.Volume{Handle: "/disk/v", Name: "v"})
	claim := s.claim("c", "1Gi")
	s.volume("v", "1Gi", append(options, ofPlugin("/disk/v"), reservedFor(claim))...)
	return claim
}

// ask makes a task read volume v from the API server.
func (s *scene) ask(actor string) {
	s.act(actor, "v", func(ctx context.Context, client kubernetes.Interface, _ *sim.Process) {
		testcheck.Must(client.CoreV1().PersistentVolumes().Get(ctx, "v", metav1.GetOptions{}))
	})
}

// plugin records a call of the plugin about the volume behind the PersistentVolume of a name, at
// /disk and the name.
func (s *scene) plugin(actor, verb, name string, err error) {
	s.host.Log().Append(trace.Record{
		Task: actor, Action: trace.Action{Kind: trace.KindDriver, Verb: verb, Object: hostPath + "/" + name},
		Outcome: trace.Outcome{Err: err, Detail: "path=/disk/" + name},
	})
}

// pluginClass makes a class of the plugin, and a claim c of it.
func (s *scene) pluginClass() {
	class := newClass("dirs", storagev1.VolumeBindingImmediate, false)
	class.Provisioner = hostPath
	testcheck.Must(s.user.StorageV1().StorageClasses().Create(context.Background(), class, createOptions))
	s.claim("c", "1Gi", ofClass(&class.Name))
}

// An operation of the PersistentVolume controller, and one of a second one that is at work at the
// same time.
const (
	deleting  = "pvcontroller/delete v"
	recycling = "pvcontroller/recycle v"
	rival     = "pvcontroller#2/volumes"
)

func TestReclaimRulesOfPlugins(t *testing.T) {
	give := func(s *scene, actor, claim string) {
		c := s.claim(claim, "1Gi")
		s.act(actor, "v", func(_ context.Context, client kubernetes.Interface, _ *sim.Process) {
			editVolumeAs(client, "v", free)
			editVolumeAs(client, "v", reservedFor(c))
		})
	}
	playAll(t, []claimRow{
		{"I8", "the claim is there", func(s *scene) {
			s.pluginVolume(madeByPlugin)
			s.plugin(deleting, "Delete", "v", nil)
		}, deleting + " deleted the data of volume v, which is claim default/c's"},
		{"I8", "the claim is there, and the volume is recycled", func(s *scene) {
			s.pluginVolume(toRecycle)
			s.plugin(recycling, "Recycle", "v", nil)
		}, recycling + " recycled the data of volume v, which is claim default/c's"},
		{"I8", "the claim is there, as the controller was told", func(s *scene) {
			s.pluginVolume(madeByPlugin)
			s.ask(deleting)
			s.plugin(deleting, "Delete", "v", nil)
		}, deleting + " deleted the data of volume v, which is claim default/c's"},
		{"I8", "the claim is gone", func(s *scene) {
			s.pluginVolume(toRecycle)
			s.removeClaim("c")
			s.plugin(recycling, "Recycle", "v", nil)
		}, ""},
		{"I8", "given away by another controller after the look", func(s *scene) {
			s.pluginVolume(toRecycle)
			s.removeClaim("c")
			s.ask(recycling)
			give(s, rival, "d")
			s.plugin(recycling, "Recycle", "v", nil)
		}, ""},
		{"I8", "given away by another controller without a look", func(s *scene) {
			s.pluginVolume(toRecycle)
			s.removeClaim("c")
			give(s, rival, "d")
			s.plugin(recycling, "Recycle", "v", nil)
		}, recycling + " recycled the data of volume v, which is claim default/d's"},
		{"I8", "given away by the controller itself", func(s *scene) {
			s.pluginVolume(toRecycle)
			s.removeClaim("c")
			s.ask(recycling)
			give(s, "pvcontroller/volumes", "d")
			s.plugin(recycling, "Recycle", "v", nil)
		}, recycling + " recycled the data of volume v, which is claim default/d's"},
		{"I8", "given away by another controller after the look, which a restart forgot", func(s *scene) {
			s.pluginVolume(toRecycle)
			s.removeClaim("c")
			s.ask(recycling)
			s.inject("crash", "pvcontroller")
			give(s, rival, "d")
			s.plugin(recycling, "Recycle", "v", nil)
		}, recycling + " recycled the data of volume v, which is claim default/d's"},
		{"I8", "given away after the look of whoever made a pod that recycles it", func(s *scene) {
			s.pluginVolume(toRecycle)
			s.removeClaim("c")
			s.ask(recycling)
			give(s, rival, "d")
			s.plugin("kubelet(node-1)/pods", "Recycle", "v", nil)
		}, "kubelet(node-1)/pods recycled the data of volume v, which is claim default/d's"},
		{"I8", "to be retained", func(s *scene) {
			s.pluginVolume(madeByPlugin)
			s.removeClaim("c")
			s.editVolume("v", toRetain)
			s.ask(deleting)
			s.plugin(deleting, "Delete", "v", nil)
		}, deleting + " deleted the data of volume v, whose policy is Retain"},
		{"I8", "to be retained since the look", func(s *scene) {
			s.pluginVolume(madeByPlugin)
			s.removeClaim("c")
			s.ask(deleting)
			s.editVolume("v", toRetain)
			s.plugin(deleting, "Delete", "v", nil)
		}, ""},
		{"I8", "another volume of the plugin", func(s *scene) {
			s.pluginVolume(madeByPlugin)
			s.plugin(deleting, "Delete", "w", nil)
		}, ""},

		{"I9", "its volume is there", func(s *scene) {
			s.pluginVolume(madeByPlugin)
			s.plugin("pvcontroller/provision", "Provision", "pvc-v", nil)
			s.act(deleting, "v", func(ctx context.Context, client kubernetes.Interface, _ *sim.Process) { deleteObject(ctx, client) })
		}, deleting + " deleted PersistentVolume v (UID-v), whose volume was not deleted before"},
		{"I9", "its volume was recycled, and not deleted", func(s *scene) {
			s.pluginVolume(madeByPlugin)
			s.plugin(deleting, "Delete", "w", nil)
			s.plugin(recycling, "Recycle", "v", nil)
			s.act(deleting, "v", func(ctx context.Context, client kubernetes.Interface, _ *sim.Process) { deleteObject(ctx, client) })
		}, deleting + " deleted PersistentVolume v (UID-v), whose volume was not deleted before"},
		{"I9", "its volume is deleted", func(s *scene) {
			s.pluginVolume(madeByPlugin)
			s.plugin(deleting, "Delete", "v", nil)
			s.act(deleting, "v", func(ctx context.Context, client kubernetes.Interface, _ *sim.Process) { deleteObject(ctx, client) })
		}, ""},

		{"I12", "its data is there", func(s *scene) {
			s.pluginVolume(madeByPlugin)
			s.settle()
			s.act(deleting, "v", func(ctx context.Context, client kubernetes.Interface, _ *sim.Process) { dropFinalizer(ctx, client) })
		}, deleting + " removed finalizer " + inTreeFinalizer + " from volume v, whose data still exists"},
		{"I12", "its data is gone", func(s *scene) {
			s.pluginVolume(madeByPlugin)
			s.settle()
			s.plugin(deleting, "Delete", "v", nil)
			s.act(deleting, "v", func(ctx context.Context, client kubernetes.Interface, _ *sim.Process) { dropFinalizer(ctx, client) })
		}, ""},
		{"I12", "nothing ever kept it", func(s *scene) {
			s.pluginVolume(madeByPlugin, func(v *corev1.PersistentVolume) { v.Finalizers = nil })
			s.removeVolume("v")
		}, "volume v was deleted without ever having had a finalizer, and its data still exists"},

		{"I11", "a volume of the plugin without an object", func(s *scene) {
			s.pluginHolding(invariant.Volume{Handle: "/disk/v", Name: "v"})
		}, "volume /disk/v (v) has no PersistentVolume"},
		{"I11", "an object without a volume of the plugin", func(s *scene) {
			s.pluginVolume(madeByPlugin)
			s.pluginHolding()
		}, "PersistentVolume v refers to volume /disk/v, which does not exist"},
		{"I11", "each has the other", func(s *scene) { s.pluginVolume(madeByPlugin) }, ""},
		{"I11", "made by a process that was killed", func(s *scene) {
			s.plugin("pvcontroller/provision", "Provision", "v", nil)
			s.pluginHolding(invariant.Volume{Handle: "/disk/v", Name: "v"})
			s.inject("crash", "pvcontroller")
		}, ""},
		{"I11", "made by a process that went on", func(s *scene) {
			s.plugin("pvcontroller/provision", "Provision", "v", nil)
			s.pluginHolding(invariant.Volume{Handle: "/disk/v", Name: "v"})
		}, "volume /disk/v (v) has no PersistentVolume"},

		{"I10", "made twice", func(s *scene) {
			name := "pvc-" + string(s.claim("c", "1Gi").UID)
			s.pluginHolding(invariant.Volume{Handle: "/disk/1", Name: name}, invariant.Volume{Handle: "/disk/2", Name: name})
			s.plugin("pvcontroller/provision", "Provision", name, nil)
		}, "there are 2 volumes for claim default/c: /disk/1, /disk/2"},
	})
}

// What is pending for volumes of the controller's plugins.
func TestPendingByPlugins(t *testing.T) {
	released := func(options ...func(*corev1.PersistentVolume)) story {
		return func(s *scene) {
			s.pluginVolume(options...)
			s.removeClaim("c")
			s.editVolume("v", inPhase(corev1.VolumeReleased))
		}
	}
	playAll(t, []claimRow{
		{"L1", "a claim for which a plugin makes volumes", func(s *scene) {
			s.pluginHolding()
			s.pluginClass()
		}, "persistentvolumeclaims/default/c must get a volume from " + hostPath + " (L1)"},
		{"L1", "a claim of a plugin that is not there", (*scene).pluginClass, ""},
		{
			"L2", "a volume that its plugin is to delete", released(madeByPlugin),
			"persistentvolumes/v is Released and must be deleted (L2)",
		},
		{
			"L2", "a volume that nobody made, and the plugin of its kind is to delete", released(toDelete),
			"persistentvolumes/v is Released and must be deleted (L2)",
		},
		{
			"L2", "a volume that its plugin is to recycle", released(toRecycle),
			"persistentvolumes/v is Released and must be recycled, or Failed (L2)",
		},
		{"L2", "a volume that waits for a pod", func(s *scene) {
			released(toRecycle)(s)
			s.pod("web", "", "c")
		}, ""},
		{"L7", "a deletion that failed", func(s *scene) {
			released(madeByPlugin)(s)
			s.editVolume("v", inPhase(corev1.VolumeFailed))
			s.plugin(deleting, "Delete", "v", errors.New("broken"))
		}, "persistentvolumes/v waits for Delete, which failed at 0s (broken) and was not retried (L7)"},
		{"L7", "a deletion that was tried again", func(s *scene) {
			released(madeByPlugin)(s)
			s.plugin(deleting, "Delete", "v", errors.New("broken"))
			s.plugin(deleting, "Delete", "v", nil)
		}, ""},
		{"L7", "a recycling that failed", func(s *scene) {
			released(toRecycle)(s)
			s.plugin(recycling, "Recycle", "v", errors.New("broken"))
		}, "persistentvolumes/v waits for Recycle, which failed at 0s (broken) and was not retried (L7)"},
	})
}
