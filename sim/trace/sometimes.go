package trace

import (
	"cmp"
	"context"
	"slices"
)

// A Condition is what a log has noted of the calls of Sometimes and Reachable with one name.
type Condition struct {
	Name  string
	Calls int
	Held  int // number of calls in which the condition held
}

// Sometimes notes whether a condition that should hold in some run held in this one, such as
// "a pod was deleted while its volume was attached". A search reports the names that never held:
// it has tested nothing that depends on them. It is for code that runs in a simulated world with a
// context derived from that of its task; in any other, such as in production, it does nothing. name
// is a constant. It is no action: it takes no step and is not part of the text of the log.
func Sometimes(ctx context.Context, name string, cond bool) {
	if log, ok := ctx.Value(logKey{}).(*Log); ok {
		log.Sometimes(name, cond)
	}
}

// Reachable notes that a statement was reached; see Sometimes. A search knows of a statement that is
// never reached if the scenario names it.
func Reachable(ctx context.Context, name string) { Sometimes(ctx, name, true) }

// logKey is the key of the log in a context.
type logKey struct{}

// NewContext returns a context from which Sometimes and Reachable note in the log.
func NewContext(ctx context.Context, log *Log) context.Context {
	return context.WithValue(ctx, logKey{}, log)
}

// Sometimes is [Sometimes] for code without a context, such as rules.
func (l *Log) Sometimes(name string, cond bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, found := slices.BinarySearchFunc(l.conditions, name, func(c Condition, name string) int { return cmp.Compare(c.Name, name) })
	if !found {
		l.conditions = slices.Insert(l.conditions, i, Condition{Name: name})
	}
	l.conditions[i].Calls++
	if cond {
		l.conditions[i].Held++
	}
}

// Conditions returns what Sometimes and Reachable have noted, by name. The caller owns the slice.
func (l *Log) Conditions() []Condition {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.conditions)
}
