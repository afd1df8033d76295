package tainttoleration_test

import (
	"testing"

	"github.com/volsim/volsim/scheduler/internal/framework"
	"github.com/volsim/volsim/scheduler/internal/rowtest"
	"github.com/volsim/volsim/scheduler/internal/tainttoleration"
)

func construct(t *testing.T, row *rowtest.Row) (framework.Plugin, error) {
	return tainttoleration.New(row.Handle(t)), nil
}

// TestFilter has the rows of upstream.
func TestFilter(t *testing.T) { rowtest.Run(t, "filter.txt", construct) }

// TestScore has the rows of upstream.
func TestScore(t *testing.T) { rowtest.Run(t, "score.txt", construct) }

// TestHints has the rows of upstream.
func TestHints(t *testing.T) { rowtest.Run(t, "hints.txt", construct) }

func TestIdle(t *testing.T) { rowtest.CheckIdle(t, tainttoleration.New(framework.Handle{})) }

// TestReadiness has nodes that are not ready.
func TestReadiness(t *testing.T) { rowtest.Run(t, "ready.txt", construct) }
