package invariant_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
)

// holding sets the volumes of the backend, by handle.
func (s *scene) holding(handles ...string) {
	s.devices.volumes = nil
	for _, h := range handles {
		s.devices.volumes = append(s.devices.volumes, invariant.Volume{Handle: h, Name: "pvc-" + h})
	}
}

// provision creates a claim, a volume for it, and its PersistentVolume v.
func provision(s *scene) *corev1.PersistentVolumeClaim {
	claim := s.claim("c", "1Gi")
	s.holding("handle-of-v")
	s.volume("v", "1Gi", provisioned, reservedFor(claim))
	return claim
}

// asProvisioner runs a function as the provisioner in a sync of volume v.
func (s *scene) asProvisioner(do func(ctx context.Context, client kubernetes.Interface)) {
	s.act("provisioner/volumes", "v",
		func(ctx context.Context, client kubernetes.Interface, _ *sim.Process) { do(ctx, client) })
}

func (s *scene) deleteData(err error) {
	s.call("provisioner/volumes", "DeleteVolume", "handle-of-v", err)
}

func deleteObject(ctx context.Context, client kubernetes.Interface) {
	if err := client.CoreV1().PersistentVolumes().Delete(ctx, "v", metav1.DeleteOptions{}); err != nil {
		panic(err)
	}
}

func dropFinalizer(_ context.Context, client kubernetes.Interface) {
	editVolumeAs(client, "v",
		func(v *corev1.PersistentVolume) { v.Finalizers = []string{"kubernetes.io/pv-protection"} })
}

func TestReclaimRules(t *testing.T) {
	playAll(t, []claimRow{
		{"I8", "marked Released, and the claim exists", func(s *scene) {
			provision(s)
			s.editVolume("v", inPhase(corev1.VolumeReleased))
		}, "volume v was marked Released, and is claim default/c's"},
		{"I8", "marked Released, and the claim is bound to another", func(s *scene) {
			provision(s)
			s.editClaim("c", naming("w"))
			s.editVolume("v", inPhase(corev1.VolumeReleased))
		}, ""},
		{"I8", "the claim exists", func(s *scene) {
			provision(s)
			s.deleteData(nil)
		}, "provisioner/volumes deleted the data of volume v, which is claim default/c's"},
		{"I8", "the claim is bound to it", func(s *scene) {
			s.bind("v", provision(s))
			s.deleteData(nil)
		}, "provisioner/volumes deleted the data of volume v, which is claim default/c's"},
		{"I8", "policy Retain", func(s *scene) {
			s.controller("provisioner")
			provision(s)
			s.removeClaim("c")
			s.editVolume("v", toRetain)
			s.settle()
			s.asProvisioner(func(context.Context, kubernetes.Interface) {})
			s.deleteData(nil)
		}, "provisioner/volumes deleted the data of volume v, whose policy is Retain"},
		{"I8", "policy Retain, which the provisioner could not know", func(s *scene) {
			s.controller("provisioner")
			provision(s)
			s.removeClaim("c")
			s.settle()
			s.asProvisioner(func(context.Context, kubernetes.Interface) {})
			s.editVolume("v", toRetain)
			s.deleteData(nil)
		}, ""},
		{"I8", "the claim is deleted, and another one with its name exists", func(s *scene) {
			provision(s)
			s.removeClaim("c")
			s.claim("c", "1Gi")
			s.deleteData(nil)
		}, ""},
		{"I8", "the claim is bound to another", func(s *scene) {
			provision(s)
			s.editClaim("c", naming("w"))
			s.deleteData(nil)
		}, ""},
		{"I8", "rejected by the driver", func(s *scene) {
			provision(s)
			s.deleteData(errors.New("busy"))
		}, ""},

		{"I9", "its volume exists", func(s *scene) {
			s.controller("provisioner")
			provision(s)
			s.call("provisioner/claims", "CreateVolume", "pvc-v", nil)
			s.asProvisioner(deleteObject)
		}, "provisioner/volumes deleted PersistentVolume v (UID-v), whose volume was not deleted before"},
		{"I9", "the volume of another one with its name was deleted", func(s *scene) {
			s.controller("provisioner")
			provision(s)
			s.deleteData(nil)
			s.removeVolume("v")
			s.volume("v", "1Gi", provisioned)
			s.asProvisioner(deleteObject)
		}, "provisioner/volumes deleted PersistentVolume v (UID-v), whose volume was not deleted before"},
		{"I9", "without a call to the backend, which has no such volume", func(s *scene) {
			s.controller("provisioner")
			provision(s)
			s.call("provisioner/claims", "CreateVolume", "pvc-v", nil)
			s.holding()
			s.asProvisioner(deleteObject)
		}, "provisioner/volumes deleted PersistentVolume v (UID-v), whose volume was not deleted before"},
		{"I9", "its volume is deleted", func(s *scene) {
			s.controller("provisioner")
			provision(s)
			s.deleteData(nil)
			s.asProvisioner(deleteObject)
		}, ""},
		{"I9", "by a user", func(s *scene) {
			s.controller("provisioner")
			provision(s)
			s.call("provisioner/claims", "CreateVolume", "pvc-v", nil)
			s.deleteVolume("v")
		}, ""},

		{"I12", "its data exists", func(s *scene) {
			s.controller("provisioner")
			provision(s)
			s.settle()
			s.asProvisioner(dropFinalizer)
		}, "provisioner/volumes removed finalizer " + provisionerFinalizer + " from volume v, whose data still exists"},
		{"I12", "its data is deleted", func(s *scene) {
			s.controller("provisioner")
			provision(s)
			s.settle()
			s.deleteData(nil)
			s.asProvisioner(dropFinalizer)
		}, ""},
		{"I12", "it never had the finalizer", func(s *scene) {
			s.holding("handle-of-v")
			s.volume("v", "1Gi", provisioned, func(v *corev1.PersistentVolume) { v.Finalizers = nil })
			s.removeVolume("v")
		}, "volume v was deleted without ever having had a finalizer, and its data still exists"},
		{"I12", "it never had the finalizer, and its data is deleted", func(s *scene) {
			s.volume("v", "1Gi", provisioned, func(v *corev1.PersistentVolume) { v.Finalizers = nil })
			s.removeVolume("v")
		}, ""},
		{"I12", "forced by a user", func(s *scene) {
			provision(s)
			dropFinalizer(context.Background(), s.user)
		}, ""},
		{"I12", "its policy was changed for some time", func(s *scene) {
			s.controller("provisioner")
			provision(s)
			s.editVolume("v", toRetain)
			s.settle()
			s.editVolume("v", toDelete)
			s.asProvisioner(dropFinalizer)
		}, ""},
	})
}

