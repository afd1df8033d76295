package nodeaffinity_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/scheduler/internal/framework"
	"github.com/volsim/volsim/scheduler/internal/nodeaffinity"
	"github.com/volsim/volsim/scheduler/internal/rowtest"
)

var construct = rowtest.WithArgs(nodeaffinity.New)

// TestFilter has the rows of upstream.
func TestFilter(t *testing.T) { rowtest.Run(t, "filter.txt", construct) }

// TestScore has the rows of upstream.
func TestScore(t *testing.T) { rowtest.Run(t, "score.txt", construct) }

// TestHints has the rows of upstream.
func TestHints(t *testing.T) { rowtest.Run(t, "hints.txt", construct) }

func TestIdle(t *testing.T) { rowtest.CheckIdle(t, construct) }

func TestInvalidArgs(t *testing.T) {
	invalid := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "?"}}}
	for name, added := range map[string]*corev1.NodeAffinity{
		"required": {RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{invalid},
		}},
		"preferred": {PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: invalid}}},
	} {
		if _, err := nodeaffinity.New(framework.Handle{}, &configv1.NodeAffinityArgs{AddedAffinity: added}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
