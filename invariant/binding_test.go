package invariant_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// pair binds volume v and claim default/c, each of 1Gi, to each other.
func pair(s *scene) *corev1.PersistentVolumeClaim {
	claim := s.claim("c", "1Gi")
	s.volume("v", "1Gi")
	s.bind("v", claim)
	return claim
}

func TestBindingRules(t *testing.T) {
	playAll(t, []claimRow{
		{"I1", "a claim named one volume and then another, both Bound to it", func(s *scene) {
			claim := pair(s)
			s.updateClaim("c", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "" })
			s.editVolume("v", inPhase(corev1.VolumeAvailable))
			s.editClaim("c", naming("v"))
			s.editVolume("v", inPhase(corev1.VolumeBound))
			s.updateClaim("c", naming("w"))
			s.volume("w", "1Gi", reservedFor(claim))
			s.editVolume("w", inPhase(corev1.VolumeBound))
		}, "claim default/c is bound to volume v, and volume w to the claim"},
		{"I1", "two volumes are Bound for one claim, which names one", func(s *scene) {
			claim := pair(s)
			s.volume("w", "1Gi", reservedFor(claim))
			s.editVolume("w", inPhase(corev1.VolumeBound))
		}, ""},
		{"I1", "two volumes for one claim are mounted", func(s *scene) {
			claim := pair(s)
			s.devices.mounts["node-1"] = []nodefs.Mount{{Path: "/a", Source: "handle-of-v"}}
			s.volume("w", "1Gi", reservedFor(claim))
			s.devices.mounts["node-2"] = []nodefs.Mount{{Path: "/b", Source: "handle-of-w"}}
			s.call("kubelet(node-2)/mount", "NodePublishVolume", "handle-of-w", nil)
		}, "volumes v and w are both mounted, and both are for claim default/c"},
		{"I1", "two volumes for one claim, and one of them is mounted", func(s *scene) {
			claim := pair(s)
			s.devices.mounts["node-1"] = []nodefs.Mount{
				{Path: "/a", Source: "handle-of-v"},
				{Path: "/b", Source: "handle-of-v"},
			}
			s.volume("w", "1Gi", reservedFor(claim))
			s.call("kubelet(node-1)/mount", "NodePublishVolume", "handle-of-v", nil)
		}, ""},

		{"I2", "a volume is rebound without being unbound", func(s *scene) {
			pair(s)
			s.editVolume("v", reservedFor(s.claim("d", "1Gi")))
		}, "volume v was rebound from claim default/c (UID-1) to claim default/d (UID-2)"},
		{"I2", "a volume is rebound after it was unbound", func(s *scene) {
			claim := pair(s)
			s.editVolume("v", free, reservedFor(s.claim("d", "1Gi")), freeButForName, reservedFor(claim))
		}, ""},

		{"I3", "a claim is bound to the volume of another claim", func(s *scene) {
			claim := s.claim("c", "1Gi")
			s.volume("v", "1Gi", reservedFor(claim))
			s.claim("d", "1Gi")
			s.editClaim("d", boundTo("v"))
		}, "claim default/d is bound to volume v, which belongs to claim default/c (UID-1)"},
		{"I3", "a claim is bound to a volume that is pre-bound by name", func(s *scene) {
			s.claim("c", "1Gi")
			s.volume("v", "1Gi", reservedBy("c"))
			s.editClaim("c", boundTo("v"))
		}, "claim default/c is bound to volume v, which is reserved by name alone, for default/c"},
		{"I3", "a claim is bound to the volume of an earlier claim with its name", func(s *scene) {
			s.volume("v", "1Gi", reservedFor(s.claim("c", "1Gi")))
			s.removeClaim("c")
			s.claim("c", "1Gi")
			s.editClaim("c", boundTo("v"))
		}, "claim default/c is bound to volume v, which belongs to claim default/c (UID-1)"},
		{"I3", "a volume's claimRef is removed while its claim is bound", func(s *scene) {
			pair(s)
			s.editVolume("v", free)
		}, "volume v was taken from claim default/c, which is bound to it"},
		{"I3", "a claim is bound to its volume, which is then deleted", func(s *scene) {
			pair(s)
			s.removeVolume("v")
		}, ""},
		{"I3", "a claim is bound to a volume that was recreated meanwhile", func(s *scene) {
			s.volume("v", "1Gi", reservedFor(s.claim("c", "1Gi")))
			s.removeVolume("v")
			s.volume("v", "1Gi")
			s.editClaim("c", boundTo("v"), markedLost)
			s.editVolume("v", reservedFor(s.claim("d", "1Gi")))
		}, ""},
		{"I3", "a volume is unbound before the claim was bound to it", func(s *scene) {
			claim := pair(s)
			s.volume("w", "1Gi", reservedFor(claim))
			s.editVolume("w", free)
		}, ""},

		{"I4", "a volume becomes Bound to nothing", func(s *scene) {
			s.volume("v", "1Gi")
			s.editVolume("v", inPhase(corev1.VolumeBound))
		}, "volume v became Bound, which has no claimRef"},
		{"I4", "a claim becomes Bound too early", func(s *scene) {
			s.claim("c", "1Gi", naming("v"))
			s.editClaim("c", markedBound)
		}, "claim default/c became Bound before its binding was completed"},
		{"I4", "a claim becomes Bound without a capacity", func(s *scene) {
			s.claim("c", "1Gi")
			s.editClaim("c", boundTo("v"), func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimBound })
		}, "claim default/c is Bound and has no capacity or no access modes"},
		{"I4", "a claim becomes Bound with access modes that its volume lacks", func(s *scene) {
			claim := s.claim("c", "1Gi")
			s.volume("v", "1Gi", reservedFor(claim), withModes(corev1.ReadWriteOnce, corev1.ReadWriteMany))
			s.editClaim("c", boundTo("v"), markedBound)
		}, "claim default/c became Bound with access modes [ReadWriteOnce], its volume v has [ReadWriteOnce ReadWriteMany]"},
		{"I4", "a volume is unbound, its claimRef first", func(s *scene) {
			s.volume("v", "1Gi", reservedFor(s.claim("c", "1Gi")))
			s.editVolume("v", inPhase(corev1.VolumeBound), free, inPhase(corev1.VolumeAvailable))
		}, ""},
		{"I4", "a claim and a volume are bound to each other, write by write", func(s *scene) { pair(s) }, ""},
		{"I4", "a volume's access modes are edited while it is being bound", func(s *scene) {
			claim := s.claim("c", "1Gi")
			s.volume("v", "1Gi", reservedFor(claim))
			s.editVolume("v", withModes(corev1.ReadWriteMany))
			s.editClaim("c", boundTo("v"), markedBound)
		}, ""},

		{"I7", "a claim names another volume", func(s *scene) {
			pair(s)
			s.updateClaim("c", naming("w"))
		}, `claim default/c named volume v and now names "w"`},
		{"I7", "a volume gets another source", func(s *scene) {
			s.volume("v", "1Gi")
			s.updateVolume("v", func(v *corev1.PersistentVolume) { v.Spec.CSI.VolumeHandle = "other" })
		}, "volume v now has another source"},
		{"I7", "a claim gets a volumeName, a volume gets a secret", func(s *scene) {
			pair(s)
			s.editVolume("v", func(v *corev1.PersistentVolume) {
				v.Spec.CSI.ControllerExpandSecretRef = &corev1.SecretReference{Name: "s", Namespace: "default"}
			})
		}, ""},
	})
}

