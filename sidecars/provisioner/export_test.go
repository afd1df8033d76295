package provisioner

// CloneFinalizer is exported for the tests.
const CloneFinalizer = cloneFinalizer
