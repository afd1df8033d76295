//go:build csi1.12

package cluster

import "github.com/volsim/volsim/internal/blockcsi"

// newHealthServices returns nil: CSI 1.12 has no health calls, and drivers on block devices have no others. The module
// test/conformance builds this package with CSI 1.12, as the Kubernetes module requires.
func newHealthServices(*blockcsi.Driver) healthServices { return nil }
