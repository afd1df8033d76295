package trace

// ParseLine is exported for the tests.
var ParseLine = parseLine
