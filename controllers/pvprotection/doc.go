// Package pvprotection keeps PersistentVolumes that are bound from vanishing: it takes the finalizer
// kubernetes.io/pv-protection off a volume that is being deleted once the volume's phase is not Bound any more, and puts it
// on volumes that came without.
//
// It decides from its cache alone. That is safe, since a volume that changed meanwhile makes the write conflict.
//
// Upstream: pkg/controller/volume/pvprotection (v1.36.3).
package pvprotection
