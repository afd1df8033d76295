package nfs

// The deadlines, for tests.
const (
	RecycleMin    = recycleMin
	RecyclePerGiB = recyclePerGiB
)
