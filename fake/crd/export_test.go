package crd

// Definitions is definitionsResource, for external tests.
const Definitions = definitionsResource
