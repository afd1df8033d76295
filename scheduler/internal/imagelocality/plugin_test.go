package imagelocality_test

import (
	"testing"

	"github.com/volsim/volsim/scheduler/internal/imagelocality"
	"github.com/volsim/volsim/scheduler/internal/rowtest"
)

var construct = rowtest.WithoutArgs(imagelocality.New)

// TestScore has the rows of upstream.
func TestScore(t *testing.T) { rowtest.Run(t, "score.txt", construct) }

// TestNames has the names of images that nodes report otherwise than pods.
func TestNames(t *testing.T) { rowtest.Run(t, "names.txt", construct) }

func TestIdle(t *testing.T) { rowtest.CheckIdle(t, construct) }
