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

// hostPath is the plugin of these tests, and inTreeFinalizer the finalizer of its volumes.
const (
	hostPath        = "kubernetes.io/host-path"
	inTreeFinalizer = "kubernetes.io/pv-controller"
)

// ofPlugin sets the source of a volume to one of the plugin, at a path.
func ofPlugin(path string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}
	}
}

// madeByPlugin marks a volume as provisioned by the plugin for a claim.
func madeByPlugin(v *corev1.PersistentVolume) {
	toDelete(v)
	metav1.SetMetaDataAnnotation(&v.ObjectMeta, storagehelpers.AnnDynamicallyProvisioned, hostPath)
	v.Finalizers = append(v.Finalizers, inTreeFinalizer)
}

func toRecycle(v *corev1.PersistentVolume) {
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRecycle
}

// pluginHolding sets the volumes of the plugin, by path.
func (s *scene) pluginHolding(volumes ...invariant.Volume) {
	p := &pluginStub{}
	p.volumes = volumes
	s.devices.plugins = []invariant.Backend{p}
}

// pluginVolume creates a volume of the plugin, a PersistentVolume v for it and a claim c.
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

// plugin records a call of the plugin for the volume of a PersistentVolume. Its path is /disk and
// the name.
func (s *scene) plugin(actor, verb, name string, err error) {
	s.host.Log().Append(trace.Record{
		Task: actor, Action: trace.Action{Kind: trace.KindDriver, Verb: verb, Object: hostPath + "/" + name},
		Outcome: trace.Outcome{Err: err, Detail: "path=/disk/" + name},
	})
}

// pluginClass creates a class of the plugin, and a claim c of it.
func (s *scene) pluginClass() {
	class := newClass("dirs", storagev1.VolumeBindingImmediate, false)
	class.Provisioner = hostPath
	testcheck.Must(s.user.StorageV1().StorageClasses().Create(context.Background(), class, createOptions))
	s.claim("c", "1Gi", ofClass(&class.Name))
}

