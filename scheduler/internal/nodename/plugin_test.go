package nodename_test

import (
	"testing"

	"github.com/volsim/volsim/scheduler/internal/framework"
	"github.com/volsim/volsim/scheduler/internal/nodename"
	"github.com/volsim/volsim/scheduler/internal/rowtest"
)

func construct(t *testing.T, row *rowtest.Row) (framework.Plugin, error) {
	return nodename.New(row.Handle(t)), nil
}

// TestFilter has the rows of upstream.
func TestFilter(t *testing.T) { rowtest.Run(t, "filter.txt", construct) }

func TestIdle(t *testing.T) { rowtest.CheckIdle(t, nodename.New(framework.Handle{})) }
