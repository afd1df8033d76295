package tainttoleration_test

import (
	"testing"

	"github.com/volsim/volsim/scheduler/internal/rowtest"
	"github.com/volsim/volsim/scheduler/internal/tainttoleration"
)

var construct = rowtest.WithoutArgs(tainttoleration.New)

// TestFilter has the rows of upstream.
func TestFilter(t *testing.T) { rowtest.Run(t, "filter.txt", construct) }

// TestScore has the rows of upstream.
func TestScore(t *testing.T) { rowtest.Run(t, "score.txt", construct) }

// TestHints has the rows of upstream.
func TestHints(t *testing.T) { rowtest.Run(t, "hints.txt", construct) }

func TestIdle(t *testing.T) { rowtest.CheckIdle(t, construct) }

// TestReadiness has nodes that are not ready.
func TestReadiness(t *testing.T) { rowtest.Run(t, "ready.txt", construct) }
