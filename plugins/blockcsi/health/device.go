package health

// device is what the kernel knows of a device.
type device struct {
	sizeBytes int64
	fsErrors  int64 // errors of the file system on it that the kernel has noted
}

// mountPoint is where a device's file system is mounted.
type mountPoint struct {
	path string
	// readOnly is of this mount, deviceReadOnly of the file system.
	readOnly, deviceReadOnly bool
	// broken says that the kernel has stopped the file system after an error.
	broken bool
}

// isStopped tells whether the kernel lets nobody write to a file system that was
// mounted to be written to. Newer kernels say so; older ones make it read-only,
// which a mount that is meant to be read-only is as well.
func (p mountPoint) isStopped(attachedReadOnly bool) bool {
	return p.broken || (p.deviceReadOnly && !p.readOnly && !attachedReadOnly)
}
