package provisioner

// CloneFinalizer is exported for the tests.
const CloneFinalizer = cloneFinalizer

// Grants is exported for the tests.
var Grants = grants.Resource

// ProvisionedFinalizer is exported for the tests.
const ProvisionedFinalizer = provisionedFinalizer