// Tasks: an operation of the PersistentVolume controller, and one of a second controller that runs
// concurrently.
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
		{"I8", "the claim exists", func(s *scene) {
			s.pluginVolume(madeByPlugin)
			s.plugin(deleting, "Delete", "v", nil)
		}, deleting + " deleted the data of volume v, which is claim default/c's"},
		{"I8", "the claim exists, and the volume is recycled", func(s *scene) {
			s.pluginVolume(toRecycle)
			s.plugin(recycling, "Recycle", "v", nil)
		}, recycling + " recycled the data of volume v, which is claim default/c's"},
		{"I8", "the claim exists, as the controller has read", func(s *scene) {
			s.pluginVolume(madeByPlugin)
			s.ask(deleting)
			s.plugin(deleting, "Delete", "v", nil)
		}, deleting + " deleted the data of volume v, which is claim default/c's"},
		{"I8", "the claim does not exist", func(s *scene) {
			s.pluginVolume(toRecycle)
			s.removeClaim("c")
			s.plugin(recycling, "Recycle", "v", nil)
		}, ""},
		{"I8", "rebound by another controller after the read", func(s *scene) {
			s.pluginVolume(toRecycle)
			s.removeClaim("c")
			s.ask(recycling)
			give(s, rival, "d")
			s.plugin(recycling, "Recycle", "v", nil)
		}, ""},
		{"I8", "rebound by another controller without a read", func(s *scene) {
			s.pluginVolume(toRecycle)
			s.removeClaim("c")
			give(s, rival, "d")
			s.plugin(recycling, "Recycle", "v", nil)
		}, recycling + " recycled the data of volume v, which is claim default/d's"},
		{"I8", "rebound by the controller itself", func(s *scene) {
			s.pluginVolume(toRecycle)
			s.removeClaim("c")
			s.ask(recycling)
			give(s, "pvcontroller/volumes", "d")
			s.plugin(recycling, "Recycle", "v", nil)
		}, recycling + " recycled the data of volume v, which is claim default/d's"},
		{"I8", "rebound by another controller after the read, before a restart", func(s *scene) {
			s.pluginVolume(toRecycle)
			s.removeClaim("c")
			s.ask(recycling)
			s.inject("crash", "pvcontroller")
			give(s, rival, "d")
			s.plugin(recycling, "Recycle", "v", nil)
		}, recycling + " recycled the data of volume v, which is claim default/d's"},
		{"I8", "rebound after the read of the task that created the recycler pod", func(s *scene) {
			s.pluginVolume(toRecycle)
			s.removeClaim("c")
			s.ask(recycling)
			give(s, rival, "d")
			s.plugin("kubelet(node-1)/pods", "Recycle", "v", nil)
		}, "kubelet(node-1)/pods recycled the data of volume v, which is claim default/d's"},
		{"I8", "policy Retain", func(s *scene) {
			s.pluginVolume(madeByPlugin)
			s.removeClaim("c")
			s.editVolume("v", toRetain)
			s.ask(deleting)
			s.plugin(deleting, "Delete", "v", nil)
		}, deleting + " deleted the data of volume v, whose policy is Retain"},
		{"I8", "policy Retain since the read", func(s *scene) {
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

		{"I9", "its volume exists", func(s *scene) {
			s.pluginVolume(madeByPlugin)
			s.plugin("pvcontroller/provision", "Provision", "pvc-v", nil)
			s.act(deleting, "v",
				func(ctx context.Context, client kubernetes.Interface, _ *sim.Process) { deleteObject(ctx, client) })
		}, deleting + " deleted PersistentVolume v (UID-v), whose volume was not deleted before"},
		{"I9", "its volume was recycled, and not deleted", func(s *scene) {
			s.pluginVolume(madeByPlugin)
			s.plugin(deleting, "Delete", "w", nil)
			s.plugin(recycling, "Recycle", "v", nil)
			s.act(deleting, "v",
				func(ctx context.Context, client kubernetes.Interface, _ *sim.Process) { deleteObject(ctx, client) })
		}, deleting + " deleted PersistentVolume v (UID-v), whose volume was not deleted before"},
		{"I9", "its volume is deleted", func(s *scene) {
			s.pluginVolume(madeByPlugin)
			s.plugin(deleting, "Delete", "v", nil)
			s.act(deleting, "v",
				func(ctx context.Context, client kubernetes.Interface, _ *sim.Process) { deleteObject(ctx, client) })
		}, ""},

		{"I12", "its data exists", func(s *scene) {
			s.pluginVolume(madeByPlugin)
			s.settle()
			s.act(deleting, "v",
				func(ctx context.Context, client kubernetes.Interface, _ *sim.Process) { dropFinalizer(ctx, client) })
		}, deleting + " removed finalizer " + inTreeFinalizer + " from volume v, whose data still exists"},
		{"I12", "its data is deleted", func(s *scene) {
			s.pluginVolume(madeByPlugin)
			s.settle()
			s.plugin(deleting, "Delete", "v", nil)
			s.act(deleting, "v",
				func(ctx context.Context, client kubernetes.Interface, _ *sim.Process) { dropFinalizer(ctx, client) })
		}, ""},
		{"I12", "it never had the finalizer", func(s *scene) {
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
		{"I11", "both exist", func(s *scene) { s.pluginVolume(madeByPlugin) }, ""},
		{"I11", "created by a process that crashed", func(s *scene) {
			s.plugin("pvcontroller/provision", "Provision", "v", nil)
			s.pluginHolding(invariant.Volume{Handle: "/disk/v", Name: "v"})
			s.inject("crash", "pvcontroller")
		}, ""},
		{"I11", "created by a process that continued", func(s *scene) {
			s.plugin("pvcontroller/provision", "Provision", "v", nil)
			s.pluginHolding(invariant.Volume{Handle: "/disk/v", Name: "v"})
		}, "volume /disk/v (v) has no PersistentVolume"},

		{"I10", "provisioned twice", func(s *scene) {
			name := "pvc-" + string(s.claim("c", "1Gi").UID)
			s.pluginHolding(invariant.Volume{Handle: "/disk/1", Name: name},
				invariant.Volume{Handle: "/disk/2", Name: name})
			s.plugin("pvcontroller/provision", "Provision", name, nil)
		}, "there are 2 volumes for claim default/c: /disk/1, /disk/2"},
	})
}

// TestPendingByPlugins checks what is pending for volumes of the controller's plugins.
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
			"L2", "a volume that its plugin must delete", released(madeByPlugin),
			"persistentvolumes/v is Released and must be deleted (L2)",
		},
		{
			"L2", "a static volume that the plugin of its kind must delete", released(toDelete),
			"persistentvolumes/v is Released and must be deleted (L2)",
		},
		{
			"L2", "a volume that its plugin must recycle", released(toRecycle),
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
