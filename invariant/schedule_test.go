package invariant

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/sim/trace"
)

func (w *opsWorld) publish(pod *corev1.Pod, volume string, err error) {
	w.note("kubelet("+pod.Spec.NodeName+")/"+mounting+" csi/disk^vol-1", trace.KindDriver, "NodePublishVolume",
		"disk/vol-1", path1(pod, volume), err)
}

func (w *opsWorld) unpublish(pod *corev1.Pod, volume string) {
	w.call(unmounting, "NodeUnpublishVolume", path1(pod, volume), nil)
}

func TestEphemeralVolumeRule(t *testing.T) {
	scratch := corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: sizeOf("1Gi")},
		}},
	}}}
	tests := []struct {
		name  string
		owner func(pod *corev1.Pod) []metav1.OwnerReference
		err   error
		want  []string
	}{
		{"its own claim", func(pod *corev1.Pod) []metav1.OwnerReference {
			return []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
		}, nil, nil},
		{"the claim of another pod", nil, nil, []string{"I29: a pod that mounts, for its ephemeral volume, a claim that is " +
			"not its own: pod default/web mounts volume pv of claim web-scratch, which has the name of its ephemeral volume but is not its own"}},
		{"the claim of the previous pod", func(pod *corev1.Pod) []metav1.OwnerReference {
			pod = pod.DeepCopy()
			pod.UID = "before"
			return []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
		}, nil, []string{"I29"}},
		{"the driver refused", nil, errDriver, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newOpsWorld(t, "I29")
			pod := w.addPod("web", "node-1", scratch)
			claim := w.addClaim("web-scratch", func(c *corev1.PersistentVolumeClaim) {
				if test.owner != nil {
					c.OwnerReferences = test.owner(pod)
				}
			})
			w.addVolume("pv", "vol-1", claim, nil)
			w.publish(pod, "pv", test.err)
			w.broken(test.want...)
		})
	}
}

