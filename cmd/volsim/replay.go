package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/cli"
)

type replayOptions struct {
	trace   bool
	picture pictureOptions
}

func newReplay() *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Replay a saved failure and print its story",
		Long: "replay runs a scenario once, under the schedule in its file, and prints the run as numbered steps. It reports whether\n" +
			"the rule named in the file is still violated. A scenario without a schedule, or a built-in scenario, runs in the\n" +
			"default order. FILE may also be a saved session or page, whose operations are repeated.\n\n" + pictureHelp + "\n\n" +
			"Exit status: 0 no invariant violated, 1 invariant violated, 2 invalid command line or file.",
		Example: "  volsim replay two-claims-one-volume-I2-0a1b2c3d.txt\n  volsim replay one-pod-life --trace\n" +
			"  volsim replay pod-moves --svg pod-moves.svg --picture timeline",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(fmt.Errorf("expected one FILE"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return replay(cmd, args[0], o) },
	}
	cmd.Flags().BoolVar(&o.trace, "trace", false, "print the whole trace first, including the setup")
	o.picture.addFlags(cmd)
	return cmd
}

func replay(cmd *cobra.Command, name string, o replayOptions) error {
	if err := o.picture.validate(cmd); err != nil {
		return usage(err)
	}
	s, ops, err := loadReplay(cmd.Context(), name)
	if err != nil {
		return err
	}
	if ops != nil {
		status, err := replaySession(cmd, name, ops, o)
		if err == nil && status != 0 {
			return cli.Status(status)
		}
		return err
	}
	r, err := explore.Replay(cmd.Context(), s)
	if err != nil {
		return usage(err)
	}
	out := cmd.OutOrStdout()
	if o.trace {
		fmt.Fprintln(out, r.Trace.Text())
	}
	if !o.picture.replacesOutput() {
		fmt.Fprint(out, scenario.Story(s, r))
		fmt.Fprintln(out, outcome(s, r))
	}
	if err := o.picture.draw(out, r.Trace.Records(), scenario.Picture(s, r)); err != nil {
		return err
	}
	if r.Failure != nil {
		return cli.Status(cli.Failure)
	}
	return nil
}

// outcome compares the result of a run with the violation that the file names.
func outcome(s *scenario.Scenario, r *scenario.Result) string {
	rule, words := scenario.RuleID(r.Failure), ""
	switch {
	case s.Violates == "" && rule == "":
		words = "no invariant violated, as expected by the file"
	case s.Violates == "":
		words = rule + " violated; the file does not expect a violation"
	case rule == s.Violates:
		words = rule + " is still violated"
	case rule == "":
		words = s.Violates + " is no longer violated"
	default:
		words = fmt.Sprintf("%s is no longer violated, but %s is", s.Violates, rule)
	}
	if r.Mismatch != "" {
		words += "; the schedule no longer fits this world: " + r.Mismatch
	}
	return words
}
