package sim

// HoldSteps is holdSteps, for tests.
const HoldSteps = holdSteps

// HangTimeout is hangTimeout, for tests.
const HangTimeout = hangTimeout
