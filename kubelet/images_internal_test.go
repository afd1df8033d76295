package kubelet

import (
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
)

// TestImageArgs are what containers without a command execute.
func TestImageArgs(t *testing.T) {
	for _, c := range []struct {
		image string
		args  []string
		want  []string
	}{
		{"busybox", nil, []string{"sh"}},
		{"registry.example.com:5000/e2e/busybox:1.37@sha256:0", []string{"echo", "a"}, []string{"echo", "a"}},
		{"agnhost:2.63", nil, []string{"agnhost", "pause"}},
		{"e2e/agnhost", []string{"mounttest"}, []string{"agnhost", "mounttest"}},
		{"nginx", nil, nil},
		{"nginx", []string{"-g", "daemon off;"}, nil},
		{"busybox/nginx", nil, nil},
	} {
		testcheck.Equal(t, c.image, c.want, imageArgs(c.image, c.args))
	}
}
