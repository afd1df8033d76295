package nodeports_test

import (
	"testing"

	"github.com/volsim/volsim/scheduler/internal/framework"
	"github.com/volsim/volsim/scheduler/internal/nodeports"
	"github.com/volsim/volsim/scheduler/internal/rowtest"
)

func construct(t *testing.T, row *rowtest.Row) (framework.Plugin, error) {
	return nodeports.New(row.Handle(t)), nil
}

// TestFilter has the rows of upstream.
func TestFilter(t *testing.T) { rowtest.Run(t, "filter.txt", construct) }

// TestHints has the rows of upstream.
func TestHints(t *testing.T) { rowtest.Run(t, "hints.txt", construct) }

func TestIdle(t *testing.T) { rowtest.CheckIdle(t, nodeports.New(framework.Handle{})) }
