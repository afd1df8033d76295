package health

// device is the kernel's information about a device.
type device struct {
	sizeBytes int64
	fsErrors  int64 // errors that the kernel has counted in its file system
}

// mountPoint is a mount of a device's file system.
type mountPoint struct {
	path string
	// readOnly is set for this mount, deviceReadOnly for the whole file system.
	readOnly, deviceReadOnly bool
	// broken means that the kernel has stopped the file system after an error.
	broken bool
}

// isStopped reports whether the kernel refuses writes to a file system that was mounted writable.
// Newer kernels report that. Older ones make it read-only, as is a mount that was requested
// read-only.
func (p mountPoint) isStopped(attachedReadOnly bool) bool {
	return p.broken || (p.deviceReadOnly && !p.readOnly && !attachedReadOnly)
}
