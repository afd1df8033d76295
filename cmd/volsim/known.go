package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/cli"
	"github.com/volsim/volsim/internal/known"
)

type knownOptions struct {
	all    bool
	mended bool
	out    string
	quiet  bool
}

func newKnown() *cobra.Command {
	var o knownOptions
	cmd := &cobra.Command{
		Use:   "known [NAME]",
		Short: "List real bugs that the search finds, or search for one",
		Long: "known lists bugs that were reported for real projects, and how many schedules the search runs until it finds each.\n" +
			"With NAME, it searches for that bug and prints what happened as numbered steps. The failing schedule is saved as\n" +
			"a file for \"volsim replay\".\n\n" +
			"The code with a bug is written from its public report: a small reconciler, or a component of volsim with the\n" +
			"behaviour that was reported. The programs of those projects are not run. Each bug has a mended form (--mended),\n" +
			"which passes the same search.\n\n" +
			"Exit status: 0 found (with --mended: no failure), 1 not found (with --mended: failure), 2 invalid command line,\n" +
			"130 interrupted.",
		Example: "  volsim known\n" +
			"  volsim known cloudnativepg-10427\n" +
			"  volsim known cloudnativepg-10427 --mended\n" +
			"  volsim known --all",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1 || o.all && len(args) > 0:
				return usage(errors.New("expected at most one NAME, or --all"))
			case o.mended && !o.all && len(args) == 0:
				return usage(errors.New("--mended: expected a NAME, or --all"))
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, b := range known.Bugs() {
				names = append(names, b.Name)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(gcPercent) // each world becomes garbage when its schedule ends
			}
			switch {
			case o.all:
				return searchAllKnown(cmd, o)
			case len(args) == 0:
				listKnown(cmd.OutOrStdout(), o.quiet)
				return nil
			}
			return searchKnown(cmd, args[0], o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.all, "all", false, "search for all bugs; exit status 1 if one is not found")
	f.BoolVar(&o.mended, "mended", false, "search the mended code instead, which must pass")
	f.StringVar(&o.out, "out", ".", "`directory` for the saved failure")
	f.BoolVar(&o.quiet, "quiet", false, "omit the progress line; without NAME, print names only")
	return cmd
}

// Columns of the list of bugs.
const knownColumns = "%-24s  %-4s  %-16s  %-13s  %9s  %s\n"

// listKnown prints a line for each bug.
func listKnown(out io.Writer, namesOnly bool) {
	if !namesOnly {
		fmt.Fprintf(out, knownColumns, "NAME", "YEAR", "FOUND BY", "RULE", "SCHEDULES", "BUG")
	}
	for _, b := range known.Bugs() {
		if namesOnly {
			fmt.Fprintln(out, b.Name)
			continue
		}
		fmt.Fprintf(out, knownColumns, b.Name, fmt.Sprint(b.Year), b.FoundBy, b.Rule, fmt.Sprint(b.Result().Schedules), b.Title)
	}
}

// searchAllKnown searches for all bugs, or through all mended forms.
func searchAllKnown(cmd *cobra.Command, o knownOptions) error {
	out, failed := cmd.OutOrStdout(), 0
	bugs := known.Bugs()
	for _, b := range bugs {
		r, err := runKnown(cmd, b, o)
		if err != nil {
			return err
		}
		result := fmt.Sprintf("%s in schedule %d", b.Rule, r.Schedules)
		if problem := knownProblem(b, r, o.mended); problem != nil {
			failed++
			result = problem.Error()
		} else if o.mended {
			result = "no failure in " + pluralize(r.Schedules, "schedule")
		}
		fmt.Fprintf(out, "%-24s  %s\n", b.Name, result)
	}
	switch {
	case o.mended:
		fmt.Fprintf(out, "%d of %d pass\n", len(bugs)-failed, len(bugs))
	default:
		fmt.Fprintf(out, "%d of %d found\n", len(bugs)-failed, len(bugs))
	}
	if failed > 0 {
		return cli.Status(cli.Failure)
	}
	return nil
}

// runKnown searches for one bug.
func runKnown(cmd *cobra.Command, b known.Bug, o knownOptions) (explore.Report, error) {
	form := known.Broken
	if o.mended {
		form = known.Mended
	}
	p := newProgress(cmd.ErrOrStderr(), false, o.quiet)
	r, err := b.Search(cmd.Context(), form, explore.Config{Progress: p.report})
	p.end()
	return r, err
}

// knownProblem returns an error if a search did not end as it should.
func knownProblem(b known.Bug, r explore.Report, mended bool) error {
	switch {
	case !mended:
		return b.Missed(r)
	case r.Failure != nil:
		return fmt.Errorf("the mended code violates %s: %w", r.Failure.Scenario.Violates, r.Failure)
	}
	return nil
}

func searchKnown(cmd *cobra.Command, name string, o knownOptions) error {
	b, err := known.Find(name)
	if err != nil {
		return usage(err)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s: %s\n", b.Project, b.Title)
	fmt.Fprintf(out, "%s (%d, %s)\n\n%s\n\n", strings.Join(b.Reports(), "\n"), b.Year, b.FoundBy, wrap(b.What, textWidth(out), 0))
	r, err := runKnown(cmd, b, o)
	if err != nil {
		return err
	}
	if f := r.Failure; f != nil {
		fmt.Fprintf(out, "%s violates %s in schedule %d, %s:\n\n%s\n%s\n", b.Name, f.Scenario.Violates, f.Schedules,
			describeDeviations(len(f.Scenario.Schedule)), scenario.Story(f.Scenario, f.Result), f.Found())
		path, err := explore.Save(o.out, f)
		if err != nil {
			return fmt.Errorf("save the failure of %s: %w", b.Name, err)
		}
		fmt.Fprintf(out, "saved as %s, drawn in %s\n", path, f.Picture)
		if !o.mended {
			fmt.Fprintf(out, "replay: volsim replay %s\nwithout the bug: volsim known %s --mended\n", filepath.ToSlash(path), b.Name)
		}
	}
	switch problem := knownProblem(b, r, o.mended); {
	case problem != nil:
		fmt.Fprintln(out, problem)
		return cli.Status(cli.Failure)
	case o.mended:
		fmt.Fprintf(out, "the mended code: %s, no failure\n", pluralize(r.Schedules, "schedule"))
	}
	return nil
}
