package session

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/sim"
)

// Ops are the operations of a session, a line each:
//
//	parts: pvcontroller    what the world is made of, before all else: nodes:, parts:, volumes-per-node: and selinux:, as in
//	                       a scenario
//	create claim data 1Gi  what a user does: any act of package scenario. It takes effect at once; "wait claim data Bound"
//	                       moves the world until it is so, "pass 5m" sets the clock
//	step                   what comes next in the ordinary course happens
//	step 5                 … five times
//	step ACTOR             what this actor does next happens, such as "step pvcontroller/cache persistentvolumes"
//	until VERB [PART]      the world moves until a call with this verb has been made: until NodeStageVolume
//	settle                 … until nothing can happen before the clock moves, or only what is held
//	rest                   … until nothing is left to happen, or only what is held
//	hold PART|ACTOR        this is not moved any more, but by name
//	release PART|ACTOR     it is
//	fail FAULT [PART|VERB] the next call that can, of that part, with that verb, or any, goes wrong: conflict, refused, lost,
//	                       hang, driver CODE, driver-lost CODE
//	crash PART …           or whatever else can befall a world: see [cluster.EventKinds]
//	# words                nothing
type Ops []string

// New returns operations as a list.
func New(ops ...string) Ops { return ops }

// Then returns the list with further operations at its end; the list itself stays as it is.
func (o Ops) Then(ops ...string) Ops { return slices.Concat(o, ops) }

// Play makes a world and does what the list says. The caller closes the session. The error names the operation that is
// wrong, or went wrong.
func (o Ops) Play() (*Session, error) {
	headers := 0
	for headers < len(o) && (isHeader(o[headers]) || isComment(o[headers])) {
		headers++
	}
	s, err := open(o[:headers])
	if err != nil {
		return nil, err
	}
	for _, op := range o[headers:] {
		if err := s.Do(op); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// MustPlay is Play for a list that is known to be right: it panics where Play returns an error.
func (o Ops) MustPlay() *Session {
	s, err := o.Play()
	if err != nil {
		panic(err)
	}
	return s
}

// isHeader tells whether a line says what the world is made of: "parts: pvcontroller".
func isHeader(op string) bool {
	key, _, found := strings.Cut(op, ":")
	return found && !strings.Contains(key, " ")
}

func isComment(op string) bool {
	op = strings.TrimSpace(op)
	return op == "" || strings.HasPrefix(op, "#")
}

// operation is one that has been read.
type operation struct {
	verb      string // "step", "until", "settle", "rest", "hold", "release", "fail", "befall"; "act"; "": a comment
	target    string // an actor, a part, an event; of until, a verb
	component string // of until
	count     int    // of step
	act       scenario.Act
	// of fail
	fault sim.Fault
}

// parse reads an operation. The error says what is wrong.
func parse(text string) (operation, error) {
	if isComment(text) {
		return operation{}, nil
	}
	verb, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	rest = strings.TrimSpace(rest)
	switch {
	case verb == "step":
		return parseStep(rest)
	case (verb == "rest" || verb == "settle") && rest == "":
		return operation{verb: verb}, nil
	case verb == "until":
		call, part, _ := strings.Cut(rest, " ")
		if !isVerb(call) {
			return operation{}, fmt.Errorf("until: %q is no verb of a call, such as NodeStageVolume or update", call)
		}
		return operation{verb: verb, target: call, component: strings.TrimSpace(part)}, nil
	case verb == "hold" || verb == "release":
		if rest == "" {
			return operation{}, fmt.Errorf("%s: whom? Name a part or an actor", verb)
		}
		return operation{verb: verb, target: rest}, nil
	case verb == "fail":
		return parseFail(rest)
	case verb == "tick" || slices.Contains(cluster.EventKinds, verb):
		return operation{verb: "befall", target: strings.Join(strings.Fields(text), " ")}, nil
	}
	act, err := scenario.ParseAct(text)
	if err != nil {
		return operation{}, fmt.Errorf("%w (or step, until, settle, rest, hold, release, fail, or one of %s)", err, strings.Join(cluster.EventKinds, ", "))
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

// parseFail reads "conflict pvcontroller", "driver Unavailable".
func parseFail(rest string) (operation, error) {
	words := strings.Fields(rest)
	long := 1
	if len(words) > 1 && strings.HasPrefix(words[0], string(sim.FaultDriver)) {
		long = 2 // with its code
	}
	if len(words) < long || len(words) > long+1 {
		return operation{}, errors.New("fail: want a fault, and perhaps whose call: fail conflict pvcontroller")
	}
	fault, err := sim.ParseFault(strings.Join(words[:long], " "))
	if err != nil {
		return operation{}, fmt.Errorf("fail: %w", err)
	}
	return operation{verb: "fail", fault: fault, target: strings.Join(words[long:], "")}, nil
}

// isVerb tells whether a word can be what is asked of the API server or of a driver.
func isVerb(word string) bool {
	verb, _, _ := strings.Cut(word, "/")
	return slices.Contains([]string{"create", "get", "list", "update", "patch", "delete"}, verb) ||
		verb != "" && verb[0] >= 'A' && verb[0] <= 'Z'
}
