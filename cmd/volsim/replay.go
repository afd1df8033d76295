package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
)

type replayOptions struct {
	trace   bool
	picture pictureOptions
}

func newReplay() *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Run a saved failure again, and tell its story",
		Long: "replay runs a scenario once, under the schedule in its file, and tells in numbered steps what happens. It says whether\n" +
			"the rule that the file names is broken still. A scenario without a schedule, or one from the book by its name, takes\n" +
			"the ordinary course.\n\n" + pictureHelp + "\n\n" +
			"Exit status: 0 nothing is broken, 1 a rule is, 2 the command line or the file is wrong.",
		Example: "  volsim replay two-claims-one-volume-I2-0a1b2c3d.txt\n  volsim replay one-pod-life --trace\n" +
			"  volsim replay pod-moves --svg pod-moves.svg --picture timeline",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(fmt.Errorf("want one FILE"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return replay(cmd, args[0], o) },
	}
	cmd.Flags().BoolVar(&o.trace, "trace", false, "print the whole trace first, the set-up included")
	o.picture.addFlags(cmd)
	return cmd
}

func replay(cmd *cobra.Command, name string, o replayOptions) error {
	if err := o.picture.validate(cmd); err != nil {
		return usage(err)
	}
	s, err := loadScenario(name)
	if err != nil {
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
		return usage(err)
	}
	if r.Failure != nil {
		return exitError{status: 1}
	}
	return nil
}

// outcome says how what was found compares with what the file says.
func outcome(s *scenario.Scenario, r *scenario.Result) string {
	rule, words := scenario.RuleID(r.Failure), ""
	switch {
	case s.Violates == "" && rule == "":
		words = "no rule is broken, as the file says"
	case s.Violates == "":
		words = rule + " is broken; the file says nothing of that"
	case rule == s.Violates:
		words = rule + " is still broken"
	case rule == "":
		words = s.Violates + " is not broken any more"
	default:
		words = fmt.Sprintf("%s is not broken any more, but %s is", s.Violates, rule)
	}
	if r.Mismatch != "" {
		words += "; the schedule does not fit this world any more: " + r.Mismatch
	}
	return words
}
