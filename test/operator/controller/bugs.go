package controller

// A Bug is a defect of the reconciler that tests plant. Each is marked where it is.
type Bug string

// The bugs. None is the correct operator.
const (
	None Bug = ""

	// DoubleCreate generates the names of claims, and creates one unless the cache has it.
	DoubleCreate Bug = "double-create"

	// GrowthLost compares spec.storage with the recorded size, not with each claim.
	GrowthLost Bug = "growth-lost"

	// ClaimBeforePod takes a terminating pod for one that is gone, and deletes its claim.
	ClaimBeforePod Bug = "claim-before-pod"

	// LeakAtDeletion deletes the claims that the cache has, and then removes the finalizer.
	LeakAtDeletion Bug = "leak-at-deletion"

	// OrphanAfterCrash generates the names of claims, and records each one after the claim is created.
	OrphanAfterCrash Bug = "orphan-after-crash"

	// SwallowedConflict leaves it to the next event to reconcile again after a conflict.
	SwallowedConflict Bug = "swallowed-conflict"

	// DroppedEvent filters the events of claims by their generation, which claims do not have.
	DroppedEvent Bug = "dropped-event"
)

// Bugs lists the bugs.
var Bugs = []Bug{DoubleCreate, GrowthLost, ClaimBeforePod, LeakAtDeletion, OrphanAfterCrash, SwallowedConflict, DroppedEvent}
