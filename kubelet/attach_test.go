package kubelet_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim/trace"
)

// attachesItself makes the kubelets attach and detach.
func attachesItself(cfg *cluster.Config) { cfg.KubeletsAttach = true }

// whoAttaches are the parts that wrote VolumeAttachments, and how.
func (w *world) whoAttaches() []string {
	var all []string
	for _, r := range w.Trace().Records() {
		if r.Kind == trace.KindAPI && strings.HasPrefix(r.Object, "volumeattachments/") && (r.Verb == "create" || r.Verb == "delete") {
			part, _, _ := strings.Cut(r.Task, "/")
			all = append(all, part+" "+r.Verb)
		}
	}
	return all
}

// TestKubeletAttachesByItself: the kubelet attaches, and the attach/detach controller ignores the
// node, also after a restart.
func TestKubeletAttachesByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, attachesItself)
	w.create("web", "data")
	w.rest()
	node, _ := w.Server().Get("nodes", "", "node-1")
	if _, managed := node.GetAnnotations()["volumes.kubernetes.io/controller-managed-attach-detach"]; managed {
		t.Error("the node says that the controller attaches")
	}
	status := node.(*corev1.Node).Status
	testcheck.Equal(w.t, "volumes in use, and attached as the Node says", []int{1, 0}, []int{len(status.VolumesInUse), len(status.VolumesAttached)})
	testcheck.NoError(w.t, w.Crash("attachdetach"))
	w.rest()
	testcheck.Equal(w.t, "who attaches", []string{"kubelet(node-1) create"}, w.whoAttaches())
	volume := w.Server().List("persistentvolumes")[0].GetName()
	testcheck.Equal(w.t, "events", []string{`x1 Normal SuccessfulAttachVolume web: AttachVolume.Attach succeeded for volume "` + volume + `" `},
		w.events("SuccessfulAttachVolume", "FailedAttachVolume"))
	w.delete("web")
	w.rest()
	testcheck.Equal(w.t, "who attaches and detaches", []string{"kubelet(node-1) create", "kubelet(node-1) delete"}, w.whoAttaches())
	testcheck.Equal(w.t, "attachments", 0, len(w.Server().List("volumeattachments")))
}

// TestKubeletDetachesWhatItFoundOnTheDisk when it was down as the pod went.
func TestKubeletDetachesWhatItFoundOnTheDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, attachesItself)
	w.create("web", "data")
	w.rest()
	testcheck.NoError(w.t, w.Stop("kubelet(node-1)"))
	w.delete("web")
	w.Repair()
	w.rest()
	testcheck.Equal(w.t, "who attaches and detaches", []string{"kubelet(node-1) create", "kubelet(node-1) delete"}, w.whoAttaches())
	testcheck.Equal(w.t, "attachments", 0, len(w.Server().List("volumeattachments")))
}

// TestNodeSaysWhoAttaches also when it was there before.
func TestNodeSaysWhoAttaches(t *testing.T) {
	t.Parallel()
	w := newWorld(t, attachesItself, func(cfg *cluster.Config) { cfg.PreRegistered = true })
	w.rest()
	node, _ := w.Server().Get("nodes", "", "node-1")
	if _, managed := node.GetAnnotations()["volumes.kubernetes.io/controller-managed-attach-detach"]; managed {
		t.Error("the node says that the controller attaches")
	}
	w.create("web", "data")
	w.rest()
	testcheck.Equal(w.t, "attachments", 1, len(w.Server().List("volumeattachments")))
	testcheck.Equal(w.t, "phase", corev1.PodRunning, w.pod("web").Status.Phase)
	if a := w.Server().List("volumeattachments")[0].(*storagev1.VolumeAttachment); !a.Status.Attached {
		t.Error("it is not attached")
	}
}
