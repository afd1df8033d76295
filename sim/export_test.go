package sim

// HangTimeout is hangTimeout, for tests.
const HangTimeout = hangTimeout
