package flexvolume

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// An attachment is a volume on a node.
type attachment struct {
	volume string
	node   types.NodeName
}

// Watched reports whether VolumeAttachments show attachments: they do not.
func (p attachable) Watched() bool { return false }

// LastSeen returns Detached if Verify said so and nothing was attached since.
func (p attachable) LastSeen(volumeName string, node types.NodeName) plugins.AttachState {
	if p.detached[attachment{volumeName, node}] {
		return plugins.Detached
	}
	return plugins.Attached
}

// Verify asks the program whether the volume is attached. That takes the options of the volume, so
// it is not supported for one of which only the name is known.
//
// Upstream: pkg/volume/flexvolume flexVolumeAttacher.VolumesAreAttached (v1.36).
func (p attachable) Verify(
	ctx context.Context, spec *plugins.Spec, volumeName string, node types.NodeName,
) (plugins.AttachState, error) {
	if spec == nil {
		return plugins.Changing, fmt.Errorf("verify volume %q by its name: %w", volumeName, plugins.ErrUnsupported)
	}
	options, err := driverOptions(spec, nil)
	if err != nil {
		return plugins.Changing, err
	}
	a, err := p.call(ctx, volumeName, callIsAttached, options, string(node))
	switch {
	case errors.Is(err, errNotSupported):
		return plugins.Changing, fmt.Errorf("%s: %w", callIsAttached, plugins.ErrUnsupported)
	case err != nil:
		return plugins.Changing, err
	case a.Attached:
		delete(p.detached, attachment{volumeName, node})
		return plugins.Attached, nil
	default:
		p.detached[attachment{volumeName, node}] = true
		return plugins.Detached, nil
	}
}
