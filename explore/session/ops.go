package session

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/apirequest"
	"github.com/volsim/volsim/sim"
)

// Ops are the operations of a session, one per line:
//
//	components: pvcontroller   a line of a scenario, before all other operations: a header, a user with
//	                           acts, a schedule. Users are tasks of the world. Its steps follow the
//	                           schedule, except for held tasks and tasks that a step names
//	create claim data 1Gi      any act of package scenario. It takes effect at once. "wait claim data
//	                           Bound" runs the world until then, "pass 5m" sets the clock. A manifest
//	                           of "apply" may have several lines. Relative paths of "apply" and of
//	                           the header "definitions" begin in the working directory
//	step                       runs the next task in the default order
//	step 5                     … five times
//	step TASK                  runs this task, such as "step pvcontroller/cache persistentvolumes"
//	step TASK#2                runs the second of several tasks of this name, as [Session.Next] numbers them
//	until VERB [COMPONENT]     runs the world until a call with this verb was made: until NodeStageVolume
//	settle                     … until no task can run without advancing the clock, except held ones
//	rest                       … until no task can run, except held ones
//	hold COMPONENT|TASK        runs it only when a step names it
//	release COMPONENT|TASK     ends a hold
//	fail FAULT [COMPONENT|VERB]  makes the next possible call fail, of that component, with that verb, or
//	                           any: conflict, refused, lost, hang, driver CODE, driver-lost CODE
//	crash COMPONENT …          or any other event of a world: see [cluster.EventKinds]
//	# words                    a comment
type Ops []string

// New returns a list of operations.
func New(ops ...string) Ops { return ops }

// Then returns a new list with further operations at its end.
func (o Ops) Then(ops ...string) Ops { return slices.Concat(o, ops) }

// Play creates a world and performs the operations. The caller must close the session. The error
// names the operation that is invalid or failed.
func (o Ops) Play() (*Session, error) {
	world, ops := o.Split()
	s, err := open(world)
	if err != nil {
		return nil, err
	}
	for _, op := range ops {
		if err := s.Do(op); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// WithoutSecrets returns the operations with the values of Secrets in API requests replaced, as they are
// shown and saved. The manifests of acts are their author's text and stay.
func (o Ops) WithoutSecrets() Ops {
	out := make(Ops, len(o))
	for i, op := range o {
		out[i] = public(op)
	}
	return out
}

// public returns an operation as it is shown: a request without secrets.
func public(op string) string {
	text, ok := strings.CutPrefix(strings.TrimSpace(op), "request ")
	if !ok {
		return op
	}
	q, err := apirequest.Parse(strings.TrimSpace(text))
	if err != nil {
		return op
	}
	return "request " + q.WithoutSecrets().String()
}

// Split returns the lines at the beginning that describe the world, as in a scenario, and the
// operations that follow. Comments before the first operation belong to the world.
func (o Ops) Split() (world, ops Ops) {
	inSection := false // indented lines belong to a user or to the schedule
	for i, line := range o {
		switch {
		case isComment(line), isHeader(line), inSection && strings.TrimLeft(line, " \t") != line:
		case isUser(line), strings.TrimSpace(line) == "schedule":
			inSection = true
		default:
			return o[:i], o[i:]
		}
	}
	return o, nil
}

// isUser reports whether a line begins the acts of a user.
func isUser(line string) bool { return strings.HasPrefix(line, "user ") }

// MustPlay is Play for a list that is known to be valid: it panics on an error.
func (o Ops) MustPlay() *Session {
	s, err := o.Play()
	if err != nil {
		panic(err)
	}
	return s
}

// isHeader reports whether a line is a header, such as "components: pvcontroller".
func isHeader(op string) bool {
	key, _, found := strings.Cut(op, ":")
	return found && !strings.ContainsAny(key, " \t\n")
}

func isComment(op string) bool {
	op = strings.TrimSpace(op)
	return op == "" || strings.HasPrefix(op, "#")
}

// An operation is a parsed operation.
type operation struct {
	verb      string // "step", "until", "settle", "rest", "hold", "release", "fail", "inject", "act"; "": a comment
	target    string // a task, a component, an event; of until, a verb
	component string // of until
	count     int    // of step
	act       scenario.Act
	// of fail
	fault sim.Fault
}

// parse parses an operation. The error names the invalid part.
func parse(text string) (operation, error) {
	if isComment(text) {
		return operation{}, nil
	}
	verb := strings.Fields(text)[0]
	rest := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), verb))
	switch {
	case verb == "step":
		return parseStep(rest)
	case (verb == "rest" || verb == "settle") && rest != "":
		return operation{}, fmt.Errorf("%s: unexpected %q", verb, rest)
	case verb == "rest" || verb == "settle":
		return operation{verb: verb}, nil
	case verb == "until":
		call, component, _ := strings.Cut(rest, " ")
		if call == "" {
			return operation{}, errors.New("want a call, such as until NodeStageVolume")
		}
		if err := checkCall(call); err != nil {
			return operation{}, err
		}
		return operation{verb: verb, target: call, component: strings.TrimSpace(component)}, nil
	case verb == "hold" || verb == "release":
		if rest == "" {
			return operation{}, fmt.Errorf("want a component or a task, such as %s pvcontroller", verb)
		}
		return operation{verb: verb, target: rest}, nil
	case verb == "fail":
		return parseFail(rest)
	case verb == "tick" || slices.Contains(cluster.EventKinds, verb):
		return operation{verb: "inject", target: strings.Join(strings.Fields(text), " ")}, nil
	}
	if !slices.Contains(actVerbs, verb) {
		return operation{}, fmt.Errorf("unknown operation %q (have %s, and events such as crash)", verb,
			strings.Join(slices.Concat(ownVerbs, actVerbs), ", "))
	}
	act, err := scenario.ParseAct(text)
	if err != nil { // Do names the operation
		return operation{}, errors.New(strings.TrimPrefix(err.Error(), fmt.Sprintf("act %q: ", text)))
	}
	return operation{verb: "act", act: act}, nil
}

func parseStep(rest string) (operation, error) {
	many, err := strconv.Atoi(rest)
	switch {
	case rest == "":
		return operation{verb: "step", count: 1}, nil
	case err != nil:
		return operation{verb: "step", target: rest, count: 1}, nil
	case many < 1:
		return operation{}, fmt.Errorf("step %d: want at least 1", many)
	default:
		return operation{verb: "step", count: many}, nil
	}
}

// parseFail parses "conflict pvcontroller" or "driver Unavailable".
func parseFail(rest string) (operation, error) {
	words := strings.Fields(rest)
	long := 1
	if len(words) > 1 && strings.HasPrefix(words[0], string(sim.FaultDriver)) {
		long = 2 // with its code
	}
	if len(words) < long || len(words) > long+1 {
		return operation{}, errors.New("want a fault and an optional component or verb, such as fail conflict pvcontroller")
	}
	fault, err := sim.ParseFault(strings.Join(words[:long], " "))
	if err != nil {
		return operation{}, err
	}
	return operation{verb: "fail", fault: fault, target: strings.Join(words[long:], "")}, nil
}

// ownVerbs are the verbs that are not those of acts.
var ownVerbs = []string{"step", "until", "settle", "rest", "hold", "release", "fail"}

// actVerbs are the verbs of the acts of package scenario.
var actVerbs = []string{"create", "apply", "patch", "delete", "set", "finish", "write", "read", "cordon", "uncordon", "wait", "pass", "disk", "lose", "limit", "let", "request"}
