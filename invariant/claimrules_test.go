package invariant_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// asBinder runs a function as the PersistentVolume controller in a sync of claim c.
func (s *scene) asBinder(do func(client kubernetes.Interface)) {
	s.act("pvcontroller/claims", "default/c",
		func(_ context.Context, client kubernetes.Interface, _ *sim.Process) { do(client) })
}

func (s *scene) class(name string, isDefault bool) {
	class := newClass(name, storagev1.VolumeBindingImmediate, isDefault)
	class.Provisioner = s.devices.Driver()
	testcheck.Must(s.user.StorageV1().StorageClasses().Create(context.Background(), class, createOptions))
}

func TestClassRule(t *testing.T) {
	slow, fast := "slow", "fast"
	// given makes the controller assign class slow to claim c. during runs when the controller has
	// taken up the claim.
	given := func(before, meanwhile story) story {
		return func(s *scene) {
			s.controller("pvcontroller")
			s.claim("c", "1Gi", ofClass(nil))
			before(s)
			s.settle()
			s.asBinder(func(client kubernetes.Interface) {
				meanwhile(s)
				editClaimAs(client, "c", ofClass(&slow))
			})
		}
	}
	nothing := func(*scene) {}
	playAll(t, []claimRow{
		{
			"I13", "not a default", given(func(s *scene) { s.class("slow", false) }, nothing),
			"pvcontroller/claims assigned class slow to claim default/c, although it never was the default",
		},
		{"I13", "not the default in its cache", given(func(s *scene) {
			s.class("slow", true)
			s.class("fast", true)
		}, nothing), `pvcontroller/claims assigned class slow to claim default/c, although it knew that the default is "fast"`},
		{"I13", "to a claim with an annotation", func(s *scene) {
			s.controller("pvcontroller")
			s.class("slow", true)
			s.claim("c", "1Gi", ofClass(nil), func(c *corev1.PersistentVolumeClaim) {
				metav1.SetMetaDataAnnotation(&c.ObjectMeta, corev1.BetaStorageClassAnnotation, "slow")
			})
			s.settle()
			s.asBinder(func(client kubernetes.Interface) { editClaimAs(client, "c", ofClass(&slow)) })
		}, `pvcontroller/claims assigned a class to claim default/c, which has class "slow" by annotation`},
		{"I13", "over another", func(s *scene) {
			s.controller("pvcontroller")
			s.settle()
			s.host.Log().Append(trace.Record{
				Task:   "pvcontroller/claims",
				Action: trace.Action{Kind: trace.KindAPI, Verb: "update", Object: "persistentvolumeclaims/default/c"},
				Outcome: trace.Outcome{
					Before: newClaim("c", "1Gi", ofClass(&fast)),
					After:  newClaim("c", "1Gi", ofClass(&slow)),
				},
			})
		}, `pvcontroller/claims overwrote the class of claim default/c, which was "fast"`},

		{"I13", "the default", given(func(s *scene) { s.class("slow", true) }, nothing), ""},
		{
			"I13", "the default until a moment ago",
			given(func(s *scene) { s.class("slow", true) }, func(s *scene) { s.class("fast", true) }), "",
		},
		{"I13", "any class, by a user", func(s *scene) {
			s.class("slow", false)
			s.claim("c", "1Gi", ofClass(nil))
			s.editClaim("c", ofClass(&slow))
		}, ""},
	})
}

func TestIdempotenceRule(t *testing.T) {
	same := func(*corev1.PersistentVolumeClaim) {}
	playAll(t, []claimRow{
		{"I14", "a controller writes no change", func(s *scene) {
			s.controller("pvcontroller")
			s.claim("c", "1Gi")
			s.settle()
			s.asBinder(func(client kubernetes.Interface) { editClaimAs(client, "c", same) })
		}, "pvcontroller/claims updated persistentvolumeclaims/default/c without a change"},
		{"I14", "a controller writes a change, and a patch without one", func(s *scene) {
			s.controller("pvcontroller")
			s.claim("c", "1Gi")
			s.settle()
			s.asBinder(func(client kubernetes.Interface) {
				editClaimAs(client, "c", naming("v"))
				testcheck.Must(client.CoreV1().PersistentVolumeClaims("default").Patch(context.Background(), "c", "application/merge-patch+json",
					[]byte(`{"spec":{"volumeName":"v"}}`), metav1.PatchOptions{}))
			})
		}, ""},
		{"I14", "a user writes no change", func(s *scene) {
			s.claim("c", "1Gi")
			editClaimAs(s.server.Client(s.host.ExternalCaller()), "c", same)
		}, ""},
	})
}

