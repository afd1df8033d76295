package noderesources_test

import (
	"testing"

	"github.com/volsim/volsim/scheduler/internal/noderesources"
	"github.com/volsim/volsim/scheduler/internal/rowtest"
)

var (
	fit      = rowtest.WithArgs(noderesources.NewFit)
	balanced = rowtest.WithArgs(noderesources.NewBalancedAllocation)
)

// TestFilter has the rows of upstream.
func TestFilter(t *testing.T) { rowtest.Run(t, "filter.txt", fit) }

// TestScore has the rows of upstream.
func TestScore(t *testing.T) { rowtest.Run(t, "score.txt", fit) }

// TestBalanced has the rows of upstream.
func TestBalanced(t *testing.T) { rowtest.Run(t, "balanced.txt", balanced) }

// TestHints has the rows of upstream.
func TestHints(t *testing.T) { rowtest.Run(t, "hints.txt", fit) }

// TestUnlimited has nodes that report no resources.
func TestUnlimited(t *testing.T) { rowtest.Run(t, "unlimited.txt", fit) }

// TestBalancedUnlimited has nodes that report no resources.
func TestBalancedUnlimited(t *testing.T) { rowtest.Run(t, "balancedunlimited.txt", balanced) }

// TestArgs has arguments that are not valid.
func TestArgs(t *testing.T) { rowtest.Run(t, "args.txt", fit) }

// TestBalancedArgs has arguments that are not valid.
func TestBalancedArgs(t *testing.T) { rowtest.Run(t, "balancedargs.txt", balanced) }

func TestIdle(t *testing.T) {
	rowtest.CheckIdle(t, fit)
	rowtest.CheckIdle(t, balanced)
}
