package volumemanager

import (
	"errors"
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
	tests := []struct {
		name     string
		wanted   *desiredVolume
		actual   *actualVolume
		attached bool
		want     []step
	}{
		{"not reported in use yet", wantedBy(false, "a"), nil, true, []step{{verdict: awaitReport}}},
		{"reported, not attached", wantedBy(true, "a"), nil, false, []step{{verdict: awaitAttached}}},
		{"reported and attached", wantedBy(true, "a"), nil, true, []step{{verdict: noteAttached}}},
		{"needs no attaching", detached, nil, false, []step{{verdict: noteAttached}}},
		{"attached", wantedBy(true, "a"), actual(notMounted, nil), true, []step{{mount, "a"}}},
		{"mounted", wantedBy(true, "a"), actual(mounted, mounts{"a": mounted}), true, []step{{verdict: nothing}}},
		{"uncertain is mounted again", wantedBy(true, "a"), actual(mounted, mounts{"a": mountUncertain}), true, []step{{mount, "a"}}},
		{"second pod", wantedBy(true, "a", "b"), actual(mounted, mounts{"a": mounted}), true, []step{{mount, "b"}}},
		{
			"one pod goes, another comes", wantedBy(true, "b"), actual(mounted, mounts{"a": mounted}), true,
			[]step{{unmount, "a"}, {mount, "b"}},
		},
		{
			"all pods go", nil, actual(mounted, mounts{"b": mounted, "a": mountUncertain}), true,
			[]step{{unmount, "a"}, {unmount, "b"}},
		},
		{"device is left", nil, actual(mounted, nil), true, []step{{verdict: unmountDevice}}},
		{"device is uncertain", nil, actual(mountUncertain, nil), true, []step{{verdict: unmountDevice}}},
		{"all is unmounted", nil, actual(notMounted, nil), true, []step{{verdict: forget}}},
		{"wanted no more before it was here", nil, nil, false, []step{{verdict: forget}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := decide(tt.wanted, tt.actual, tt.attached)
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
		err    error
		want   mountState
	}{
		{notMounted, nil, mounted},
		{mountUncertain, nil, mounted},
		{notMounted, errors.New("final"), notMounted},
		{mountUncertain, errors.New("final"), notMounted},
		{notMounted, classed(plugins.Uncertain), mountUncertain},
		{notMounted, classed(plugins.Transient), notMounted},
		{mountUncertain, classed(plugins.Transient), mountUncertain},
		{mounted, errors.New("final"), mounted}, // a remount
		{mounted, classed(plugins.Uncertain), mounted},
	}
	for _, tt := range tests {
		if got := after(tt.before, tt.err); got != tt.want {
			t.Errorf("after(%v, %v) = %v, want %v", tt.before, tt.err, got, tt.want)
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
		Containers:     []corev1.Container{mounts("data", "seed"), {VolumeDevices: []corev1.VolumeDevice{{Name: "raw"}}}},
		Volumes:        []corev1.Volume{{Name: "unused"}},
	}}
	if diff := cmp.Diff([]string{"data", "raw", "seed"}, sets.List(usedVolumes(pod))); diff != "" {
		t.Errorf("used volumes (-want +got):\n%s", diff)
	}
}
