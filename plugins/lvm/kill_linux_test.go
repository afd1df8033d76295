package lvm

import (
	"testing"

	"github.com/volsim/volsim/plugins/blockcsi/blockcsitest"
)

// Each command of LVM is a step before and after it, and so is each change of the
// kernel's. With device-mapper it would take minutes in a guest; what a killed
// process leaves there, nodefs/lvm2 tests.
func TestKilled(t *testing.T) {
	needLVM(t)
	if hasMapper() {
		t.Skip("where there is device-mapper, nodefs/lvm2 kills processes")
	}
	blockcsitest.Killed(t, subject(nil))
}
