//go:build !linux

package rundir

import (
	"errors"
	"os"
)

var errUnsupported = errors.New("directories of runs need Linux")

func openLocked(string, bool) (*os.File, error) { return nil, errUnsupported }

func isPrivate(string) (bool, error) { return false, errUnsupported }

func thisProcess() (Process, error) { return Process{}, errUnsupported }

func (Process) isRunning() (bool, error) { return false, errUnsupported }

func endsSoon(int) bool { return false }
