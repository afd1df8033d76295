package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/sim"
)

type exploreOptions struct {
	strategy  string
	depth     int
	count     int
	seed      uint64
	faults    string
	noFaults  bool
	restarts  bool
	rule      string
	keepGoing bool
	shard     string
	states    bool
	out       string
	json      bool
	quiet     bool
	list      bool
}

func newExplore() *cobra.Command {
	var o exploreOptions
	cmd := &cobra.Command{
		Use:   "explore SCENARIO",
		Short: "Look for the order of events in which a small world goes wrong",
		Long: "explore runs a scenario under one schedule after the other: who is moved next, who is held back, what crashes, which\n" +
			"call fails. Every rule is checked at every step. SCENARIO is a name from the built-in book (see --list) or a file.\n\n" +
			"The first schedule that breaks a rule is shortened, told as a story, and saved as a file that \"volsim replay\" runs.\n" +
			"The same command finds the same failure: nothing depends on the machine.\n\n" +
			"Strategies: portfolio (from the simplest schedules to drawn ones), holds (every schedule with at most --depth actors\n" +
			"held back), restarts (one part crashes, at each of its calls), faults (one call fails, each of them), exhaustive\n" +
			"(every order of events, or with --depth every one with so many deviations), and pct, pos and random (drawn).\n\n" +
			"Exit status: 0 no failure, 1 a failure was found, 2 the command line or the scenario is wrong, 130 interrupted.",
		Example: "  volsim explore --list\n" +
			"  volsim explore two-claims-two-volumes --strategy holds --depth 2\n" +
			"  volsim explore one-pod-life --faults 'conflict(0.1), crash(pvcontroller, 1)' --count 100000\n" +
			"  volsim explore pod-moves --strategy random --shard 2/8 --out failures",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || o.list == (len(args) == 1) {
				return usage(errors.New("want one SCENARIO, or --list"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.list {
				listScenarios(cmd.OutOrStdout(), o.quiet)
				return nil
			}
			return exploreScenario(cmd, args[0], o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.strategy, "strategy", string(explore.Portfolio), "how to search: "+strategies())
	f.IntVar(&o.depth, "depth", 0, "holds, portfolio: how many holds at most (default 1); exhaustive: how many deviations (default any\nnumber); pct: its depth (default 3)")
	f.IntVar(&o.count, "count", explore.SchedulesMax, "how many schedules to run at most")
	f.Uint64Var(&o.seed, "seed", 0, "what is drawn has the seeds from this one on")
	f.StringVar(&o.faults, "faults", "", "what goes wrong beside, such as 'conflict(0.1), crash(pvcontroller, 1)': a rate at each call, or how often\n(default what the scenario says)")
	f.BoolVar(&o.noFaults, "no-faults", false, "nothing goes wrong beside, whatever the scenario says")
	f.BoolVar(&o.restarts, "restarts", false, "portfolio: parts crash, too")
	f.StringVar(&o.rule, "rule", "", "look for failures of this rule only, such as I2")
	f.BoolVar(&o.keepGoing, "keep-going", false, "go on after a failure, and count failures by rule")
	f.StringVar(&o.shard, "shard", "1/1", "do part `K/N` of the work, from 1/N to N/N")
	f.BoolVar(&o.states, "states", false, "count the distinct states that are met; takes time")
	f.StringVar(&o.out, "out", ".", "`directory` for the files of failures")
	f.BoolVar(&o.json, "json", false, "print the outcome as one JSON object")
	f.BoolVar(&o.quiet, "quiet", false, "no progress line; with --list, names only")
	f.BoolVar(&o.list, "list", false, "list the scenarios of the book, one a line")
	return cmd
}

// gcPercent is how much garbage may come together in a search: worlds are small, and there is one at a time.
const gcPercent = 400

func strategies() string {
	words := make([]string, len(explore.Strategies))
	for i, s := range explore.Strategies {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

// listScenarios names the scenarios of the book.
func listScenarios(out io.Writer, namesOnly bool) {
	for _, s := range scenario.Book() {
		if namesOnly || len(s.About) == 0 {
			fmt.Fprintln(out, s.Name)
			continue
		}
		fmt.Fprintf(out, "%-32s %s\n", s.Name, s.About[0])
	}
}

// loadScenario finds a scenario by its name in the book, or reads it from a file.
func loadScenario(name string) (*scenario.Scenario, error) {
	if s, err := scenario.Find(name); err == nil {
		return s, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, usage(fmt.Errorf("%q is not in the book (see volsim explore --list), and no file that can be read: %w", name, err))
	}
	s, err := scenario.Parse(strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)), string(text))
	if err != nil {
		return nil, usage(err)
	}
	return s, nil
}

// config is what the options ask for.
func (o exploreOptions) config() (explore.Config, error) {
	cfg := explore.Config{
		Strategy: explore.Strategy(o.strategy), Depth: o.depth, Count: o.count, Seed: o.seed, NoFaults: o.noFaults,
		Restarts: o.restarts, Rule: o.rule, KeepGoing: o.keepGoing, States: o.states,
	}
	var err error
	if cfg.Faults, err = sim.ParseFaultSpecs(o.faults); err != nil {
		return cfg, usage(err)
	}
	if cfg.Shard, cfg.Shards, err = parseShard(o.shard); err != nil {
		return cfg, usage(err)
	}
	if o.count < 1 {
		return cfg, usage(fmt.Errorf("count %d: want at least 1", o.count))
	}
	return cfg, nil
}

// parseShard reads "2/8": number 1 of 8, counted from 0.
func parseShard(s string) (shard, shards int, err error) {
	k, n, found := strings.Cut(s, "/")
	shard, errK := strconv.Atoi(k)
	shards, errN := strconv.Atoi(n)
	if !found || errK != nil || errN != nil || shard < 1 || shard > shards {
		return 0, 0, fmt.Errorf("shard %q: want K/N, with K from 1 to N, such as 2/8", s)
	}
	return shard - 1, shards, nil
}

func exploreScenario(cmd *cobra.Command, name string, o exploreOptions) error {
	s, err := loadScenario(name)
	if err != nil {
		return err
	}
	cfg, err := o.config()
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent) // the world of a schedule is garbage as soon as it has ended
	}
	p := newProgress(cmd.ErrOrStderr(), cfg.States, o.quiet)
	cfg.Progress = p.report
	report, err := explore.Search(cmd.Context(), s, cfg)
	p.end()
	interrupted := errors.Is(err, context.Canceled)
	switch {
	case interrupted, err == nil:
	case report.Schedules == 0:
		return usage(err)
	default:
		return err
	}
	f := searchResult{Scenario: s.Name, Strategy: o.strategy, Seconds: p.elapsed().Seconds(), Interrupted: interrupted}
	if err := f.add(report, o.out); err != nil {
		return err
	}
	if o.json {
		if err := json.NewEncoder(cmd.OutOrStdout()).Encode(f); err != nil {
			return err
		}
	} else {
		f.print(cmd.OutOrStdout())
	}
	switch {
	case interrupted:
		return exitError{status: 130}
	case len(f.Failures) > 0:
		return exitError{status: 1}
	default:
		return nil
	}
}

// searchResult is what a search has come to, as it is printed.
type searchResult struct {
	Scenario    string         `json:"scenario"`
	Strategy    string         `json:"strategy"`
	Schedules   int            `json:"schedules"`
	Steps       int            `json:"steps"`
	States      int            `json:"states,omitempty"`
	Seconds     float64        `json:"seconds"`
	Rate        float64        `json:"schedules_per_second"`
	Complete    string         `json:"complete,omitempty"`
	Interrupted bool           `json:"interrupted,omitempty"`
	Failures    []foundFailure `json:"failures"`
}

// foundFailure is a rule that was broken.
type foundFailure struct {
	Rule     string   `json:"rule"`
	What     string   `json:"what"`
	Times    int      `json:"times"`
	After    int      `json:"after_schedules"`
	Schedule []string `json:"schedule"`
	File     string   `json:"file"`
	Story    string   `json:"story"`
}

// add takes over a report, and saves its failures.
func (f *searchResult) add(r explore.Report, dir string) error {
	f.Schedules, f.Steps, f.States, f.Complete = r.Schedules, r.Steps, r.States, r.Complete
	if f.Seconds > 0 {
		f.Rate = float64(int(float64(r.Schedules) / f.Seconds))
	}
	f.Failures = []foundFailure{}
	for _, failure := range r.Failures {
		path, err := explore.Save(dir, failure)
		if err != nil {
			return err
		}
		one := foundFailure{
			Rule: failure.Scenario.Violates, What: failure.Error(), Times: failure.Times, After: failure.Schedules, File: path,
			Schedule: []string{}, Story: scenario.Story(failure.Scenario, failure.Result),
		}
		for _, d := range failure.Scenario.Schedule {
			one.Schedule = append(one.Schedule, d.String())
		}
		f.Failures = append(f.Failures, one)
	}
	return nil
}

// print prints it for people.
func (f *searchResult) print(out io.Writer) {
	for _, one := range f.Failures {
		fmt.Fprintf(out, "%s breaks %s in schedule %d, %s:\n\n%s\nsaved as %s\n\n",
			f.Scenario, one.Rule, one.After, describeDeviations(len(one.Schedule)), one.Story, one.File)
	}
	fmt.Fprintf(out, "%s, %d steps", pluralize(f.Schedules, "schedule"), f.Steps)
	if f.States > 0 {
		fmt.Fprintf(out, ", %d states", f.States)
	}
	fmt.Fprintf(out, " in %s, %.0f schedules/s: ", time.Duration(f.Seconds*float64(time.Second)).Round(10*time.Millisecond), f.Rate)
	switch {
	case f.Interrupted:
		fmt.Fprint(out, "interrupted; ")
	case len(f.Failures) == 0 && f.Complete == "":
		fmt.Fprint(out, "no failure")
	}
	words := []string{}
	for _, one := range f.Failures {
		words = append(words, fmt.Sprintf("%s broken by %d", one.Rule, one.Times))
	}
	if f.Interrupted && len(words) == 0 {
		words = append(words, "no failure so far")
	}
	if f.Complete != "" {
		words = append(words, f.Complete)
	}
	fmt.Fprintln(out, strings.Join(words, "; "))
}

func describeDeviations(n int) string {
	if n == 0 {
		return "the ordinary course"
	}
	return "with " + pluralize(n, "deviation") + " from the ordinary course"
}

func pluralize(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
