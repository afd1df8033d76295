package volumemanager_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
)

// selinuxLabels is a pod with an SELinux level that uses the claims.
func selinuxLabels(uid types.UID, level string, claims ...string) *corev1.Pod {
	pod := newPod(uid, claims...)
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: level}}
	return pod
}

// TestPodsWithDifferentLabelsMountInTurn checks that the second pod gets an event with the reason,
// and that the volume is mounted with its label after the first pod is removed.
func TestPodsWithDifferentLabelsMountInTurn(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{true, false} {
		w := newWorld(t, nil)
		w.claim("disk-1")
		w.volume("disk-1", func(v *corev1.PersistentVolume) {
			v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		})
		w.bind("disk-1")
		w.attach("disk-1")
		w.manager.AddPod(selinuxLabels("a", "s0:c1", "disk-1"))
		w.Run()
		w.pod("a", true, true)
		come := func() {
			w.manager.AddPod(selinuxLabels("b", "s0:c2", "disk-1"))
			w.kubelet.Wake()
		}
		if early {
			come()
			w.Run()
			testcheck.Equal(w, "reported", []string{"b: unmounted volumes=[disk-1], unattached volumes=[], failed to process volumes=[disk-1]: " +
				`conflicting SELinux labels of volume disk-1: "system_u:object_r:container_file_t:s0:c1" and ` +
				`"system_u:object_r:container_file_t:s0:c2"`}, w.waitErrors)
		}
		want := []string{
			"MountDevice disk-1", "SetUp disk-1 a", "TearDown disk-1 a", "UnmountDevice disk-1",
			"MountDevice disk-1", "SetUp disk-1 b",
		}
		if !early {
			w.backend.faults = []fault{{"TearDown disk-1 a", errTransient, false}}
			want = slices.Insert(want, 2, "TearDown disk-1 a: not yet")
		}
		w.remove("a")
		if !early { // still mounted for a, which no longer wants it
			wait := w.waitMounted(selinuxLabels("b", "s0:c2", "disk-1"))
			w.Until("the wait to end", func() bool { return wait.At >= 0 })
			testcheck.Equal(w, "wait ends with",
				"unmounted volumes=[disk-1], unattached volumes=[], failed to process volumes=[]: "+
					`waiting for unmount of volume "example.com/shelf/disk-1", because it is already mounted to a different pod with a different SELinux label`,
				wait.Err)
		}
		w.Run()
		w.pod("a", false, false)
		w.pod("b", true, true)
		for i, call := range w.backend.calls {
			_, w.backend.calls[i], _ = strings.Cut(call, " ") // without its time
		}
		w.calls(want...)
		testcheck.Equal(w, "labels", []string{
			"system_u:object_r:container_file_t:s0:c1",
			"system_u:object_r:container_file_t:s0:c2",
		}, w.backend.labels)
		w.quiet()
	}
}

// TestReconstructedLabel checks that a kubelet unmounts a reconstructed volume with another label
// than the next pod needs, even if only its device is mounted.
func TestReconstructedLabel(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		stages bool   // MountDevice is called first
		killed string // call at which the kubelet crashed; "" while it was mounted for the first pod
		level  string // of the new pod
		want   []string
	}{
		{
			"mounted for a pod, the new pod needs another label", true, "", "s0:c2",
			[]string{"TearDown disk-1 a", "UnmountDevice disk-1", "MountDevice disk-1", "SetUp disk-1 b"},
		},
		{
			"mounted for a pod, the new pod needs none", true, "", "",
			[]string{"TearDown disk-1 a", "UnmountDevice disk-1", "MountDevice disk-1", "SetUp disk-1 b"},
		},
		{
			"mounted for a pod without a device mount, which stays for some time", false, "", "",
			[]string{"TearDown disk-1 a: not yet", "TearDown disk-1 a", "SetUp disk-1 b"},
		},
		{
			"device mounted", true, "UnmountDevice", "",
			[]string{"UnmountDevice disk-1", "MountDevice disk-1", "SetUp disk-1 b"},
		},
		{
			"device mounted with the right label", true, "UnmountDevice", "s0:c1",
			[]string{"MountDevice disk-1", "SetUp disk-1 b"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, func(b *backend) { b.stages, b.selinuxMount = tt.stages, true })
			w.disk("disk-1")
			w.attach("disk-1")
			w.manager.AddPod(selinuxLabels("a", "s0:c1", "disk-1"))
			w.Run()
			w.pod("a", true, true)
			if tt.killed != "" {
				w.remove("a")
				w.Until(tt.killed, func() bool {
					return slices.ContainsFunc(w.Host.Enabled(),
						func(s string) bool { return strings.Contains(s, tt.killed) })
				})
			}
			w.restart()
			if strings.Contains(tt.want[0], "not yet") {
				w.backend.faults = []fault{{"TearDown disk-1 a", errTransient, false}}
			}
			b := newPod("b", "disk-1")
			if tt.level != "" {
				b = selinuxLabels("b", tt.level, "disk-1")
			}
			w.manager.AddPod(b)
			w.known()
			w.Run()
			for i, call := range w.backend.calls {
				_, w.backend.calls[i], _ = strings.Cut(call, " ") // without its time
			}
			w.calls(tt.want...)
			w.pod("b", true, true)
			w.quiet()
		})
	}
}
