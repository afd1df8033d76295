package sim

// HoldSteps is holdSteps, for tests.
const HoldSteps = holdSteps
