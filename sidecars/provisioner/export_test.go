package provisioner

// CloneFinalizer is exported for the tests.
const CloneFinalizer = cloneFinalizer

// ProvisionedFinalizer is exported for the tests.
const ProvisionedFinalizer = provisionedFinalizer