// pod creates a pod with a claim on a node; without a node the pod is pending.
func (s *scene) pod(name, node, claim string) {
	pod := cluster.NewPod(name, claim)
	pod.Spec.NodeName = node
	testcheck.Must(s.user.CoreV1().Pods("default").Create(context.Background(), pod, createOptions))
}

// ephemeral creates a pod on node-1 with an ephemeral volume, and the volume's claim, which the pod
// owns if owned is set.
func (s *scene) ephemeral(owned bool) {
	pod := cluster.NewPod("p", "c")
	pod.Spec.NodeName = "node-1"
	pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: newClaim("", "1Gi").Spec},
	}}
	pod = testcheck.Must(s.user.CoreV1().Pods("default").Create(context.Background(), pod, createOptions))
	s.claim("p-c", "1Gi", func(c *corev1.PersistentVolumeClaim) {
		if owned {
			c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod,
				corev1.SchemeGroupVersion.WithKind("Pod"))}
		}
	})
}

// removeProtection makes the protection controller sync a claim, list the pods if list is set, and
// remove the finalizer.
func (s *scene) removeProtection(name string, list bool, meanwhile story) {
	s.act("pvcprotection/claims", "default/"+
		name, func(ctx context.Context, client kubernetes.Interface, _ *sim.Process) {
		if list {
			testcheck.Must(client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}))
		}
		meanwhile(s)
		editClaimAs(client, name, func(c *corev1.PersistentVolumeClaim) { c.Finalizers = nil })
	})
}

func TestProtectionRule(t *testing.T) {
	nothing := func(*scene) {}
	// deleted creates claim c and other objects, and deletes the claim.
	deleted := func(s *scene, nextTo story) {
		s.controller("pvcprotection")
		s.claim("c", "1Gi")
		nextTo(s)
		s.deleteClaim("c")
		s.settle()
	}
	used := func(s *scene) { s.pod("p", "node-1", "c") }
	letVolumeGo := func(s *scene) {
		s.act("pvprotection/volumes", "v", func(_ context.Context, client kubernetes.Interface, _ *sim.Process) {
			editVolumeAs(client, "v", func(v *corev1.PersistentVolume) { v.Finalizers = nil })
		})
	}
	playAll(t, []claimRow{
		{"I28", "a claim with a pod that was listed", func(s *scene) {
			deleted(s, used)
			s.removeProtection("c", true, nothing)
		}, "pvcprotection/claims removed the finalizer of claim default/c although it listed pod p on node-1, which uses it"},
		{"I28", "a claim, without listing pods", func(s *scene) {
			deleted(s, used)
			s.removeProtection("c", false, nothing)
		}, "pvcprotection/claims removed the finalizer of claim default/c without listing pods, although pod p on node-1 uses it"},
		{"I28", "a claim, after a list in an earlier sync", func(s *scene) {
			deleted(s, nothing)
			s.act("pvcprotection/claims", "default/c", func(ctx context.Context, client kubernetes.Interface, _ *sim.Process) {
				testcheck.Must(client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}))
			})
			used(s)
			s.removeProtection("c", false, nothing)
		}, "pvcprotection/claims removed the finalizer of claim default/c without listing pods, although pod p on node-1 uses it"},
		{"I28", "a claim that is not being deleted", func(s *scene) {
			s.controller("pvcprotection")
			s.claim("c", "1Gi")
			s.settle()
			s.removeProtection("c", true, nothing)
		}, "pvcprotection/claims removed the finalizer of claim default/c, which is not being deleted"},
		{"I28", "the claim of a pod's ephemeral volume", func(s *scene) {
			s.controller("pvcprotection")
			s.ephemeral(true)
			s.deleteClaim("p-c")
			s.settle()
			s.removeProtection("p-c", true, nothing)
		}, "pvcprotection/claims removed the finalizer of claim default/p-c although it listed pod p on node-1, which uses it"},
		{"I28", "a volume that is Bound", func(s *scene) {
			s.controller("pvprotection")
			pair(s)
			s.deleteVolume("v")
			s.settle()
			letVolumeGo(s)
		}, "pvprotection/volumes removed the finalizer of volume v, which is Bound"},
		{"I28", "a volume that is not being deleted", func(s *scene) {
			s.controller("pvprotection")
			s.volume("v", "1Gi")
			s.settle()
			letVolumeGo(s)
		}, "pvprotection/volumes removed the finalizer of volume v, which is not being deleted"},

		{"I28", "a claim with pods that are pending, deleted, or of another namespace", func(s *scene) {
			deleted(s, func(s *scene) {
				s.pod("waits", "", "c")
				s.pod("other", "node-1", "d")
				s.pod("gone", "node-1", "c")
				now := int64(0)
				if err := s.user.CoreV1().Pods("default").Delete(context.Background(), "gone",
					metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
					panic(err)
				}
			})
			s.removeProtection("c", true, nothing)
		}, ""},
		{"I28", "a claim with a pod scheduled after the list", func(s *scene) {
			deleted(s, nothing)
			s.removeProtection("c", true, used)
		}, ""},
		{"I28", "a claim with the name of a pod's ephemeral claim", func(s *scene) {
			s.controller("pvcprotection")
			s.ephemeral(false)
			s.deleteClaim("p-c")
			s.settle()
			s.removeProtection("p-c", true, nothing)
		}, ""},
		{"I28", "forced by a user", func(s *scene) {
			pair(s)
			used(s)
			s.editClaim("c", func(c *corev1.PersistentVolumeClaim) { c.Finalizers = nil })
			s.editVolume("v", func(v *corev1.PersistentVolume) { v.Finalizers = nil })
		}, ""},
		{"I28", "a Released volume", func(s *scene) {
			s.controller("pvprotection")
			pair(s)
			s.editVolume("v", inPhase(corev1.VolumeReleased))
			s.deleteVolume("v")
			s.settle()
			letVolumeGo(s)
		}, ""},
	})
}

