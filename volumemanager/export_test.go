package volumemanager

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"
)

// Unprocessed are the volumes of a pod, by their name in the pod, that could not be processed, and
// why.
func (m *Manager) Unprocessed(uid types.UID) map[string]string {
	if p, ok := m.desired.pods[uid]; ok {
		return maps.Clone(p.errors)
	}
	return nil
}
