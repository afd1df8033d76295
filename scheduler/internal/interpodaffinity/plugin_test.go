package interpodaffinity_test

import (
	"testing"

	"github.com/volsim/volsim/scheduler/internal/interpodaffinity"
	"github.com/volsim/volsim/scheduler/internal/rowtest"
)

var construct = rowtest.WithArgs(interpodaffinity.New)

// TestFilter has the rows of upstream.
func TestFilter(t *testing.T) { rowtest.Run(t, "filter.txt", construct) }

// TestPodChanges has the rows of upstream.
func TestPodChanges(t *testing.T) { rowtest.Run(t, "change.txt", construct) }

// TestScore has the rows of upstream.
func TestScore(t *testing.T) { rowtest.Run(t, "score.txt", construct) }

// TestHints has the rows of upstream.
func TestHints(t *testing.T) { rowtest.Run(t, "hints.txt", construct) }

// TestArgs has arguments that are not valid.
func TestArgs(t *testing.T) { rowtest.Run(t, "args.txt", construct) }

func TestIdle(t *testing.T) { rowtest.CheckIdle(t, construct) }
