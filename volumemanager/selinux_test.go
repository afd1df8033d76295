package volumemanager

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// mountsLabelled is a plugin that supports mounts with labels, does not, or fails to report it.
type mountsLabelled struct {
	can bool
	err error
}

func (p mountsLabelled) SupportsSELinuxContextMount(*plugins.Spec) (bool, error) { return p.can, p.err }

func options(level string) *corev1.SELinuxOptions {
	return &corev1.SELinuxOptions{User: "system_u", Role: "object_r", Type: "container_t", Level: level}
}

// labelPod returns a pod with SELinux options and a policy, and a container for each further set of
// options.
func labelPod(ofPod *corev1.SELinuxOptions, policy corev1.PodSELinuxChangePolicy,
	containers ...*corev1.SELinuxOptions,
) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: ofPod}
	if policy != "" {
		pod.Spec.SecurityContext.SELinuxChangePolicy = &policy
	}
	for _, o := range containers {
		c := corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "data"}, {Name: "other"}}}
		if o != nil {
			c.SecurityContext = &corev1.SecurityContext{SELinuxOptions: o}
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return pod
}

const (
	labelOne = "system_u:object_r:container_file_t:s0:c1"
	labelTwo = "system_u:object_r:container_file_t:s0:c2"
)

const (
	rwop = corev1.ReadWriteOncePod
	rwx  = corev1.ReadWriteMany
)

// TestLabelOfAVolume is upstream's Test_AddPodToVolume_SELinuxSinglePod, without feature gates that
// are locked, and with more rows.
func TestLabelOfAVolume(t *testing.T) {
	t.Parallel()
	one, two := options("s0:c1"), options("s0:c2")
	onlyOne, onlyTwo := selinuxLabels{labelOne, labelOne, true, true}, selinuxLabels{labelTwo, labelTwo, true, true}
	none := selinuxLabels{supported: true, exclusive: true}
	const recursive, byMount = corev1.SELinuxChangePolicyRecursive, corev1.SELinuxChangePolicyMountOption
	tests := []struct {
		name string
		pod  *corev1.Pod
		mode corev1.PersistentVolumeAccessMode
		can  bool
		gate bool // SELinuxMount
		want selinuxLabels
		err  string
	}{
		{"one pod, the plugin mounts with labels", labelPod(one, "", nil), rwop, true, false, onlyOne, ""},
		{
			"incomplete options", labelPod(&corev1.SELinuxOptions{Level: "s0:c1"}, "", nil),
			rwop, true, false, onlyOne, "",
		},
		{"no options", labelPod(nil, "", nil), rwop, true, false, none, ""},
		{
			"the plugin does not mount with labels", labelPod(one, "", nil), rwop, false, false,
			selinuxLabels{exclusive: true},
			"",
		},
		{"many pods", labelPod(one, "", nil), rwx, true, false, selinuxLabels{label: labelOne, supported: true}, ""},
		{
			"many pods, MountOption", labelPod(one, byMount, nil), rwx, true, false,
			selinuxLabels{label: labelOne, supported: true},
			"",
		},
		{"many pods, Recursive", labelPod(one, recursive, nil), rwx, true, false, selinuxLabels{supported: true}, ""},
		{"one pod, Recursive", labelPod(one, recursive, nil), rwop, true, false, none, ""},
		{"one pod, MountOption", labelPod(one, byMount, nil), rwop, true, false, onlyOne, ""},
		{"a container's options override its pod's", labelPod(one, "", two), rwop, true, false, onlyTwo, ""},
		{"containers with equal options", labelPod(nil, "", two, two), rwop, true, false, onlyTwo, ""},
		{
			"containers that differ", labelPod(one, "", two, nil), rwop, true, false,
			selinuxLabels{},
			"multiple SELinux labels found: " + labelOne + "," + labelTwo,
		},
		{"containers that differ, many pods", labelPod(one, "", two, nil), rwx, true, false, selinuxLabels{}, ""},
		{"with the gate, many pods", labelPod(one, "", nil), rwx, true, true, onlyOne, ""},
		{"with the gate, many pods, Recursive", labelPod(one, recursive, nil), rwx, true, true, none, ""},
		{"with the gate, many pods, MountOption", labelPod(one, byMount, nil), rwx, true, true, onlyOne, ""},
		{"with the gate, one pod, Recursive", labelPod(one, recursive, nil), rwop, true, true, none, ""},
		{"with the gate, one pod, MountOption", labelPod(one, byMount, nil), rwop, true, true, onlyOne, ""},
		{
			"with the gate, containers that differ, many pods", labelPod(one, "", two, nil), rwx, true, true,
			selinuxLabels{},
			"multiple SELinux labels found: " + labelOne + "," + labelTwo,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := &Manager{cfg: Config{SELinux: true, SELinuxMount: tt.gate}}
			got, err := m.labelOf(tt.pod, "data", labelledVolume(mountsLabelled{can: tt.can}, tt.mode))
			if got != tt.want || (err != nil || tt.err != "") && (err == nil || err.Error() != tt.err) {
				t.Errorf("label %+v, error %v; want %+v, %q", got, err, tt.want, tt.err)
			}
			m.cfg.SELinux = false
			if got, err := m.labelOf(tt.pod, "data",
				labelledVolume(mountsLabelled{can: tt.can}, tt.mode)); got != (selinuxLabels{}) || err != nil {
				t.Errorf("without SELinux: label %+v, error %v; want none", got, err)
			}
		})
	}
	broken := errors.New("broken")
	m := &Manager{cfg: Config{SELinux: true, SELinuxMount: true}}
	if _, err := m.labelOf(labelPod(one, "", nil), "data",
		labelledVolume(mountsLabelled{err: broken}, rwop)); !errors.Is(err, broken) {
		t.Errorf("a failing plugin: error %v, want its own", err)
	}
	inline := labelledVolume(mountsLabelled{can: true})
	inline.spec = &plugins.Spec{Volume: &corev1.Volume{Name: "v"}}
	want := selinuxLabels{label: labelOne, supported: true}
	if got, err := m.labelOf(labelPod(one, "", nil), "data", inline); got != want || err != nil {
		t.Errorf("an inline volume: label %+v, error %v; want %+v", got, err, want)
	}
}