func withModes(modes ...corev1.PersistentVolumeAccessMode) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) { v.Spec.AccessModes = modes }
}

func TestMatchingRule(t *testing.T) {
	labelled := func(v *corev1.PersistentVolume) { v.Labels = map[string]string{"disk": "fast"} }
	reserve := func(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) story {
		return func(s *scene) {
			made := testcheck.Must(s.user.CoreV1().PersistentVolumeClaims("default").Create(context.Background(), claim,
				createOptions))
			testcheck.Must(s.user.CoreV1().PersistentVolumes().Create(context.Background(), v, createOptions))
			s.editVolume("v", inPhase(corev1.VolumeAvailable), reservedFor(made))
		}
	}
	fast, gold := "fast", "gold"
	playAll(t, []claimRow{
		{
			"I5", "too small", reserve(newClaim("c", "2Gi"), newVolume("v", "1Gi")),
			"volume v was reserved for claim default/c, but it holds 1Gi where 2Gi are asked for",
		},
		{
			"I5", "of another class", reserve(newClaim("c", "1Gi", ofClass(&fast)), newVolume("v", "1Gi")),
			`volume v was reserved for claim default/c, but it is of class "", not "fast"`,
		},
		{
			"I5", "of another attributes class", reserve(newClaim("c", "1Gi", func(c *corev1.PersistentVolumeClaim) {
				c.Spec.VolumeAttributesClassName = &gold
			}), newVolume("v", "1Gi")),
			"volume v was reserved for claim default/c, but it is of another attributes class",
		},
		{
			"I5", "of another mode", reserve(newClaim("c", "1Gi"), newVolume("v", "1Gi", block)),
			"volume v was reserved for claim default/c, but it is of another volume mode",
		},
		{
			"I5", "without an access mode", reserve(newClaim("c", "1Gi"),
				newVolume("v", "1Gi", withModes(corev1.ReadWriteMany))),
			"volume v was reserved for claim default/c, but it lacks an access mode that is asked for",
		},
		{
			"I5", "not selected", reserve(newClaim("c", "1Gi", selecting("fast")), newVolume("v", "1Gi")),
			"volume v was reserved for claim default/c, but the claim's selector does not select it",
		},
		{
			"I5", "reserved by name for another", reserve(newClaim("c", "1Gi", naming("v")),
				newVolume("v", "1Gi", reservedBy("d"))),
			"volume v was reserved for claim default/c, but by name it was reserved for default/d",
		},
		{"I5", "not available", func(s *scene) {
			claim := s.claim("c", "1Gi")
			s.volume("v", "1Gi")
			s.editVolume("v", reservedFor(claim))
		}, "volume v was reserved for claim default/c, but it is Pending, not Available"},
		{"I5", "being deleted", func(s *scene) {
			claim := s.claim("c", "1Gi")
			s.volume("v", "1Gi")
			s.editVolume("v", inPhase(corev1.VolumeAvailable))
			s.deleteVolume("v")
			s.editVolume("v", reservedFor(claim))
		}, "volume v was reserved for claim default/c, but it is being deleted"},
		{"I5", "of another mode, pre-bound by the user and bound", func(s *scene) {
			claim := s.claim("c", "1Gi")
			s.volume("v", "1Gi", reservedFor(claim), block)
			s.editClaim("c", naming("v"))
		}, "claim default/c was bound to volume v, which is of another volume mode"},

		{"I5", "large, selected, with more access modes", reserve(newClaim("c", "1Gi", selecting("fast")),
			newVolume("v", "9Gi", labelled, withModes(corev1.ReadWriteOnce, corev1.ReadWriteMany))), ""},
		{
			"I5", "of another class and not selected, but reserved by name",
			reserve(newClaim("c", "1Gi", ofClass(&fast), selecting("fast")),
				newVolume("v", "1Gi", reservedBy("c"))), "",
		},
		{
			"I5", "not selected, but named by the claim",
			reserve(newClaim("c", "1Gi", selecting("fast"), naming("v")), newVolume("v", "1Gi")), "",
		},
		{
			"I5", "too small, but each names the other",
			reserve(newClaim("c", "2Gi", naming("v")), newVolume("v", "1Gi", reservedBy("c"))), "",
		},
		{"I5", "without a class, for a claim that got one a moment ago", func(s *scene) {
			claim := s.claim("c", "1Gi", ofClass(nil))
			s.volume("v", "1Gi")
			s.editVolume("v", inPhase(corev1.VolumeAvailable))
			s.editClaim("c", ofClass(&fast))
			s.editVolume("v", reservedFor(claim))
		}, ""},
	})
}

