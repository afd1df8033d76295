package replicaset

// Conversions, for the tests of the whole controller.
var (
	ToSet   = toSet
	FromSet = fromSet
)
