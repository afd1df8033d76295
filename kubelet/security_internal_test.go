package kubelet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/kubelet/container"
)

func TestSetSecurity(t *testing.T) {
	pod := &corev1.PodSecurityContext{
		RunAsUser: ptr.To[int64](1), RunAsGroup: ptr.To[int64](2), FSGroup: ptr.To[int64](3), SupplementalGroups: []int64{4, 5},
	}
	for _, tt := range []struct {
		name string
		pod  *corev1.PodSecurityContext
		c    *corev1.SecurityContext
		want container.Spec
	}{
		{"none", nil, nil, container.Spec{}},
		{"pod", pod, nil, container.Spec{User: 1, Group: 2, Groups: []int64{4, 5, 3}}},
		{"container", nil, &corev1.SecurityContext{RunAsUser: ptr.To[int64](7)}, container.Spec{User: 7}},
		{"both", pod, &corev1.SecurityContext{RunAsUser: ptr.To[int64](7)}, container.Spec{User: 7, Group: 2, Groups: []int64{4, 5, 3}}},
		{"root again", pod, &corev1.SecurityContext{RunAsUser: ptr.To[int64](0), RunAsGroup: ptr.To[int64](0)}, container.Spec{Groups: []int64{4, 5, 3}}},
		{
			"flags", nil, &corev1.SecurityContext{Privileged: ptr.To(true), ReadOnlyRootFilesystem: ptr.To(true)},
			container.Spec{Privileged: true, ReadOnly: true},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got container.Spec
			setSecurity(&got, tt.pod, tt.c)
			testcheck.Equal(t, "specification", tt.want, got)
		})
	}
	testcheck.Equal(t, "groups of the pod", []int64{4, 5}, pod.SupplementalGroups)
}
