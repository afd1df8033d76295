package executor

import (
	"context"
	"errors"

	"github.com/volsim/volsim/plugins"
)

// An Operation is one piece of work on a volume. Run does the work in a task of its own and may
// leave the process. Done, which may be nil, processes the result in the process and must not leave
// it.
type Operation struct {
	Key  Key
	Name string // upstream's operation name, such as "volume_attach"
	Run  func(ctx context.Context) error
	Done func(outcome Outcome, err error)
}

// An Outcome is the result of an operation: what is known about the volume afterwards.
type Outcome int

// The outcomes.
const (
	Done      Outcome = iota // the operation succeeded
	Final                    // the operation had no effect and will have none
	Transient                // the operation did not start
	Uncertain                // the operation may have, or may still get, its effect
)

// String returns the outcome in lower case.
func (o Outcome) String() string {
	return [...]string{"done", "final", "transient", "uncertain"}[o]
}

// outcomeOf returns the outcome of an operation that ended with err: Done for nil, otherwise the
// class of the plugin's error. A panic is Uncertain.
func outcomeOf(err error) Outcome {
	var panicked *PanicError
	switch class := plugins.ClassOf(err); {
	case err == nil:
		return Done
	case errors.As(err, &panicked), class == plugins.Uncertain:
		return Uncertain
	case class == plugins.Transient:
		return Transient
	default:
		return Final
	}
}
