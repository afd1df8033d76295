package nodename_test

import (
	"testing"

	"github.com/volsim/volsim/scheduler/internal/nodename"
	"github.com/volsim/volsim/scheduler/internal/rowtest"
)

var construct = rowtest.WithoutArgs(nodename.New)

// TestFilter has the rows of upstream.
func TestFilter(t *testing.T) { rowtest.Run(t, "filter.txt", construct) }

func TestIdle(t *testing.T) { rowtest.CheckIdle(t, construct) }
