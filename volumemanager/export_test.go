package volumemanager

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"
)

// Unprocessed returns the volumes of a pod that could not be processed, by their name in the pod,
// with the reasons.
func (m *Manager) Unprocessed(uid types.UID) map[string]string {
	if p, ok := m.desired.pods[uid]; ok {
		return maps.Clone(p.errors)
	}
	return nil
}
