package executor

// DefaultLimit, Backoff and OutcomeOf are exported for the tests.
const DefaultLimit = defaultLimit

var (
	Backoff   = backoff
	OutcomeOf = outcomeOf
)