func TestLostRule(t *testing.T) {
	lose := func(s *scene) {
		s.act("pvcontroller/claims", "default/c", func(_ context.Context, client kubernetes.Interface, _ *sim.Process) {
			editClaimAs(client, "c", markedLost)
		})
	}
	const knew = "pvcontroller/claims marked claim default/c Lost although it knew that its volume v exists"
	const stays = "claim default/c stays Lost although its volume v exists"
	playAll(t, []claimRow{
		{"I6", "the controller knew the volume", func(s *scene) {
			s.controller("pvcontroller")
			pair(s)
			s.settle()
			lose(s)
			s.editClaim("c", markedBound)
		}, knew},
		{"I6", "the controller had not read it yet", func(s *scene) {
			s.controller("pvcontroller")
			pair(s)
			lose(s)
			s.editClaim("c", markedBound)
		}, "pvcontroller/claims marked claim default/c Lost before it listed volumes; the claim's volume is v"},
		{"I6", "the controller crashed", func(s *scene) {
			s.controller("pvcontroller")
			pair(s)
			s.settle()
			s.inject("crash", "pvcontroller with persistentvolumes 1 behind")
			lose(s)
			s.editClaim("c", markedBound)
		}, "pvcontroller/claims marked claim default/c Lost before it listed volumes; the claim's volume is v"},
		{"I6", "the volume has no claimRef", func(s *scene) {
			s.controller("pvcontroller")
			pair(s)
			s.editVolume("v", free)
			s.settle()
			lose(s)
			s.editClaim("c", markedBound)
		}, knew},
		{"I6", "the claim never recovers", func(s *scene) {
			s.controller("pvcontroller")
			s.settle()
			pair(s)
			lose(s)
		}, stays},
		{"I6", "the cache is stale, and the claim recovers", func(s *scene) {
			s.controller("pvcontroller")
			s.settle()
			pair(s)
			lose(s)
			s.editClaim("c", markedBound)
		}, ""},
		{"I6", "the informer had the volume, but its key was not synced", func(s *scene) {
			s.controller("pvcontroller")
			s.settle()
			s.act("pvcontroller/claims", "default/other", func(context.Context, kubernetes.Interface, *sim.Process) {})
			pair(s)
			s.settle()
			lose(s)
			s.editClaim("c", markedBound)
		}, ""},
		{"I6", "the volume does not exist", func(s *scene) {
			s.controller("pvcontroller")
			pair(s)
			s.removeVolume("v")
			s.settle()
			lose(s)
		}, ""},
		{"I6", "the volume is bound to another claim", func(s *scene) {
			s.controller("pvcontroller")
			pair(s)
			s.removeVolume("v")
			s.volume("v", "1Gi", reservedFor(s.claim("d", "1Gi")))
			s.settle()
			lose(s)
		}, ""},
	})
}
