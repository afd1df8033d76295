package volumemanager

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volsim/volsim/plugins"
)

func TestDecide(t *testing.T) {
	wantedBy := func(reported bool, pods ...types.UID) *desiredVolume {
		v := &desiredVolume{attachable: true, reported: reported, pods: map[types.UID]desiredMount{}}
		for _, pod := range pods {
			v.pods[pod] = desiredMount{}
		}
		return v
	}
	actual := func(device mountState, pods map[types.UID]mountState) *actualVolume {
		v := &actualVolume{device: device, pods: map[types.UID]*actualMount{}}
		for pod, state := range pods {
			v.pods[pod] = &actualMount{state: state}
		}
		return v
	}
	type mounts = map[types.UID]mountState
	detached := wantedBy(false, "a")
	detached.attachable = false
	found := func(pods mounts) *actualVolume {
		v := actual(mountUncertain, pods)
		v.attachable, v.reconstructed = true, true
		return v
	}
	again := actual(mounted, mounts{"a": mounted, "b": mounted})
	again.pods["b"].remount = true
	ours := actual(notMounted, nil)
	ours.attachable = true
	held := func(uids ...types.UID) func(types.UID) bool {
		return func(uid types.UID) bool { return slices.Contains(uids, uid) }
	}
	is := situation{attached: true, ready: true, incomplete: held()}
	notAttached := situation{ready: true, incomplete: held()}
	begins := situation{attached: true, incomplete: held()}
	holds := situation{attached: true, ready: true, incomplete: held("b")}
	byKubelet := situation{ready: true, byKubelet: true, incomplete: held()}
	tests := []struct {
		name   string
		wanted *desiredVolume
		actual *actualVolume
		is     situation
		want   []step
	}{
		{"not reported in use yet", wantedBy(false, "a"), nil, is, []step{{verdict: awaitReport}}},
		{"reported, not attached", wantedBy(true, "a"), nil, notAttached, []step{{verdict: awaitAttached}}},
		{"reported and attached", wantedBy(true, "a"), nil, is, []step{{verdict: markAttached}}},
		{"needs no attaching", detached, nil, notAttached, []step{{verdict: markAttached}}},
		{"attached", wantedBy(true, "a"), actual(notMounted, nil), is, []step{{mount, "a"}}},
		{"mounted", wantedBy(true, "a"), actual(mounted, mounts{"a": mounted}), is, []step{{verdict: nothing}}},
		{
			"uncertain is mounted again", wantedBy(true, "a"),
			actual(mounted, mounts{"a": mountUncertain}), is,
			[]step{{mount, "a"}},
		},
		{"second pod", wantedBy(true, "a", "b"), actual(mounted, mounts{"a": mounted}), is, []step{{mount, "b"}}},
		{"set up again", wantedBy(true, "a", "b"), again, is, []step{{remount, "b"}}},
		{
			"one pod is removed, another is added", wantedBy(true, "b"), actual(mounted, mounts{"a": mounted}), is,
			[]step{{unmount, "a"}, {mount, "b"}},
		},
		{
			"all pods are removed", nil, actual(mounted, mounts{"b": mounted, "a": mountUncertain}), is,
			[]step{{unmount, "a"}, {unmount, "b"}},
		},
		{"only the device is mounted", nil, actual(mounted, nil), is, []step{{verdict: unmountDevice}}},
		{"device is uncertain", nil, actual(mountUncertain, nil), is, []step{{verdict: unmountDevice}}},
		{"all is unmounted", nil, actual(notMounted, nil), is, []step{{verdict: forget}}},
		{"no longer wanted before it was attached", nil, nil, is, []step{{verdict: forget}}},

		{"reconstructed, pods not known yet", nil, found(mounts{"a": mountUncertain}), begins, nil},
		{"reconstructed, not wanted", nil, found(mounts{"a": mountUncertain}), is, []step{{unmount, "a"}}},
		{
			"reconstructed, and its pod may want it", nil, found(mounts{"a": mountUncertain, "b": mountUncertain}),
			holds,
			[]step{{unmount, "a"}},
		},
		{"device reconstructed, pods not known yet", nil, found(nil), begins, []step{{verdict: hold}}},
		{"device reconstructed, not wanted", nil, found(nil), is, []step{{verdict: unmountDevice}}},
		{
			"reconstructed and wanted, not reported", wantedBy(false, "a"), found(mounts{"a": mountUncertain}), is,
			[]step{{verdict: awaitReport}},
		},
		{
			"reconstructed and wanted, attached", wantedBy(true, "a"), found(mounts{"a": mountUncertain}), is,
			[]step{{verdict: markAttached}},
		},
		{
			"reconstructed and wanted, not attached", wantedBy(true,
				"a"), found(mounts{"a": mountUncertain}), notAttached,
			[]step{{verdict: awaitAttached}},
		},

		{"the kubelet attaches", wantedBy(false, "a"), nil, byKubelet, []step{{verdict: attach}}},
		{
			"the kubelet has attached, and mounts", wantedBy(false, "a"), actual(notMounted, nil),
			byKubelet,
			[]step{{mount, "a"}},
		},
		{
			"the kubelet does not attach a volume without attachRequired", detached, nil, byKubelet,
			[]step{{verdict: markAttached}},
		},
		{"the kubelet detaches", nil, ours, byKubelet, []step{{verdict: detach}}},
		{"the kubelet has nothing to detach", nil, actual(notMounted, nil), byKubelet, []step{{verdict: forget}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := decide(tt.wanted, tt.actual, tt.is)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(step{})); diff != "" {
				t.Errorf("decide (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStateAfterAnError(t *testing.T) {
	classed := func(c plugins.Class) error { return &plugins.Error{Class: c, Err: errors.New("x")} }
	tests := []struct {
		before mountState
		found  bool
		err    error
		want   mountState
	}{
		{notMounted, false, nil, mounted},
		{mountUncertain, false, nil, mounted},
		{notMounted, false, errors.New("final"), notMounted},
		{mountUncertain, false, errors.New("final"), notMounted},
		{notMounted, false, classed(plugins.Uncertain), mountUncertain},
		{notMounted, false, classed(plugins.Transient), notMounted},
		{mountUncertain, false, classed(plugins.Transient), mountUncertain},
		{mounted, false, errors.New("final"), mounted}, // a remount
		{mounted, false, classed(plugins.Uncertain), mounted},
		{mountUncertain, true, nil, mounted},
		{mountUncertain, true, errors.New("final"), mountUncertain},
		{mountUncertain, true, classed(plugins.Transient), mountUncertain},
	}
	for _, tt := range tests {
		if got := stateAfter(tt.before, tt.found, tt.err); got != tt.want {
			t.Errorf("after(%v, %v, %v) = %v, want %v", tt.before, tt.found, tt.err, got, tt.want)
		}
	}
}

func TestUsedVolumes(t *testing.T) {
	mounts := func(names ...string) corev1.Container {
		var c corev1.Container
		for _, n := range names {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: n})
		}
		return c
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{mounts("seed")},
		Containers: []corev1.Container{
			mounts("data", "seed"),
			{VolumeDevices: []corev1.VolumeDevice{{Name: "raw"}}},
		},
		Volumes: []corev1.Volume{{Name: "unused"}},
	}}
	d := newDesiredState()
	if !d.addPod(pod) {
		t.Error("a new pod with volumes needs no processing")
	}
	used := func() []string { return sets.List(d.pods[pod.UID].wanted) }
	if diff := cmp.Diff([]string{"data", "raw", "seed"}, used()); diff != "" {
		t.Errorf("used volumes (-want +got):\n%s", diff)
	}
	if d.addPod(pod.DeepCopy()) {
		t.Error("an unchanged pod needs processing")
	}
	later := pod.DeepCopy()
	later.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{VolumeMounts: []corev1.VolumeMount{{Name: "unused"}}},
	}}
	if !d.addPod(later) {
		t.Error("a pod with an additional volume needs no processing")
	}
	if diff := cmp.Diff([]string{"data", "raw", "seed", "unused"}, used()); diff != "" {
		t.Errorf("used volumes with a container added later (-want +got):\n%s", diff)
	}
}