func TestPendingForClaims(t *testing.T) {
	fast := "fast"
	const c = "persistentvolumeclaims/default/c "
	available := func(s *scene, options ...func(*corev1.PersistentVolume)) {
		s.volume("v", "1Gi", options...)
		s.editVolume("v", inPhase(corev1.VolumeAvailable))
	}
	playAll(t, []claimRow{
		{"L1", "a volume suits it", func(s *scene) {
			s.claim("c", "1Gi")
			available(s)
		}, c + "must be Bound to volume v, which suits it (L1)"},
		{"L1", "a volume is reserved for it", func(s *scene) {
			s.claim("c", "1Gi")
			available(s, reservedBy("c"))
		}, c + "must be Bound to volume v, which is reserved for it (L1)"},
		{"L1", "it asks for a volume", func(s *scene) {
			s.claim("c", "1Gi", naming("v"))
			available(s)
		}, c + "must be Bound to volume v, which it asks for (L1)"},
		{"L1", "half bound", func(s *scene) {
			claim := s.claim("c", "1Gi")
			s.volume("v", "1Gi", reservedFor(claim))
			s.editClaim("c", boundTo("v"))
		}, "persistentvolumes/v is Pending and must be Bound to claim default/c (L1)\n" + c +
			"must be Bound to volume v, or Lost (L1)"},
		{"L1", "bound to a volume that is gone", func(s *scene) {
			s.claim("c", "1Gi")
			s.editClaim("c", boundTo("v"))
		}, c + "must be Lost: its volume does not exist (L1)"},
		{"L1", "a volume can be made", func(s *scene) {
			s.class("fast", true)
			s.claim("c", "1Gi", ofClass(&fast))
		}, c + "must get a volume from disk.example.com (L1)"},
		{"L1", "there is a default class", func(s *scene) {
			s.claim("c", "1Gi", ofClass(nil))
			s.class("fast", true)
		}, c + "must get the default class, fast (L1)"},
		{
			"L1", "a volume has no claim", func(s *scene) { s.volume("v", "1Gi") },
			"persistentvolumes/v is Pending and must be Available, since no claim has it (L1)",
		},
		{"L1", "a volume is reserved in vain", func(s *scene) {
			claim := s.claim("c", "1Gi", naming("w"))
			available(s, reservedFor(claim))
		}, "persistentvolumes/v is reserved for claim default/c, which has volume w (L1)"},

		{"L1", "bound", func(s *scene) { pair(s) }, ""},
		{"L1", "nothing suits it", func(s *scene) {
			s.claim("c", "2Gi")
			available(s)
		}, ""},
		{"L1", "what it asks for is not there", func(s *scene) { s.claim("c", "1Gi", naming("v")) }, ""},
		{"L1", "what it asks for is too small", func(s *scene) {
			s.claim("c", "2Gi", naming("v"))
			available(s)
		}, ""},
		{"L1", "its class does not exist, or has no provisioner", func(s *scene) {
			slow := "slow"
			testcheck.Must(s.user.StorageV1().StorageClasses().Create(context.Background(),
				newClass("slow", storagev1.VolumeBindingImmediate, false), createOptions))
			s.claim("c", "1Gi", ofClass(&fast))
			s.claim("d", "1Gi", ofClass(&slow))
		}, ""},
		{"L1", "it waits for its first pod", func(s *scene) {
			class := newClass("fast", storagev1.VolumeBindingWaitForFirstConsumer, false)
			class.Provisioner = s.devices.Driver()
			testcheck.Must(s.user.StorageV1().StorageClasses().Create(context.Background(), class, createOptions))
			s.claim("c", "1Gi", ofClass(&fast))
			available(s, func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "fast" })
		}, ""},
	})
}

