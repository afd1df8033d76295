package csireq

// A Condition is a problem of a volume or of its storage, as the health calls of CSI 1.13 report
// it.
type Condition struct {
	// Status is the name of a VolumeHealthErrorType for a volume, and of a StorageHealthErrorType
	// for the storage. CSI 1.12 has neither type.
	Status string
	// Reason is for programs, in CamelCase, Message for people.
	Reason, Message string
}
