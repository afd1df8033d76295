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

// mountsLabelled is a plugin that can mount volumes with labels, or cannot, or cannot tell.
type mountsLabelled struct {
	can bool
	err error
}

func (p mountsLabelled) SupportsSELinuxContextMount(*plugins.Spec) (bool, error) { return p.can, p.err }

func options(level string) *corev1.SELinuxOptions {
	return &corev1.SELinuxOptions{User: "system_u", Role: "object_r", Type: "container_t", Level: level}
}

// labelPod is a pod with SELinux options and a policy, and for each of its containers one that may have its own.
func labelPod(ofPod *corev1.SELinuxOptions, policy corev1.PodSELinuxChangePolicy, containers ...*corev1.SELinuxOptions) *corev1.Pod {
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

// TestLabelOfAVolume is upstream's Test_AddPodToVolume_SELinuxSinglePod, with the feature gates that are on, and more.
func TestLabelOfAVolume(t *testing.T) {
	t.Parallel()
	const (
		rwop = corev1.ReadWriteOncePod
		rwx  = corev1.ReadWriteMany
	)
	one, two := options("s0:c1"), options("s0:c2")
	tests := []struct {
		name string
		pod  *corev1.Pod
		mode corev1.PersistentVolumeAccessMode
		can  bool
		want labelled
		err  string
	}{
		{"one pod, the plugin mounts with labels", labelPod(one, "", nil), rwop, true, labelled{labelOne, labelOne, true}, ""},
		{
			"options that leave much open", labelPod(&corev1.SELinuxOptions{Level: "s0:c1"}, "", nil), rwop, true,
			labelled{labelOne, labelOne, true},
			"",
		},
		{"no options", labelPod(nil, "", nil), rwop, true, labelled{can: true}, ""},
		{"the plugin does not mount with labels", labelPod(one, "", nil), rwop, false, labelled{}, ""},
		{"many pods", labelPod(one, "", nil), rwx, true, labelled{label: labelOne, can: true}, ""},
		{"many pods, MountOption", labelPod(one, corev1.SELinuxChangePolicyMountOption, nil), rwx, true, labelled{label: labelOne, can: true}, ""},
		{"many pods, Recursive", labelPod(one, corev1.SELinuxChangePolicyRecursive, nil), rwx, true, labelled{can: true}, ""},
		{"one pod, Recursive", labelPod(one, corev1.SELinuxChangePolicyRecursive, nil), rwop, true, labelled{can: true}, ""},
		{"one pod, MountOption", labelPod(one, corev1.SELinuxChangePolicyMountOption, nil), rwop, true, labelled{labelOne, labelOne, true}, ""},
		{"a container's options go before its pod's", labelPod(one, "", two), rwop, true, labelled{labelTwo, labelTwo, true}, ""},
		{"containers of one mind", labelPod(nil, "", two, two), rwop, true, labelled{labelTwo, labelTwo, true}, ""},
		{
			"containers that differ", labelPod(one, "", two, nil), rwop, true,
			labelled{},
			"multiple SELinux labels found: " + labelOne + "," + labelTwo,
		},
		{"containers that differ, many pods", labelPod(one, "", two, nil), rwx, true, labelled{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := &Manager{cfg: Config{SELinux: true}}
			got, err := m.labelOf(tt.pod, "data", labelledVolume(mountsLabelled{can: tt.can}, tt.mode))
			if got != tt.want || (err != nil || tt.err != "") && (err == nil || err.Error() != tt.err) {
				t.Errorf("label %+v, error %v; want %+v, %q", got, err, tt.want, tt.err)
			}
			m.cfg.SELinux = false
			if got, err := m.labelOf(tt.pod, "data", labelledVolume(mountsLabelled{can: tt.can}, tt.mode)); got != (labelled{}) || err != nil {
				t.Errorf("without SELinux: label %+v, error %v; want none", got, err)
			}
		})
	}
	broken := errors.New("broken")
	m := &Manager{cfg: Config{SELinux: true}}
	if _, err := m.labelOf(labelPod(one, "", nil), "data", labelledVolume(mountsLabelled{err: broken}, rwop)); !errors.Is(err, broken) {
		t.Errorf("a plugin that cannot tell: error %v, want its own", err)
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

// TestPodsThatNeedDifferentLabels is upstream's Test_AddPodToVolume_SELinux_MultiplePods, with the feature gates that are on.
func TestPodsThatNeedDifferentLabels(t *testing.T) {
	t.Parallel()
	one, none := labelled{labelOne, labelOne, true}, labelled{can: true}
	forMany := func(label string) labelled { return labelled{label: label, can: true} }
	rwop := labelledVolume(nil, corev1.ReadWriteOncePod).spec
	rwx := labelledVolume(nil, corev1.ReadWriteMany).spec
	const conflict = `conflicting SELinux labels of volume v: "` + labelOne + `" and "`
	tests := []struct {
		name          string
		first, second labelled
		spec          *plugins.Spec
		want          string
	}{
		{"one pod, the same label", one, one, rwop, ""},
		{"one pod, two labels", one, labelled{labelTwo, labelTwo, true}, rwop, conflict + labelTwo + `"`},
		{"one pod, both Recursive", none, none, rwop, ""},
		{"one pod, one Recursive", one, none, rwop, conflict + `"`},
		{"many pods, the same label", forMany(labelOne), forMany(labelOne), rwx, ""},
		{"many pods, two labels", forMany(labelOne), forMany(labelTwo), rwx, ""},
		{"many pods, one Recursive", forMany(labelOne), none, rwx, ""},
		{"a plugin that mounts without labels", labelled{}, labelled{}, rwop, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if err := (&desiredVolume{labelled: tt.first}).conflict(tt.second, tt.spec); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("error %q, want %q", got, tt.want)
			}
		})
	}
}

// TestVolumeWithAnotherLabelIsUnmountedFirst from pods and from the node, before it is mounted for who waits.
func TestVolumeWithAnotherLabelIsUnmountedFirst(t *testing.T) {
	t.Parallel()
	wanted := &desiredVolume{
		attachable: true, reported: true, pods: map[types.UID]desiredMount{"b": {}}, labelled: labelled{mount: labelTwo},
	}
	is := standing{attached: true, ready: true, held: func(types.UID) bool { return false }}
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
		{"its pod has it", actual(labelOne, mounted, "a"), []step{{unmount, "a"}}},
		{"the node has it", actual(labelOne, mounted), []step{{verdict: unmountDevice}}},
		{"the node may have it", actual(labelOne, mountUncertain), []step{{verdict: unmountDevice}}},
		{"nobody has it", actual(labelOne, notMounted), []step{{mount, "b"}}},
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
