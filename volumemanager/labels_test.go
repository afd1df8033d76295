package volumemanager_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
)

// selinuxLabels is a pod whose processes have a level, and which uses the claims.
func selinuxLabels(uid types.UID, level string, claims ...string) *corev1.Pod {
	pod := newPod(uid, claims...)
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: level}}
	return pod
}

// TestPodsThatNeedDifferentLabelsTakeTurns: the second gets an event that says why it waits, and
// has the volume mounted with its own label when the first is gone.
func TestPodsThatNeedDifferentLabelsTakeTurns(t *testing.T) {
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
			testcheck.Equal(w, "told", []string{"b: unmounted volumes=[disk-1], unattached volumes=[], failed to process volumes=[disk-1]: " +
				`conflicting SELinux labels of volume disk-1: "system_u:object_r:container_file_t:s0:c1" and ` +
				`"system_u:object_r:container_file_t:s0:c2"`}, w.told)
		}
		want := []string{"MountDevice disk-1", "SetUp disk-1 a", "TearDown disk-1 a", "UnmountDevice disk-1", "MountDevice disk-1", "SetUp disk-1 b"}
		if !early {
			w.backend.faults = []fault{{"TearDown disk-1 a", errTransient, false}}
			want = slices.Insert(want, 2, "TearDown disk-1 a: not yet")
		}
		w.remove("a")
		if !early { // the volume is still mounted for a, which does not want it any more
			wait := w.waitMounted(selinuxLabels("b", "s0:c2", "disk-1"))
			w.Until("the wait to end", func() bool { return wait.At >= 0 })
			testcheck.Equal(w, "wait ends with", "unmounted volumes=[disk-1], unattached volumes=[], failed to process volumes=[]: "+
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
		testcheck.Equal(w, "labels", []string{"system_u:object_r:container_file_t:s0:c1", "system_u:object_r:container_file_t:s0:c2"}, w.backend.labels)
		w.quiet()
	}
}

// TestLabelThatWasFoundOnTheDisk: what a kubelet finds mounted with another label than the next pod
// needs, it unmounts first; also where only the node still has it.
func TestLabelThatWasFoundOnTheDisk(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		stages bool   // the volume is mounted for the node first
		killed string // the kubelet, when it was about to do so; "": while the first pod had it
		level  string // of the pod that comes
		want   []string
	}{
		{"a pod has it, and one comes that needs another label", true, "", "s0:c2", []string{"TearDown disk-1 a", "UnmountDevice disk-1", "MountDevice disk-1", "SetUp disk-1 b"}},
		{"a pod has it, and one comes that needs none", true, "", "", []string{"TearDown disk-1 a", "UnmountDevice disk-1", "MountDevice disk-1", "SetUp disk-1 b"}},
		{
			"a pod has it without the node, and keeps it for a while", false, "", "",
			[]string{"TearDown disk-1 a: not yet", "TearDown disk-1 a", "SetUp disk-1 b"},
		},
		{"the node has it", true, "UnmountDevice", "", []string{"UnmountDevice disk-1", "MountDevice disk-1", "SetUp disk-1 b"}},
		{"the node has it, with the right label", true, "UnmountDevice", "s0:c1", []string{"MountDevice disk-1", "SetUp disk-1 b"}},
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
					return slices.ContainsFunc(w.Host.Enabled(), func(s string) bool { return strings.Contains(s, tt.killed) })
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
