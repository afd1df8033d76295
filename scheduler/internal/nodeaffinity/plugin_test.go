package nodeaffinity_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/scheduler/internal/framework"
	"github.com/volsim/volsim/scheduler/internal/nodeaffinity"
	"github.com/volsim/volsim/scheduler/internal/rowtest"
)

func construct(t *testing.T, row *rowtest.Row) (framework.Plugin, error) {
	t.Helper()
	var args nodeaffinity.Args
	row.Args(t, &args)
	return nodeaffinity.New(row.Handle(t), args)
}

// TestFilter has the rows of upstream.
func TestFilter(t *testing.T) { rowtest.Run(t, "filter.txt", construct) }

// TestScore has the rows of upstream.
func TestScore(t *testing.T) { rowtest.Run(t, "score.txt", construct) }

// TestHints has the rows of upstream.
func TestHints(t *testing.T) { rowtest.Run(t, "hints.txt", construct) }

func TestIdle(t *testing.T) {
	plugin, err := nodeaffinity.New(framework.Handle{}, nodeaffinity.Args{})
	if err != nil {
		t.Fatal(err)
	}
	rowtest.CheckIdle(t, plugin)
}

func TestInvalidArgs(t *testing.T) {
	invalid := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "?"}}}
	for name, added := range map[string]*corev1.NodeAffinity{
		"required": {RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{invalid},
		}},
		"preferred": {PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: invalid}}},
	} {
		if _, err := nodeaffinity.New(framework.Handle{}, nodeaffinity.Args{AddedAffinity: added}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
