package scenario

// ErrNoScenario is exported for the tests.
var ErrNoScenario = errNoScenario