// TestTaken checks that no other pod can use a ReadWriteOncePod volume; an inline volume has no
// access modes.
func TestTaken(t *testing.T) {
	const alone, once = corev1.ReadWriteOncePod, corev1.ReadWriteOnce
	pv := func(modes ...corev1.PersistentVolumeAccessMode) *plugins.Spec {
		return &plugins.Spec{PersistentVolume: &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{AccessModes: modes}}}
	}
	for _, tt := range []struct {
		name string
		spec *plugins.Spec
		pods []types.UID
		want bool
	}{
		{"by no pod", pv(alone), nil, false},
		{"by the pod itself", pv(alone), []types.UID{"a"}, false},
		{"by another", pv(alone), []types.UID{"b"}, true},
		{"ReadWriteOnce", pv(once), []types.UID{"b"}, false},
		{"ReadWriteOnce and ReadWriteOncePod", pv(once, alone), []types.UID{"b"}, false},
		{"inline", &plugins.Spec{Volume: &corev1.Volume{Name: "v"}}, []types.UID{"b"}, false},
	} {
		v := &actualVolume{pods: map[types.UID]*actualMount{}}
		for _, pod := range tt.pods {
			v.pods[pod] = &actualMount{state: mountUncertain}
		}
		if err := v.checkOnePod("a", tt.spec); (err != nil) != tt.want {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestMountStateIsPassedSeparately checks that device and pod mount have separate states: a new pod
// may be the first to need a reconstructed device, and a pod with a reconstructed mount may need a
// device that was not reconstructed.
func TestMountStateIsPassedSeparately(t *testing.T) {
	group, policy := int64(7), corev1.FSGroupChangeOnRootMismatch
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}, Spec: corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{FSGroup: &group, FSGroupChangePolicy: &policy},
	}}
	use := func(remount, reconstructed bool) plugins.MountOptions {
		return plugins.MountOptions{
			DevicePath: "/dev/a", FSGroup: &group, FSGroupChangePolicy: &policy,
			Remount: remount, Reconstructed: reconstructed,
		}
	}
	for name, tt := range map[string]struct {
		device     bool         // reconstructed
		pod        *actualMount // nil for none
		wantDevice plugins.MountOptions
		wantPod    plugins.MountOptions
	}{
		"nothing reconstructed": {false, nil, use(false, false), use(false, false)},
		"only the device":       {true, nil, use(false, true), use(false, false)},
		"only the pod's mount": {
			false, &actualMount{state: mountUncertain, reconstructed: true},
			use(false, false), use(false, true),
		},
		"both": {
			true, &actualMount{state: mountUncertain, reconstructed: true},
			use(false, true), use(false, true),
		},
		"mounted for the pod": {false, &actualMount{state: mounted}, use(false, false), use(true, false)},
	} {
		v := &actualVolume{devicePath: "/dev/a", deviceReconstructed: tt.device, pods: map[types.UID]*actualMount{}}
		if tt.pod != nil {
			v.pods["a"] = tt.pod
		}
		m, want := &Manager{}, desiredMount{pod: pod}
		if diff := cmp.Diff(tt.wantDevice, m.deviceMountOptions(want, v)); diff != "" {
			t.Errorf("%s: the device's (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(tt.wantPod, m.mountOptions(want, v)); diff != "" {
			t.Errorf("%s: the pod's (-want +got):\n%s", name, diff)
		}
	}
}
