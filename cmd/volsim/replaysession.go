package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/internal/known"
)

// loadReplay returns the built-in scenario of that name, or the scenario or session in the file of
// that name. A file with operations is a session.
func loadReplay(ctx context.Context, name string) (*scenario.Scenario, session.Ops, error) {
	if s, err := scenario.Find(name); err == nil {
		return s, nil, nil
	}
	text, err := readFile(ctx, name)
	if err != nil {
		return nil, nil, usage(fmt.Errorf("unknown scenario %q (see volsim explore --list), and not a readable file: %w", name, err))
	}
	all := opsOf(string(text))
	if _, ops := all.Split(); len(ops) > 0 {
		return nil, all, nil
	}
	s, err := scenario.Parse(scenarioName(name), string(text))
	if err != nil {
		return nil, nil, usage(err)
	}
	if s, err = known.Restore(s); err != nil {
		return nil, nil, usage(err)
	}
	s.Dir = filepath.Dir(name)
	return s, nil, nil
}

// scenarioName returns the name of the scenario in a file.
func scenarioName(file string) string {
	return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
}

// replaySession repeats the operations of a saved session.
func replaySession(cmd *cobra.Command, file string, ops session.Ops, o replayOptions) (status int, err error) {
	s, err := playFile(cmd.Context(), file, ops)
	if err != nil {
		return 0, usage(err)
	}
	defer s.Close()
	out := cmd.OutOrStdout()
	if o.trace {
		fmt.Fprintln(out, s.Log().Text())
	}
	if !o.picture.replacesOutput() {
		fmt.Fprint(out, s.Story())
		fmt.Fprintln(out, sessionOutcome(ops, s))
	}
	records, options := s.Scene()
	if err := o.picture.draw(out, records, options); err != nil {
		return 0, usage(err)
	}
	if s.Violation() != nil {
		status = 1
	}
	return status, nil
}

// sessionOutcome compares a replayed session with the violation that its file names.
func sessionOutcome(ops session.Ops, s *session.Session) string {
	file := &scenario.Scenario{}
	for _, line := range ops {
		if rule, is := strings.CutPrefix(line, "violates:"); is {
			file.Violates = strings.TrimSpace(rule)
		}
	}
	result := &scenario.Result{}
	if v := s.Violation(); v != nil {
		result.Failure = v
	}
	return outcome(file, result)
}
