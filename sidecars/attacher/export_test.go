package attacher

// FinalizerName is exported for the tests.
var FinalizerName = finalizerName
