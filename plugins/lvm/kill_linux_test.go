package lvm

import (
	"testing"

	"github.com/volsim/volsim/internal/blockcsi/blockcsitest"
)

// Each LVM command has a step before and after it, and so has each change in the kernel. With
// device-mapper this would take minutes in a guest; internal/lvm2 tests what a killed process
// leaves there.
func TestKilled(t *testing.T) {
	needLVM(t)
	if hasMapper() {
		t.Skip("where there is device-mapper, internal/lvm2 kills processes")
	}
	some := config(nil)
	// Staging copies of other file systems does not depend on the pool.
	some.Cases = []string{
		"create", "snapshot", "clone", "group", "group removal", "removal", "expansion",
		"use of a new ext4", "use of a larger copy of ext4",
	}
	some.Dir = quickDir
	blockcsitest.TestKilled(t, some)
}
