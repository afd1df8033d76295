package volumemanager

// reconstruct finds on the disk what the kubelet before this one mounted, or may have.
//
// Upstream: pkg/kubelet/volumemanager/reconciler reconstructVolumes (v1.36).
func (m *Manager) reconstruct() {}
