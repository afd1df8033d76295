package lvm

import (
	"testing"

	"github.com/volsim/volsim/plugins/blockcsi/blockcsitest"
)

// Each command of LVM is a step before and after it, and so is each change of the
// kernel's. With device-mapper it would take minutes in a guest; what a killed
// process leaves there, internal/lvm2 tests.
func TestKilled(t *testing.T) {
	needLVM(t)
	if hasMapper() {
		t.Skip("where there is device-mapper, internal/lvm2 kills processes")
	}
	some := subject(nil)
	// How copies of other file systems are staged does not depend on the pool.
	some.Cases = []string{
		"create", "snapshot", "clone", "group", "group's removal", "removal", "growth",
		"use of a new ext4", "use of a larger copy of ext4",
	}
	some.Dir = quickDir
	blockcsitest.TestKilled(t, some)
}
