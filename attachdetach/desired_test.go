package attachdetach

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

func podOn(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

func wants(name, volume string) podVolume {
	spec := &plugins.Spec{Volume: &corev1.Volume{Name: name}}
	return podVolume{name: name, resolution: attachable, volume: corev1.UniqueVolumeName(volume), spec: spec}
}

// picture returns the desired state as text.
func picture(d *desiredStateOfWorld) []string {
	var lines []string
	for _, w := range d.All() {
		line := string(w.Volume) + " on " + string(w.Node) + " by"
		for _, pod := range w.Pods() {
			line += " " + pod.Name
		}
		lines = append(lines, line)
	}
	return lines
}

func check(t *testing.T, d *desiredStateOfWorld, want []string, changed []corev1.UniqueVolumeName,
	wantChanged ...corev1.UniqueVolumeName,
) {
	t.Helper()
	if diff := cmp.Diff(want, picture(d)); diff != "" {
		t.Errorf("desired (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantChanged, changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}

func TestDesiredFollowsPods(t *testing.T) {
	t.Parallel()
	d := newDesired()
	d.addNode("n1")
	a, b := podOn("a", "n1"), podOn("b", "n1")

	changed := d.setPod(a, []podVolume{wants("x", "v1"), wants("y", "v2"), wants("z", "v3")})
	check(t, d, []string{"v1 on n1 by a", "v2 on n1 by a", "v3 on n1 by a"}, changed, "v1", "v2", "v3")

	changed = d.setPod(b, []podVolume{wants("x", "v1"), wants("again", "v1")})
	check(t, d, []string{"v1 on n1 by a b", "v2 on n1 by a", "v3 on n1 by a"}, changed)

	// Volumes that cannot be resolved now stay, volumes that no longer need attaching are removed.
	changed = d.setPod(a, []podVolume{{name: "x"}, {name: "y", resolution: notAttachable}, wants("z", "v3")})
	check(t, d, []string{"v1 on n1 by a b", "v3 on n1 by a"}, changed, "v2")

	// All volumes of a pod are removed together (upstream's populator: one a minute).
	changed = d.deletePod(keyOf(a))
	check(t, d, []string{"v1 on n1 by b"}, changed, "v3")
	changed = d.deletePod(keyOf(b))
	check(t, d, nil, changed, "v1")
}

func TestDesiredDistinguishesPodsWithTheSameName(t *testing.T) {
	t.Parallel()
	d := newDesired()
	d.addNode("n1")
	d.addNode("n2")
	d.setPod(podOn("a", "n1"), []podVolume{wants("x", "v1")})
	next := podOn("a", "n2")
	next.UID = "another"
	changed := d.setPod(next, []podVolume{wants("x", "v1")})
	check(t, d, []string{"v1 on n2 by a"}, changed, "v1")
}

func TestDesiredKeepsANodeUntilItsPodsAreDeleted(t *testing.T) {
	t.Parallel()
	d := newDesired()
	if !d.addNode("n1") || d.addNode("n1") {
		t.Error("a node is reported as new more than once")
	}
	a := podOn("a", "n1")
	d.setPod(a, []podVolume{wants("x", "v1")})
	d.deleteNode("n1")
	if d.Managed("n1") || d.Get("v1", "n1") == nil {
		t.Error("a deleted node accepts no new pods and keeps its wanted volumes")
	}
	d.deletePod(keyOf(a))
	if len(d.nodes) != 0 {
		t.Errorf("remaining nodes: %v", d.nodes)
	}
	d.setPod(podOn("b", ""), nil)
	if len(d.pods) != 0 || len(d.volumes) != 0 {
		t.Errorf("remaining pods %v, volumes %v", d.pods, d.volumes)
	}
}