func TestReachableVolumeRule(t *testing.T) {
	zone := func(name string) map[string]string { return map[string]string{"zone": name} }
	inZone := func(v *corev1.PersistentVolume) {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key:      "zone",
				Operator: corev1.NodeSelectorOpIn, Values: []string{"a"},
			}},
		}}}}
	}
	pair := func(w *opsWorld) *corev1.PersistentVolumeClaim {
		claim := w.addClaim("data", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" })
		w.addVolume("pv", "vol-1", claim, inZone)
		return claim
	}
	tests := []struct {
		name string
		play func(w *opsWorld)
		want []string
	}{
		{"in its zone", func(w *opsWorld) {
			w.addNode("node-1", zone("a"))
			pair(w)
			w.assign(w.addPod("web", "", claimVolume("data")), "node-1")
		}, nil},
		{"in another zone", func(w *opsWorld) {
			w.addNode("node-1", zone("b"))
			pair(w)
			w.assign(w.addPod("web", "", claimVolume("data")), "node-1")
		}, []string{"I30: a pod assigned to a node on which its volume cannot be used: pod default/web was assigned to node node-1, where volume pv of " +
			"claim data cannot be used"}},
		{"the user chose the node", func(w *opsWorld) {
			w.addNode("node-1", zone("b"))
			pair(w)
			w.addPod("web", "node-1", claimVolume("data"))
		}, nil},
		{"the node was in the zone", func(w *opsWorld) {
			w.addNode("node-1", zone("a"))
			_, err := w.User.CoreV1().Nodes().Patch(w.Context(), "node-1", types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"zone":"b"}}}`), metav1.PatchOptions{})
			w.NoError(err)
			pair(w)
			w.assign(w.addPod("web", "", claimVolume("data")), "node-1")
		}, nil},
		{"the claim is another one with that name", func(w *opsWorld) {
			w.addNode("node-1", zone("b"))
			claim := w.addClaim("data", nil)
			claim.Finalizers = nil
			_, err := w.User.CoreV1().PersistentVolumeClaims("default").Update(w.Context(), claim, updateOptions)
			w.NoError(err)
			w.NoError(w.User.CoreV1().PersistentVolumeClaims("default").Delete(w.Context(),
				"data", metav1.DeleteOptions{}))
			pair(w)
			w.assign(w.addPod("web", "", claimVolume("data")), "node-1")
		}, nil},
		{"the volume is bound to another claim", func(w *opsWorld) {
			w.addNode("node-1", zone("b"))
			other := w.addClaim("other", nil)
			w.addClaim("data", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" })
			w.addVolume("pv", "vol-1", other, inZone)
			w.assign(w.addPod("web", "", claimVolume("data")), "node-1")
		}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newOpsWorld(t, "I30")
			test.play(w)
			w.broken(test.want...)
		})
	}
}

func TestAttachLimit(t *testing.T) {
	limited := func(w *opsWorld, count int32) {
		w.addNode("node-1", nil)
		_, err := w.User.StorageV1().CSINodes().Create(w.Context(), &storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: "node-1"},
			Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
				Name: "disk", NodeID: "node-1", Allocatable: &storagev1.VolumeNodeResources{Count: &count},
			}}},
		}, metav1.CreateOptions{})
		w.NoError(err)
		w.pair("data-1")
		w.pair("data-2")
	}
	tests := []struct {
		name string
		play func(w *opsWorld)
		want []string
	}{
		{"as many as the limit", func(w *opsWorld) {
			limited(w, 2)
			w.assign(w.addPod("a", "", claimVolume("data-1")), "node-1")
			w.assign(w.addPod("b", "", claimVolume("data-2")), "node-1")
		}, nil},
		{"one more than the limit", func(w *opsWorld) {
			limited(w, 1)
			w.assign(w.addPod("a", "", claimVolume("data-1")), "node-1")
			w.assign(w.addPod("b", "", claimVolume("data-2")), "node-1")
		}, []string{"I31: more volumes on a node than its driver can attach: pod default/b was assigned to node node-1, which has 2 volumes of disk " +
			"now and can have 1"}},
		{"the same one again", func(w *opsWorld) {
			limited(w, 1)
			w.assign(w.addPod("a", "", claimVolume("data-1")), "node-1")
			w.assign(w.addPod("b", "", claimVolume("data-1")), "node-1")
		}, nil},
		{"one more than a reduced limit", func(w *opsWorld) {
			limited(w, 2)
			w.assign(w.addPod("a", "", claimVolume("data-1")), "node-1")
			_, err := w.User.StorageV1().CSINodes().Patch(w.Context(), "node-1", types.MergePatchType,
				[]byte(`{"spec":{"drivers":[{"name":"disk","nodeID":"node-1","topologyKeys":null,"allocatable":{"count":1}}]}}`), metav1.PatchOptions{})
			w.NoError(err)
			w.assign(w.addPod("b", "", claimVolume("data-2")), "node-1")
		}, nil},
		{"after the first has ended", func(w *opsWorld) {
			limited(w, 1)
			pod := w.addPod("a", "node-1", claimVolume("data-1"))
			w.setPhase(pod, corev1.PodSucceeded)
			w.assign(w.addPod("b", "", claimVolume("data-2")), "node-1")
		}, nil},
		{"a pod without volumes on a node where a user exceeded the limit", func(w *opsWorld) {
			limited(w, 1)
			w.addPod("a", "node-1", claimVolume("data-1"), claimVolume("data-2"))
			w.assign(w.addPod("b", ""), "node-1")
		}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newOpsWorld(t, "I31")
			test.play(w)
			w.broken(test.want...)
		})
	}
}

func TestOnePodRule(t *testing.T) {
	const once, alone = corev1.ReadWriteOnce, corev1.ReadWriteOncePod
	tests := []struct {
		name string
		mode corev1.PersistentVolumeAccessMode
		play func(w *opsWorld, a, b *corev1.Pod)
		want []string
	}{
		{"two pods at the same time", alone, func(w *opsWorld, a, b *corev1.Pod) {
			w.publish(a, "pv-data-1", nil)
			w.publish(b, "pv-data-1", nil)
		}, []string{"I32: a ReadWriteOncePod claim mounted for two pods: claim default/data-1, for one pod alone, was mounted for pod b by kubelet(node-1) " +
			"while it is mounted for pod a by kubelet(node-1)"}},
		{"the answer for the first pod was lost", alone, func(w *opsWorld, a, b *corev1.Pod) {
			w.Host.Log().Append(trace.Record{
				Task:    "kubelet(node-1)/volume_mount csi/disk^vol-1",
				Action:  trace.Action{Kind: trace.KindDriver, Verb: "NodePublishVolume", Object: "disk/vol-1"},
				Outcome: trace.Outcome{Detail: path1(a, "pv-data-1"), Err: errDriver, Lost: true},
			})
			w.publish(b, "pv-data-1", nil)
		}, []string{"I32"}},
		{"one after the other", alone, func(w *opsWorld, a, b *corev1.Pod) {
			w.publish(a, "pv-data-1", nil)
			w.unpublish(a, "pv-data-1")
			w.publish(b, "pv-data-1", nil)
		}, nil},
		{"the same pod again", alone, func(w *opsWorld, a, _ *corev1.Pod) {
			w.publish(a, "pv-data-1", nil)
			w.publish(a, "pv-data-1", nil)
		}, nil},
		{"the first has ended", alone, func(w *opsWorld, a, b *corev1.Pod) {
			w.publish(a, "pv-data-1", nil)
			w.setPhase(a, corev1.PodFailed)
			w.publish(b, "pv-data-1", nil)
		}, []string{"I32"}},
		{"the first has ended on another node", alone, func(w *opsWorld, a, _ *corev1.Pod) {
			w.publish(a, "pv-data-1", nil)
			w.setPhase(a, corev1.PodFailed)
			w.publish(w.addPod("c", "node-2", claimVolume("data-1")), "pv-data-1", nil)
		}, nil},
		{"the first uses it on another node", alone, func(w *opsWorld, a, _ *corev1.Pod) {
			w.publish(a, "pv-data-1", nil)
			w.publish(w.addPod("c", "node-2", claimVolume("data-1")), "pv-data-1", nil)
		}, []string{"I32"}},
		{"the first is deleted", alone, func(w *opsWorld, a, b *corev1.Pod) {
			w.publish(a, "pv-data-1", nil)
			w.deletePod(a)
			w.publish(b, "pv-data-1", nil)
		}, []string{"I32"}},
		{"the driver rejected the second", alone, func(w *opsWorld, a, b *corev1.Pod) {
			w.publish(a, "pv-data-1", nil)
			w.publish(b, "pv-data-1", errDriver)
		}, nil},
		{"a ReadWriteOnce claim", once, func(w *opsWorld, a, b *corev1.Pod) {
			w.publish(a, "pv-data-1", nil)
			w.publish(b, "pv-data-1", nil)
		}, nil},
		{"a node that lost its mounts", alone, func(w *opsWorld, a, b *corev1.Pod) {
			w.publish(a, "pv-data-1", nil)
			w.event("reboot", "node-1")
			w.publish(b, "pv-data-1", nil)
		}, nil},
		{"a node that kept them", alone, func(w *opsWorld, a, b *corev1.Pod) {
			w.publish(a, "pv-data-1", nil)
			w.event("crash", "kubelet(node-1)")
			w.event("reboot", "node-2")
			w.publish(b, "pv-data-1", nil)
		}, []string{"I32"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newOpsWorld(t, "I32")
			w.pair("data-1", test.mode)
			test.play(w, w.addPod("a", "node-1", claimVolume("data-1")), w.addPod("b", "node-1", claimVolume("data-1")))
			w.broken(test.want...)
		})
	}
}

func TestPendingSelectedClaims(t *testing.T) {
	tests := []struct {
		name  string
		claim func(c *corev1.PersistentVolumeClaim)
		then  func(w *opsWorld, claim *corev1.PersistentVolumeClaim)
		want  []string
	}{
		{
			"and not bound", func(c *corev1.PersistentVolumeClaim) {}, nil,
			[]string{"persistentvolumeclaims/default/data is not bound although node node-1 is selected for it (L3)"},
		},
		{
			"and bound", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" },
			func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
				w.setClaimStatus(claim, corev1.ClaimBound, "1Gi")
			}, nil,
		},
		{"removed again", func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }, nil, nil},
		{
			"of an unknown driver",
			func(c *corev1.PersistentVolumeClaim) { other := "other"; c.Spec.StorageClassName = &other }, nil, nil,
		},
		{
			"being deleted", func(c *corev1.PersistentVolumeClaim) { c.Finalizers = []string{"test/keep"} },
			func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
				w.NoError(w.User.CoreV1().PersistentVolumeClaims("default").Delete(w.Context(),
					claim.Name, metav1.DeleteOptions{}))
			}, nil,
		},
		{
			"the driver returned an error", func(c *corev1.PersistentVolumeClaim) {},
			func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
				_, err := w.User.CoreV1().Events("default").Create(w.Context(), &corev1.Event{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"},
					InvolvedObject: corev1.ObjectReference{
						Namespace: "default", Name: claim.Name,
						UID: claim.UID,
					}, Reason: "ProvisioningFailed",
				}, metav1.CreateOptions{})
				w.NoError(err)
			}, nil,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newOpsWorld(t, "L3")
			_, err := w.User.StorageV1().CSIDrivers().Create(t.Context(),
				&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}, metav1.CreateOptions{})
			w.NoError(err)
			for class, provisioner := range map[string]string{"late": "disk", "other": "tape"} {
				_, err := w.User.StorageV1().StorageClasses().Create(t.Context(),
					&storagev1.StorageClass{
						ObjectMeta:  metav1.ObjectMeta{Name: class},
						Provisioner: provisioner,
					}, metav1.CreateOptions{})
				w.NoError(err)
			}
			claim := w.addClaim("data", func(c *corev1.PersistentVolumeClaim) {
				late := "late"
				c.Spec.StorageClassName = &late
				c.Annotations = map[string]string{"volume.kubernetes.io/selected-node": "node-1"}
				test.claim(c)
			})
			if test.then != nil {
				test.then(w, claim)
			}
			w.pending(test.want...)
		})
	}
}
