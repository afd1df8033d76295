package attacher

import "errors"

// Upstream: external-attacher pkg/controller csi_handler (4.13.0), to the letter.
var (
	errBothSources = errors.New("both InlineCSIVolumeSource and PersistentVolumeName specified in VA source")
	errNoSource    = errors.New("neither InlineCSIVolumeSource nor PersistentVolumeName specified in VA source")
	errNoCSISource = errors.New("inline volume spec contains nil CSI source")
)
