package attachdetach

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins"
)

func TestMessagesAreUpstreams(t *testing.T) {
	t.Parallel()
	spec := &plugins.Spec{Volume: &corev1.Volume{Name: "v"}}
	pod := podOn("a", "n1")
	b, c, far := podOn("b", "n2"), podOn("c", "n2"), podOn("d", "n2")
	far.Namespace = "elsewhere"
	got := []string{
		attachedMessage(spec),
		attachFailedMessage(spec, errors.New("no")),
		multiAttachMessage(spec, pod, nil),
		multiAttachMessage(spec, pod, []*corev1.Pod{b, c}),
		multiAttachMessage(spec, pod, []*corev1.Pod{b, far}),
		multiAttachMessage(spec, pod, []*corev1.Pod{far}),
	}
	want := []string{
		`AttachVolume.Attach succeeded for volume "v" `,
		`AttachVolume.Attach failed for volume "v" : no`,
		`Multi-Attach error for volume "v" Volume is already exclusively attached to one node and can't be attached to another`,
		`Multi-Attach error for volume "v" Volume is already used by pod(s) b, c`,
		`Multi-Attach error for volume "v" Volume is already used by pod(s) b and 1 pod(s) in different namespaces`,
		`Multi-Attach error for volume "v" Volume is already used by 1 pod(s) in different namespaces`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
