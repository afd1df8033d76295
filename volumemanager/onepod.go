package volumemanager

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// errOnePod says that another pod has a ReadWriteOncePod volume.
//
// Upstream: pkg/volume/util/operationexecutor GenerateMountVolumeFunc, GenerateMapVolumeFunc
// (v1.36).
var errOnePod = errors.New("volume uses the ReadWriteOncePod access mode and is already in use by another pod")

// checkOnePod returns an error if a pod cannot have a volume since it is ReadWriteOncePod, and
// another pod has it or may have it.
//
// Differs: an inline volume has no access modes; upstream's check panics there.
func (v *actualVolume) checkOnePod(pod types.UID, spec *plugins.Spec) error {
	if modes := spec.AccessModes(); len(modes) != 1 || modes[0] != corev1.ReadWriteOncePod {
		return nil // with several modes, the one that the pod means is unknown
	}
	for other := range v.pods {
		if other != pod {
			return errOnePod
		}
	}
	return nil
}
