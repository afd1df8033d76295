package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/cli"
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
	jobs      int
	states    bool
	untilDry  int
	coverage  bool
	corpus    string
	out       string
	json      bool
	quiet     bool
	list      bool
}

func newExplore() *cobra.Command {
	var o exploreOptions
	cmd := &cobra.Command{
		Use:   "explore SCENARIO",
		Short: "Search a scenario for a schedule that violates an invariant",
		Long: "explore runs a scenario under many schedules. A schedule decides which task runs next, which task is held,\n" +
			"which component crashes and which call fails. Every invariant is checked at every step. SCENARIO is the name of\n" +
			"a built-in scenario (see --list) or a file.\n\n" +
			"The file may be a session saved by \"volsim session\" or the page. One user then performs its user actions and events\n" +
			"in their order. What runs the world, holds tasks or makes calls fail is left out: the search decides it.\n\n" +
			"The first failing schedule is shrunk, printed as a story, and saved as a file for \"volsim replay\".\n" +
			"The search is deterministic: the same command finds the same failure on every machine, with any number of jobs\n" +
			"(exhaustive: with the same number).\n\n" +
			"Strategies:\n" +
			"  portfolio   holds, faults and restarts one at a time, in turn with pos, walk and pct\n" +
			"  holds       every schedule with at most --depth held tasks\n" +
			"  restarts    one component crashes, at each of its calls in turn\n" +
			"  faults      one call fails, each call in turn\n" +
			"  exhaustive  every order of events; with --depth, every order with at most that many deviations\n" +
			"              Without --depth it ends only in small worlds: it runs no order twice that differs only in steps\n" +
			"              that do not depend on each other, and continues each state once. When all orders have passed,\n" +
			"              it also runs those with one of the faults.\n" +
			"  pos, walk, pct, random\n" +
			"              randomized schedules\n\n" +
			"A history is what a schedule looks like to the invariants: the order of all changes, and what each request met.\n" +
			"Many schedules have the same history. When new ones are rare, a search repeats itself: see --until-dry.\n\n" +
			"The code of components and rules may call trace.Sometimes and trace.Reachable. What never held is printed: the search\n" +
			"has tested nothing that depends on it.\n\n" +
			"Exit status: 0 no failure, 1 failure found, or a \"sometimes\" of the scenario never held, 2 invalid command line or scenario, 130 interrupted.",
		Example: "  volsim explore --list\n" +
			"  volsim explore two-claims-two-volumes --strategy holds --depth 2\n" +
			"  volsim explore one-pod-life --faults 'conflict(0.1), crash(pvcontroller, 1)' --count 100000\n" +
			"  volsim explore pod-moves --strategy random --shard 2/8 --out failures",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || o.list == (len(args) == 1) {
				return usage(errors.New("expected one SCENARIO, or --list"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.list {
				listScenarios(cmd.OutOrStdout(), o.quiet)
				return nil
			}
			if !cmd.Flags().Changed("jobs") {
				o.jobs = o.defaultJobs()
			}
			return exploreScenario(cmd, args[0], o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.strategy, "strategy", string(explore.Portfolio), "search strategy: "+strategies())
	f.IntVar(&o.depth, "depth", 0, "maximum number of holds (holds, portfolio; default 1), maximum number of deviations\n(exhaustive; default unlimited), or bug depth (pct; default 3)")
	f.IntVar(&o.count, "count", explore.SchedulesMax, "maximum number of schedules to run")
	f.Uint64Var(&o.seed, "seed", 0, "first seed of randomized schedules")
	f.StringVar(&o.faults, "faults", "", "fault specs, such as 'conflict(0.1), crash(pvcontroller, 1)': a probability per call, or a count\n(default the faults of the scenario)")
	f.BoolVar(&o.noFaults, "no-faults", false, "disable fault injection, overriding the scenario")
	f.BoolVar(&o.restarts, "restarts", false, "portfolio: include schedules in which components crash")
	f.StringVar(&o.rule, "rule", "", "search only for violations of this `rule`, such as I2")
	f.BoolVar(&o.keepGoing, "keep-going", false, "continue after a failure and count failures per rule")
	f.StringVar(&o.shard, "shard", "1/1", "run shard `K/N` of the schedules, from 1/N to N/N")
	f.IntVar(&o.jobs, "jobs", 0, fmt.Sprintf("number of `N` jobs that share the schedules, each on one core (default the number of cores,\n"+
		"at most %d; 1 with --states, --until-dry, --coverage, --corpus or exhaustive, which need to know all schedules)", jobsMax))
	f.IntVar(&o.untilDry, "until-dry", 0, "end after so many schedules in a row without a new history")
	f.BoolVar(&o.coverage, "coverage", false, "print which calls were exercised, and with which stale caches and faults none was; slows down the search")
	f.StringVar(&o.corpus, "corpus", "", "`directory` of schedules that exercised something rare: the portfolio begins with them, varies them and adds its own")
	f.BoolVar(&o.states, "states", false, "count distinct states; slows down the search")
	f.StringVar(&o.out, "out", ".", "`directory` for saved failures")
	f.BoolVar(&o.json, "json", false, "print the result as one JSON object")
	f.BoolVar(&o.quiet, "quiet", false, "omit the progress line; with --list, print names only")
	f.BoolVar(&o.list, "list", false, "list the built-in scenarios, one per line")
	return cmd
}

// gcPercent is the GC target during a search. Worlds are small and each job has only one at a time,
// so collecting less often is faster.
const gcPercent = 400

// jobsMax is the maximum of the default number of jobs.
const jobsMax = 32

// defaultJobs returns the number of jobs of a search: one for each core. With several jobs a state
// may be visited and counted several times.
func (o exploreOptions) defaultJobs() int {
	if o.states || o.untilDry > 0 || o.coverage || o.corpus != "" || o.strategy == string(explore.Exhaustive) {
		return 1
	}
	return min(runtime.GOMAXPROCS(0), jobsMax)
}

func strategies() string {
	words := make([]string, len(explore.Strategies))
	for i, s := range explore.Strategies {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

// listScenarios prints the built-in scenarios.
func listScenarios(out io.Writer, namesOnly bool) {
	const indent = 33
	for _, s := range scenario.Book() {
		if namesOnly || len(s.About) == 0 {
			fmt.Fprintln(out, s.Name)
			continue
		}
		line := fmt.Sprintf("%-*s%s", indent, s.Name, strings.Join(s.About, " "))
		if columns, terminal := cli.Width(out); terminal {
			line = wrap(line, columns, indent)
		}
		fmt.Fprintln(out, line)
	}
}

// loadScenario returns the built-in scenario of that name, or that of the file of that name. It
// prints a note about the operations of a session that are left out.
func loadScenario(ctx context.Context, name string, note io.Writer) (*scenario.Scenario, error) {
	s, ops, err := loadReplay(ctx, name)
	if err != nil || s != nil {
		return s, err
	}
	s, leftOut, err := searchable(scenarioName(name), ops)
	if err != nil {
		return nil, usage(err)
	}
	s.Dir = filepath.Dir(name)
	if leftOut > 0 {
		fmt.Fprintf(note, "%s is a session: its user actions are searched; %s left out that run the world, hold tasks or make calls fail\n",
			name, pluralize(leftOut, "operation"))
	}
	return s, nil
}

// config converts the options to a search configuration.
func (o exploreOptions) config() (explore.Config, error) {
	cfg := explore.Config{
		Strategy: explore.Strategy(o.strategy), Depth: o.depth, Count: o.count, Seed: o.seed, NoFaults: o.noFaults,
		Restarts: o.restarts, Rule: o.rule, KeepGoing: o.keepGoing, States: o.states, UntilDry: o.untilDry, Jobs: o.jobs,
		Coverage: o.coverage, Corpus: o.corpus,
	}
	var err error
	if cfg.Faults, err = sim.ParseFaultSpecs(o.faults); err != nil {
		return cfg, usage(err)
	}
	if cfg.Shard, cfg.Shards, err = parseShard(o.shard); err != nil {
		return cfg, usage(err)
	}
	if o.count < 1 {
		return cfg, usage(fmt.Errorf("invalid count %d: want at least 1", o.count))
	}
	if o.jobs < 1 {
		return cfg, usage(fmt.Errorf("invalid number of jobs %d: want at least 1", o.jobs))
	}
	if o.untilDry < 0 {
		return cfg, usage(fmt.Errorf("invalid --until-dry %d: want no negative number", o.untilDry))
	}
	return cfg, nil
}

// parseShard parses "2/8" as shard 1 of 8, counting from 0.
func parseShard(s string) (shard, shards int, err error) {
	k, n, found := strings.Cut(s, "/")
	shard, errK := strconv.Atoi(k)
	shards, errN := strconv.Atoi(n)
	if !found || errK != nil || errN != nil || shard < 1 || shard > shards {
		return 0, 0, fmt.Errorf("invalid shard %q: want K/N, with K from 1 to N, such as 2/8", s)
	}
	return shard - 1, shards, nil
}

func exploreScenario(cmd *cobra.Command, name string, o exploreOptions) error {
	note := cmd.ErrOrStderr()
	if o.quiet {
		note = io.Discard
	}
	s, err := loadScenario(cmd.Context(), name, note)
	if err != nil {
		return err
	}
	if !cmd.Flags().Changed("jobs") && s.OnlyInGo() {
		o.jobs = 1 // its parts in Go are not for several goroutines
	}
	cfg, err := o.config()
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent) // each world becomes garbage when its schedule ends
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
	f := searchResult{Scenario: s.Name, Strategy: o.strategy, Jobs: o.jobs, Seconds: p.elapsed().Seconds(), Interrupted: interrupted}
	unsaved := f.add(report, o.out)
	if o.json {
		_ = json.NewEncoder(cmd.OutOrStdout()).Encode(f) // a failed write is reported at the end
	} else {
		f.print(cmd.OutOrStdout())
	}
	switch {
	case unsaved != nil:
		return unsaved
	case interrupted:
		return cli.Interrupted("")
	case len(f.Failures) > 0 || cfg.Shards < 2 && f.missesNamed(s.Sometimes):
		return cli.Status(cli.Failure)
	default:
		return nil
	}
}

// A searchResult is the result of a search, in the form that --json prints.
type searchResult struct {
	Scenario    string         `json:"scenario"`
	Strategy    string         `json:"strategy"`
	Jobs        int            `json:"jobs"`
	Schedules   int            `json:"schedules"`
	Steps       int            `json:"steps"`
	States      int            `json:"states,omitempty"`
	Left        int            `json:"alternatives_left,omitempty"` // of an exhaustive search, at least
	Histories   int            `json:"histories"`
	New         int            `json:"new_histories_in_last_100"`
	Dry         bool           `json:"dry,omitempty"` // it ended by --until-dry
	Seconds     float64        `json:"seconds"`
	Rate        float64        `json:"schedules_per_second"`
	Complete    string         `json:"complete,omitempty"`
	Interrupted bool           `json:"interrupted,omitempty"`
	Failures    []foundFailure `json:"failures"`

	Conditions []condition        `json:"sometimes,omitempty"` // of trace.Sometimes
	Coverage   []explore.Coverage `json:"coverage,omitempty"`
}

// A condition is what trace.Sometimes has noted in all schedules.
type condition struct {
	Name  string `json:"name"`
	Calls int    `json:"calls"`
	Held  int    `json:"held"`
}

// missesNamed reports whether a condition of those never held.
func (f *searchResult) missesNamed(names []string) bool {
	return slices.ContainsFunc(f.Conditions, func(c condition) bool { return c.Held == 0 && slices.Contains(names, c.Name) })
}

// A foundFailure is a rule and the first schedule that violates it.
type foundFailure struct {
	Rule     string   `json:"rule"`
	What     string   `json:"what"`
	Times    int      `json:"times"`
	After    int      `json:"after_schedules"`
	Schedule []string `json:"schedule"`
	File     string   `json:"file"`
	Picture  string   `json:"picture"`
	Story    string   `json:"story"`
	Source   string   `json:"source,omitempty"`
	Found    string   `json:"found"` // how it was found, and a smaller world to try
}

// add copies a report into the result and saves its failures in dir. An error says which failures
// are not saved.
func (f *searchResult) add(r explore.Report, dir string) (unsaved error) {
	f.Schedules, f.Steps, f.States, f.Complete = r.Schedules, r.Steps, r.States, r.Complete
	f.Left, f.Histories, f.New, f.Dry = r.Left, r.Histories, r.NewHistories, r.Dry
	f.Coverage = r.Coverage
	for _, c := range r.Conditions {
		f.Conditions = append(f.Conditions, condition(c))
	}
	if f.Seconds > 0 {
		f.Rate = float64(int(float64(r.Schedules) / f.Seconds))
	}
	f.Failures = []foundFailure{}
	for _, failure := range r.Failures {
		path, err := explore.Save(dir, failure)
		if err != nil {
			unsaved = errors.Join(unsaved, fmt.Errorf("save the failure of %s: %w", failure.Scenario.Violates, err))
			path = ""
		}
		one := foundFailure{
			Rule: failure.Scenario.Violates, What: failure.Error(), Times: failure.Times, After: failure.Schedules, File: path, Picture: failure.Picture, Found: failure.Found(),
			Source:   failure.Result.Source,
			Schedule: []string{}, Story: scenario.Story(failure.Scenario, failure.Result),
		}
		for _, d := range failure.Scenario.Schedule {
			one.Schedule = append(one.Schedule, d.String())
		}
		f.Failures = append(f.Failures, one)
	}
	return unsaved
}

// print writes the result as text.
func (f *searchResult) print(out io.Writer) {
	for _, one := range f.Failures {
		fmt.Fprintf(out, "%s violates %s in schedule %d, %s:\n\n%s\n%s\n",
			f.Scenario, one.Rule, one.After, describeDeviations(len(one.Schedule)), one.Story, one.Found)
		if one.Source != "" {
			fmt.Fprintf(out, "source: %s\n", one.Source)
		}
		if one.File != "" {
			fmt.Fprintf(out, "saved as %s, drawn in %s\nin a Go test: simtest.Replay(t, simtest.Read(t, %q), \"\")\n\n",
				one.File, one.Picture, filepath.ToSlash(one.File))
		}
	}
	fmt.Fprint(out, pluralize(f.Schedules, "schedule"), ", ", describeHistories(f.Histories, f.New, f.Schedules))
	fmt.Fprintf(out, ", %d steps", f.Steps)
	if f.States > 0 {
		fmt.Fprintf(out, ", %d states", f.States)
	}
	fmt.Fprintf(out, " in %s, %.0f schedules/s: ", time.Duration(f.Seconds*float64(time.Second)).Round(10*time.Millisecond), f.Rate)
	words := []string{}
	switch {
	case f.Interrupted:
		words = append(words, "interrupted")
	case len(f.Failures) == 0 && f.Complete == "":
		words = append(words, "no failure")
	}
	for _, one := range f.Failures {
		words = append(words, fmt.Sprintf("%s violated by %d", one.Rule, one.Times))
	}
	if f.Interrupted && len(f.Failures) == 0 {
		words = append(words, "no failure so far")
	}
	if f.Complete != "" {
		words = append(words, f.Complete)
	}
	if f.Dry {
		words = append(words, "ended, since no new history was seen")
	}
	if f.Left > 0 {
		words = append(words, "ended before all orders were run: at least "+pluralize(f.Left, "alternative")+" left")
	}
	fmt.Fprintln(out, strings.Join(words, "; "))
	for _, c := range f.Conditions {
		switch {
		case c.Calls == 0:
			fmt.Fprintf(out, "never reached: %s\n", c.Name)
		case c.Held == 0:
			fmt.Fprintf(out, "never held: %s (%s)\n", c.Name, pluralize(c.Calls, "call"))
		}
	}
	if len(f.Coverage) > 0 {
		fmt.Fprintf(out, "\n%s", explore.CoverageTable(f.Coverage))
	}
}

// describeHistories describes how many histories a search has seen: "312 histories, 4 new in the last 100".
func describeHistories(all, recent, schedules int) string {
	words := strings.ReplaceAll(pluralize(all, "history"), "historys", "histories")
	if schedules > 100 {
		words += fmt.Sprintf(", %d new in the last 100", recent)
	}
	return words
}

func describeDeviations(n int) string {
	if n == 0 {
		return "the default order"
	}
	return "with " + pluralize(n, "deviation") + " from the default order"
}

func pluralize(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
