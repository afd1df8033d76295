package executor

// DefaultLimit, Backoff and OutcomeOf are exported for the tests.
const DefaultLimit = defaultLimit

var (
	Backoff   = backoff
	OutcomeOf = outcomeOf
)

// The names of operations that the tests use.
const (
	Attach         = "volume_attach"
	Detach         = "volume_detach"
	VerifyAttached = "verify_volumes_are_attached_per_node"
)