func labelledVolume(plugin plugins.SELinuxMounter, modes ...corev1.PersistentVolumeAccessMode) resolved {
	return resolved{
		spec: &plugins.Spec{PersistentVolume: &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{AccessModes: modes},
		}},
		caps: plugins.Capabilities{SELinux: plugin},
	}
}

// TestPodsWithDifferentLabels is upstream's Test_AddPodToVolume_SELinux_MultiplePods, without
// feature gates that are locked, and with SELinuxMount.
func TestPodsWithDifferentLabels(t *testing.T) {
	t.Parallel()
	const recursive, byMount = corev1.SELinuxChangePolicyRecursive, corev1.SELinuxChangePolicyMountOption
	pod := func(level string, policy corev1.PodSELinuxChangePolicy) *corev1.Pod {
		return labelPod(options(level), policy, nil)
	}
	const one, two = "s0:c1", "s0:c2"
	const conflict = `conflicting SELinux labels of volume v: "` + labelOne + `" and "`
	tests := []struct {
		name          string
		first, second *corev1.Pod
		mode          corev1.PersistentVolumeAccessMode
		want          string // without the gate SELinuxMount
		gate          string // with it
	}{
		{"one pod, the same label", pod(one, ""), pod(one, ""), rwop, "", ""},
		{"one pod, two labels", pod(one, ""), pod(two, ""), rwop, conflict + labelTwo + `"`, conflict + labelTwo + `"`},
		{"one pod, both Recursive", pod(one, recursive), pod(one, recursive), rwop, "", ""},
		{
			"one pod, one Recursive", pod(one, recursive), pod(one, ""), rwop,
			`conflicting SELinux labels of volume v: "" and "` + labelOne + `"`,
			`conflicting SELinux labels of volume v: "" and "` + labelOne + `"`,
		},
		{"many pods, the same label", pod(one, byMount), pod(one, byMount), rwx, "", ""},
		{"many pods, MountOption and no policy", pod(one, ""), pod(one, byMount), rwx, "", ""},
		{"many pods, two labels", pod(one, byMount), pod(two, byMount), rwx, "", conflict + labelTwo + `"`},
		{"many pods, both Recursive", pod(one, recursive), pod(one, recursive), rwx, "", ""},
		{"many pods, two labels, both Recursive", pod(one, recursive), pod(two, recursive), rwx, "", ""},
		{"many pods, one Recursive", pod(one, byMount), pod(one, recursive), rwx, "", conflict + `"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, can := range []bool{true, false} {
				for gate, want := range map[bool]string{false: tt.want, true: tt.gate} {
					m := &Manager{cfg: Config{SELinux: true, SELinuxMount: gate}}
					volume := labelledVolume(mountsLabelled{can: can}, tt.mode)
					first, err := m.labelOf(tt.first, "data", volume)
					if err != nil {
						t.Fatal(err)
					}
					second, err := m.labelOf(tt.second, "data", volume)
					if err != nil {
						t.Fatal(err)
					}
					got := ""
					if err := (&desiredVolume{labelled: first}).conflict(second, volume.spec); err != nil {
						got = err.Error()
					}
					if !can { // then nothing is mounted with a label
						want = ""
					}
					if got != want {
						t.Errorf("gate %t, the plugin can %t: error %q, want %q", gate, can, got, want)
					}
				}
			}
		})
	}
}

// TestVolumeWithAnotherLabelIsUnmountedFirst from pods and from the node, before it is mounted for
// the waiting pod.
func TestVolumeWithAnotherLabelIsUnmountedFirst(t *testing.T) {
	t.Parallel()
	wanted := &desiredVolume{
		attachable: true, reported: true, pods: map[types.UID]desiredMount{"b": {}},
		labelled: selinuxLabels{mount: labelTwo},
	}
	is := situation{attached: true, ready: true, incomplete: func(types.UID) bool { return false }}
	actual := func(label string, device mountState, pods ...types.UID) *actualVolume {
		v := &actualVolume{label: label, device: device, pods: map[types.UID]*actualMount{}}
		for _, pod := range pods {
			v.pods[pod] = &actualMount{state: mounted}
		}
		return v
	}
	tests := []struct {
		name   string
		actual *actualVolume
		want   []step
	}{
		{"mounted for its pod", actual(labelOne, mounted, "a"), []step{{unmount, "a"}}},
		{"device mounted", actual(labelOne, mounted), []step{{verdict: unmountDevice}}},
		{"device uncertain", actual(labelOne, mountUncertain), []step{{verdict: unmountDevice}}},
		{"not mounted", actual(labelOne, notMounted), []step{{mount, "b"}}},
		{"the label is the right one", actual(labelTwo, mounted, "a"), []step{{unmount, "a"}, {mount, "b"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, decide(wanted, tt.actual, is), cmp.AllowUnexported(step{})); diff != "" {
				t.Errorf("decide (-want +got):\n%s", diff)
			}
		})
	}
}
