package simtest

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"unicode"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/usercode"
)

// An origin is the test that a failure belongs to.
type origin struct {
	test  string // its name
	call  string // the function of this package that it called: "Check"
	place string // of the call, as FILE:LINE; "": unknown
}

// originOf returns the origin for a call of a function of this package, which calls originOf.
func originOf(t interface{ Name() string }, call string) origin {
	var callers [64]uintptr
	return origin{t.Name(), call, usercode.Place(callers[:runtime.Callers(3, callers[:])])}
}

// failureText returns the message of a failing test: the violation, in which schedule it was found,
// the scenario, the story, and how to replay it. file is the path of the saved failure, "" if there
// is none.
func (o origin) failureText(f *explore.Failure, file string) string {
	var b strings.Builder
	fmt.Fprintln(&b, f)
	if f.Schedules > 0 {
		fmt.Fprintln(&b, f.Found())
	}
	fmt.Fprintf(&b, "\n%s\n%s", f.Scenario, scenario.Story(f.Scenario, f.Result))
	if f.Result.Source != "" {
		fmt.Fprintf(&b, "source: %s\n", f.Result.Source)
	}
	fmt.Fprintf(&b, "schedule: %q\n", f.Scenario.Schedule)
	if f.Picture != "" {
		fmt.Fprintf(&b, "picture: %s\n", f.Picture)
	}
	if f.Scenario.File == "" || f.Scenario.OnlyInGo() { // the story has no replay command
		fmt.Fprintf(&b, "replay: %s\n", o.replayCommand(f.Scenario, file))
	}
	fmt.Fprintf(&b, "\nor paste this test into the package:\n\n%s", o.snippet(f.Scenario))
	return b.String()
}

// replayCommand returns how to replay a failure. The command line does not know the components of a
// test.
func (o origin) replayCommand(s *scenario.Scenario, file string) string {
	switch {
	case file != "" && s.OnlyInGo():
		return fmt.Sprintf("go test -run '^%s$' runs %s first", strings.ReplaceAll(o.test, "/", "$/^"), file)
	case s.OnlyInGo():
		return "the command line lacks " + strings.Join(goParts(s), ", ") + ": run the test, which saves the failure"
	case file == "":
		return "write the scenario to FILE and run: go run github.com/volsim/volsim/cmd/volsim replay FILE"
	default:
		return "go run github.com/volsim/volsim/cmd/volsim replay " + file
	}
}

// goParts names the parts of a scenario that its text lacks.
func goParts(s *scenario.Scenario) []string {
	var parts []string
	for _, c := range s.Extra {
		parts = append(parts, "component "+c.Name)
	}
	if s.Plugins != nil {
		parts = append(parts, "volume plugins")
	}
	for _, r := range s.OwnRules {
		parts = append(parts, "rule "+r.ID)
	}
	for _, u := range s.Users {
		if u.Script != nil {
			parts = append(parts, "script of "+u.Name)
		}
	}
	if s.Interceptors.Client != nil || s.Interceptors.Driver != nil {
		parts = append(parts, "interceptors")
	}
	return parts
}

// snippet returns a test that replays a failure. It compiles as it is. Of a scenario with parts that
// its text lacks it says where they are.
func (o origin) snippet(s *scenario.Scenario) string {
	var b strings.Builder
	fmt.Fprintf(&b, "func %s(t *testing.T) {\n\ts := simtest.Parse(t, %s)\n", testName(o.test), literal(s.String()))
	if !s.OnlyInGo() {
		b.WriteString("\tsimtest.Replay(t, s, \"\")\n}\n")
		return b.String()
	}
	from := "simtest." + o.call
	if o.place != "" {
		from += " at " + o.place
	}
	fmt.Fprintf(&b, "\tworld := s // replace s by the scenario of %s, which has: %s\n", from, strings.Join(goParts(s), ", "))
	if o.call == convergeCall {
		b.WriteString("\t// its rule converge compares with worlds that only the call makes: it runs the saved failure first\n")
	}
	if len(s.Drawn) > 0 {
		b.WriteString("\tvar workloads []simtest.Workload // those of the same call\n")
		b.WriteString("\tsimtest.Replay(t, s.WithGo(world), \"\", workloads...)\n}\n")
		return b.String()
	}
	b.WriteString("\tsimtest.Replay(t, s.WithGo(world), \"\")\n}\n")
	return b.String()
}

// testName returns the name of the test that replays a failure of another.
func testName(of string) string {
	of = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return '_'
	}, strings.TrimPrefix(of, "Test"))
	return "TestReplayOf" + of
}

// literal returns a Go string literal, if possible a raw one whose lines may be indented.
func literal(text string) string {
	if strings.Contains(text, "`") {
		return strconv.Quote(text)
	}
	return "`\n" + text + "`"
}
