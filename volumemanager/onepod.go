package volumemanager

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// errOnePod says that another pod has a volume that is one pod's.
//
// Upstream: pkg/volume/util/operationexecutor GenerateMountVolumeFunc, GenerateMapVolumeFunc (v1.36).
var errOnePod = errors.New("volume uses the ReadWriteOncePod access mode and is already in use by another pod")

// checkOnePod tells why a pod cannot have a volume: it is for one pod only, and another one has it, or may have.
//
// Differs: a volume written out in a pod has no access modes; upstream's check panics there.
func (v *actualVolume) checkOnePod(pod types.UID, spec *plugins.Spec) error {
	if modes := spec.AccessModes(); len(modes) != 1 || modes[0] != corev1.ReadWriteOncePod {
		return nil // with several modes nobody knows which one a pod means
	}
	for other := range v.pods {
		if other != pod {
			return errOnePod
		}
	}
	return nil
}
