//go:build !csi1.12

package cluster

import (
	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/blockcsi/health"
)

// newHealthServices returns the services of a driver with CSI 1.13's health calls.
func newHealthServices(driver *blockcsi.Driver) healthServices {
	return health.New(driver, health.Config{})
}