func TestAccountedRule(t *testing.T) {
	playAll(t, []claimRow{
		{
			"I11", "a volume without an object", func(s *scene) { s.holding("handle-of-v") },
			"volume handle-of-v (pvc-handle-of-v) has no PersistentVolume",
		},
		{"I11", "an object without a volume", func(s *scene) {
			provision(s)
			s.holding()
		}, "PersistentVolume v refers to volume handle-of-v, which does not exist"},
		{"I11", "a volume that its provisioner forgot", func(s *scene) {
			s.call("provisioner/claims", "CreateVolume", "pvc-handle-of-v", nil)
			s.holding("handle-of-v")
			s.inject("crash", "pvcontroller")
		}, "volume handle-of-v (pvc-handle-of-v) has no PersistentVolume"},

		{"I11", "both exist", func(s *scene) { provision(s) }, ""},
		{"I11", "a static volume with an arbitrary handle", func(s *scene) { s.volume("v", "1Gi") }, ""},
		{"I11", "an object that is being deleted", func(s *scene) {
			provision(s)
			s.holding()
			s.deleteVolume("v")
		}, ""},
		{"I11", "a volume with a deleted object of policy Retain", func(s *scene) {
			provision(s)
			s.editVolume("v", toRetain)
			s.removeVolume("v")
		}, ""},
		{"I11", "a volume with a forcibly deleted object", func(s *scene) {
			provision(s)
			s.removeVolume("v")
		}, ""},
		{"I11", "a volume with a crashed provisioner", func(s *scene) {
			s.call("provisioner/claims", "CreateVolume", "pvc-handle-of-v", nil)
			s.holding("handle-of-v")
			s.inject("crash", "provisioner with persistentvolumeclaims 1 behind")
		}, ""},
		{"I11", "a volume that the driver reported as not created", func(s *scene) {
			s.call("provisioner/claims", "CreateVolume", "pvc-handle-of-v", status.Error(codes.Internal, "broken"))
			s.holding("handle-of-v")
		}, ""},
	})
}

func TestProvisionRule(t *testing.T) {
	create := func(v *corev1.PersistentVolume) func(context.Context, kubernetes.Interface) {
		return func(ctx context.Context, client kubernetes.Interface) {
			testcheck.Must(client.CoreV1().PersistentVolumes().Create(ctx, v, createOptions))
		}
	}
	// made creates a claim, and a volume for it under its name, and returns that.
	made := func(s *scene) (*corev1.PersistentVolumeClaim, string) {
		s.controller("provisioner")
		claim := s.claim("c", "1Gi")
		name := "pvc-" + string(claim.UID)
		s.devices.volumes = []invariant.Volume{{Handle: "handle-of-" + name, Name: name}}
		s.call("provisioner/claims", "CreateVolume", name, nil)
		return claim, name
	}
	playAll(t, []claimRow{
		{"I10", "provisioned without a claim", func(s *scene) {
			s.call("provisioner/claims", "CreateVolume", "pvc-1", nil)
		}, `provisioner/claims requested a volume named "pvc-1", which belongs to no claim`},
		{"I10", "provisioned twice", func(s *scene) {
			_, name := made(s)
			s.devices.volumes = append(s.devices.volumes, invariant.Volume{Handle: "second", Name: name})
			s.call("provisioner/claims", "CreateVolume", name, nil)
		}, "there are 2 volumes for claim default/c: handle-of-pvc-UID-1, second"},
		{"I10", "an object with another name", func(s *scene) {
			claim, _ := made(s)
			s.asProvisioner(create(newVolume("v", "1Gi", provisioned, reservedFor(claim))))
		}, `provisioner/volumes created PersistentVolume v for the claim with UID "UID-1"`},
		{"I10", "an object for another volume", func(s *scene) {
			claim, name := made(s)
			s.devices.volumes = append(s.devices.volumes, invariant.Volume{Handle: "other", Name: "pvc-other"})
			s.asProvisioner(create(newVolume(name, "1Gi", provisioned, reservedFor(claim), func(v *corev1.PersistentVolume) {
				v.Spec.CSI.VolumeHandle = "other"
			})))
		}, "provisioner/volumes created PersistentVolume pvc-UID-1 for volume other, which was provisioned as pvc-other"},

		{"I10", "provisioned once, requested twice", func(s *scene) {
			claim, name := made(s)
			s.removeClaim("c")
			s.call("provisioner/claims", "CreateVolume", name, nil)
			s.asProvisioner(create(newVolume(name, "1Gi", provisioned, reservedFor(claim))))
		}, ""},
		{"I10", "a user's object for an arbitrary volume", func(s *scene) {
			claim, _ := made(s)
			s.volume("v", "1Gi", provisioned, reservedFor(claim))
		}, ""},
	})
}
