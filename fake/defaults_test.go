package fake_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

func TestPodDefaults(t *testing.T) {
	w := newWorld(t)
	claimed := newClaim("").Spec
	sources := map[string]corev1.VolumeSource{
		"a": {},
		"b": {HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
		"c": {Secret: &corev1.SecretVolumeSource{SecretName: "s"}},
		"d": {Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claimed}}},
	}
	p := testcheck.Must(w.User.CoreV1().Pods("default").Create(w.Context(), newPod("p", func(p *corev1.Pod) {
		p.Spec.Volumes = nil
		for _, n := range []string{"a", "b", "c", "d"} {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: n, VolumeSource: sources[n]})
		}
		p.Spec.Containers = []corev1.Container{
			{Name: "c", Image: "busybox:1", Resources: corev1.ResourceRequirements{Limits: storage("1Gi")}},
			{Name: "d", Image: "registry:5000/busybox"},
		}
	}), metav1.CreateOptions{}))
	claimed.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem)
	bears := func(key string) corev1.Toleration {
		return corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To(int64(300)),
		}
	}
	container := corev1.Container{
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}
	first, second := container, container
	first.Name, first.Image, first.ImagePullPolicy = "c", "busybox:1", corev1.PullIfNotPresent
	first.Resources = corev1.ResourceRequirements{Limits: storage("1Gi"), Requests: storage("1Gi")}
	second.Name, second.Image, second.ImagePullPolicy = "d", "registry:5000/busybox", corev1.PullAlways
	expect(t, p.Spec, corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, SchedulerName: "default-scheduler",
		TerminationGracePeriodSeconds: ptr.To(int64(30)), EnableServiceLinks: ptr.To(true),
		SecurityContext:    &corev1.PodSecurityContext{},
		ServiceAccountName: "default", DeprecatedServiceAccount: "default",
		Priority: ptr.To(int32(0)), PreemptionPolicy: ptr.To(corev1.PreemptLowerPriority),
		Tolerations: []corev1.Toleration{
			bears("node.kubernetes.io/not-ready"),
			bears("node.kubernetes.io/unreachable"),
		},
		Containers: []corev1.Container{first, second},
		Volumes: []corev1.Volume{
			{Name: "a", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "b", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: "/x", Type: ptr.To(corev1.HostPathUnset),
			}}},
			{Name: "c", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
				SecretName: "s", DefaultMode: ptr.To(int32(0o644)),
			}}},
			{Name: "d", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
				VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
					Spec: claimed,
				},
			}}},
		},
	})
	expect(t, p.Status, corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable})
	expect(t, p.Generation, 1)
}

// Times with fractions of a second are truncated.
func TestTimesAreTruncated(t *testing.T) {
	w := newWorld(t)
	nodes := w.User.CoreV1().Nodes()
	precise := metav1.Time{Time: sim.Epoch.Add(1500 * time.Millisecond)}
	n := testcheck.Must(nodes.Create(w.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Status: corev1.NodeStatus{
			Capacity:   storage("1Gi"),
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, LastTransitionTime: precise}},
		},
	}, metav1.CreateOptions{}))
	expect(t, n.Status.Conditions[0].LastTransitionTime.Time, sim.Epoch.Add(time.Second))
	expect(t, n.Status.Allocatable, storage("1Gi"))
	// A change that the wire loses is no change.
	n.Status.Conditions[0].LastTransitionTime = precise
	again := testcheck.Must(nodes.UpdateStatus(w.Context(), n, metav1.UpdateOptions{}))
	expect(t, again.ResourceVersion, n.ResourceVersion)
}
