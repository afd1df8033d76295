package definitions_test

import (
	"testing"

	"github.com/volsim/volsim/internal/definitions"
)

// The error of a program without package fake/crd names the import.
func TestNotLinked(t *testing.T) {
	err := definitions.Install(t.Context(), nil, []string{"config/crd"})
	const want = `the program has no schema code; add: import _ "github.com/volsim/volsim/fake/crd"`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
