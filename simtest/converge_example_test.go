package simtest_test

import (
	"fmt"

	"github.com/volsim/volsim/simtest"
)

// The schema of vaults says which changes a user can make. Whatever they are, the operator ends in the
// state that its last spec describes.
func ExampleCustomResource() {
	user := simtest.CustomResource{
		Definition: "testdata/vaults.yaml",
		Object:     "testdata/vault.yaml",
		Paths:      []string{"spec.mode", "spec.users"},
		Changes:    2,
	}
	user.Converge(t, vaultWorld(noBug), simtest.Budget{Schedules: 1})
	fmt.Println(t.Failed())
	// Output: false
}
