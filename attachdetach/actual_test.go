package attachdetach

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins"
)

func TestActualKeepsSpecAndDevicePathOfEachAttachment(t *testing.T) {
	t.Parallel()
	w := newActual()
	spec := &plugins.Spec{Volume: &corev1.Volume{Name: "x"}}
	w.markAttached("v", "n1", spec, "/dev/a")
	w.markAttached("v", "n2", nil, "/dev/b")
	if diff := cmp.Diff([]corev1.AttachedVolume{{Name: "v", DevicePath: "/dev/a"}},
		w.reportedVolumes("n1")); diff != "" {
		t.Errorf("reported for n1 (-want +got):\n%s", diff)
	}
	if w.get("v", "n1").Spec != spec || w.get("v", "n2").Spec != nil {
		t.Error("specs were mixed up")
	}
}

func TestActualStates(t *testing.T) {
	t.Parallel()
	w := newActual()
	type row struct {
		State    attachState
		Reported bool
	}
	see := func() row {
		a := w.get("v", "n")
		if a == nil {
			return row{}
		}
		return row{a.State, a.Reported}
	}
	for _, step := range []struct {
		name string
		do   func()
		want row
	}{
		{"attach failed", func() { w.addUncertain("v", "n", nil) }, row{stateUncertain, false}},
		{"uncertain is not reported again", func() { w.get("v", "n").markReported() }, row{stateUncertain, false}},
		{"attached", func() { w.markAttached("v", "n", nil, "/dev/a") }, row{stateAttached, true}},
		{"found attached by another attach", func() { w.addUncertain("v", "n", nil) }, row{stateAttached, true}},
		{
			"detach rejected",
			func() { w.get("v", "n").Reported = false; w.get("v", "n").markReported() },
			row{stateAttached, true},
		},
		{"detach failed", func() { w.markUncertain("v", "n") }, row{stateUncertain, false}},
		{"detached", func() { w.markDetached("v", "n") }, row{stateDetached, false}},
	} {
		step.do()
		if diff := cmp.Diff(step.want, see()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
	if len(w.volumes) != 0 || len(w.nodes) != 0 {
		t.Errorf("remaining: %v %v", w.volumes, w.nodes)
	}
}

func TestActualReturnsChangedUse(t *testing.T) {
	t.Parallel()
	w := newActual()
	w.markAttached("v1", "n", nil, "")
	w.markAttached("v2", "n", nil, "")
	w.setInUse("n", "9", []corev1.UniqueVolumeName{"v1", "other"})
	var got []corev1.UniqueVolumeName
	for _, a := range w.setInUse("n", "10", []corev1.UniqueVolumeName{"v2"}) {
		got = append(got, a.Volume)
	}
	if diff := cmp.Diff([]corev1.UniqueVolumeName{"v1", "v2"}, got); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	if w.InUse("v1", "n") || !w.InUse("v2", "n") {
		t.Error("the use was not recorded")
	}
	if changed := w.setInUse("n", "9", []corev1.UniqueVolumeName{"v1"}); len(changed) > 0 || w.InUse("v1", "n") {
		t.Error("a response that arrived late replaced a newer state")
	}
	if w.setInUse("n", "", []corev1.UniqueVolumeName{"v1", "v2"}); !w.InUse("v1", "n") {
		t.Error("an assumed use was not recorded")
	}
	w.forgetNode("n")
	if !w.InUse("v2", "n") {
		t.Error("a node with attachments was removed")
	}
}
