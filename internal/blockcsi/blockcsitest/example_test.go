//go:build linux

package blockcsitest_test

import (
	"path/filepath"
	"testing"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/blockcsi/blockcsitest"
	"github.com/volsim/volsim/plugins/loop"
)

// t is that of your test.
var t *testing.T

// Describe a driver and test that volumes keep their data. The example needs root and loop devices,
// so it is only compiled.
func ExampleTestData() {
	open := func(dir string) (*loop.Driver, error) {
		return loop.New(loop.Config{Dir: filepath.Join(dir, "images")})
	}
	blockcsitest.TestData(t, blockcsitest.Config{
		Nodes: []string{"node-1", "node-2"},
		Open: func(dir string, _ func(string)) (*blockcsi.Driver, error) {
			driver, err := open(dir)
			if err != nil {
				return nil, err
			}
			return driver.Driver, nil
		},
		Close: func(dir string) error {
			driver, err := open(dir)
			if err != nil {
				return err
			}
			return driver.Close()
		},
		FSTypes: []string{"ext4", "block"},
	})
}
