package livenessprobe_test

import (
	"fmt"

	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/sidecars/livenessprobe"
)

// A driver in this process is probed.
func Example() {
	probe := livenessprobe.New(direct(array.New(array.Config{}).Identity(), nil), 0)
	fmt.Println(get(probe, "/healthz"))
	// Output: 200 ok
}
