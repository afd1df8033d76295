package nodeunschedulable_test

import (
	"testing"

	"github.com/volsim/volsim/scheduler/internal/nodeunschedulable"
	"github.com/volsim/volsim/scheduler/internal/rowtest"
)

var construct = rowtest.WithoutArgs(nodeunschedulable.New)

// TestFilter has the rows of upstream.
func TestFilter(t *testing.T) { rowtest.Run(t, "filter.txt", construct) }

// TestHints has the rows of upstream.
func TestHints(t *testing.T) { rowtest.Run(t, "hints.txt", construct) }

func TestIdle(t *testing.T) { rowtest.CheckIdle(t, construct) }