func TestPendingAfterRelease(t *testing.T) {
	const v = "persistentvolumes/v "
	// released creates a volume in a phase, with a claimRef to a claim that does not exist.
	released := func(phase corev1.PersistentVolumePhase, options ...func(*corev1.PersistentVolume)) story {
		return func(s *scene) {
			s.volume("v", "1Gi", append(options, reservedFor(s.claim("c", "1Gi")))...)
			s.editVolume("v", inPhase(phase))
			s.removeClaim("c")
		}
	}
	recycled := func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRecycle
	}
	onNFS := func(v *corev1.PersistentVolume) {
		v.Spec.CSI, v.Spec.NFS = nil, &corev1.NFSVolumeSource{Server: "nas", Path: "/"}
	}
	elsewhere := func(v *corev1.PersistentVolume) { v.Spec.CSI.Driver = "other.example.com" }
	playAll(t, []claimRow{
		{"L2", "a claim that no pod uses", func(s *scene) {
			s.claim("c", "1Gi")
			s.pod("p", "", "c")
			s.deleteClaim("c")
		}, "persistentvolumeclaims/default/c is being deleted and not in use (L2)"},
		{"L2", "a volume without a claim", func(s *scene) {
			s.volume("v", "1Gi")
			s.deleteVolume("v")
		}, v + "is being deleted, and is not Bound (L2)"},
		{
			"L2", "a Bound volume without its claim", released(corev1.VolumeBound),
			v + "is Bound and must be Released: its claim is gone (L2)",
		},
		{
			"L2", "a volume to delete", released(corev1.VolumeReleased, provisioned),
			v + "is Released and must be deleted (L2)",
		},
		{
			"L2", "a volume that no component can delete", released(corev1.VolumeReleased, toDelete, onNFS),
			v + "is Released and must be Failed: no component deletes it (L2)",
		},
		{
			"L2", "a volume to recycle", released(corev1.VolumeReleased, recycled),
			v + "is Released and must be recycled, or Failed (L2)",
		},
		{"L2", "a volume provisioned for a claim that has another", func(s *scene) {
			s.volume("v", "1Gi", provisioned, reservedFor(s.claim("c", "1Gi", naming("w"))))
		}, v + "is Pending and must be Released: its claim is gone (L2)"},

		{"L2", "a claim that a pod uses", func(s *scene) {
			s.claim("c", "1Gi")
			s.pod("p", "node-1", "c")
			s.deleteClaim("c")
		}, ""},
		{"L2", "a claim with another finalizer", func(s *scene) {
			s.claim("c", "1Gi", func(c *corev1.PersistentVolumeClaim) { c.Finalizers = []string{"example.com/keep"} })
			s.deleteClaim("c")
		}, ""},
		{"L2", "a Bound volume with its claim, both to be deleted", func(s *scene) {
			pair(s)
			s.pod("p", "node-1", "c")
			s.deleteVolume("v")
			s.deleteClaim("c")
		}, ""},
		{"L2", "a volume to retain", released(corev1.VolumeReleased), ""},
		{"L2", "a volume that could not be deleted", released(corev1.VolumeFailed, toDelete, onNFS), ""},
		{"L2", "a volume of an external driver", released(corev1.VolumeReleased, toDelete, elsewhere), ""},
	})
}
