package plugins

import (
	"context"
	"time"
)

// Limiter is offered, to a kubelet, by attachers whose volumes may not all find a place on its node.
//
// Upstream: pkg/volume AttachableVolumePlugin.VerifyExhaustedResource (v1.36).
type Limiter interface {
	// Limited tells whether it makes sense to ask why a volume is not attached. It asks nobody.
	Limited(spec *Spec) bool
	// Exhausted tells whether a volume is not attached because the node was found to have no place for it after a time. It also
	// has others learn how many places there are by now.
	Exhausted(ctx context.Context, spec *Spec, since time.Time) (bool, error)
}
