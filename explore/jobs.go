package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/sim/trace"
)

// A team is the jobs of one search. Each job enumerates all schedules in the same order and runs
// every n-th of them. All jobs run the default order, on which the others depend; it counts once.
//
// A failure ends the search: a job stops before a schedule that comes after the first failure found
// so far. What other jobs have run after it does not count, so the result is that of one job.
type team struct {
	cfg   Config
	named []string // conditions that the scenario names
	jobs  []*job

	mu        sync.Mutex
	first     position   // guarded by mu: of the first failure; zero: none
	histories *histories // guarded by mu: so far, in the order of the clock
}

// A position is the place of a schedule in the order of the whole search.
type position struct {
	stage      int // 1: the default order, 2: the smaller world, 3: the whole one; 0: no position
	considered int // see search.considered
	number     int // of the schedules that the job has run: several may belong to one that was considered
	job        int
}

func (p position) before(other position) bool {
	return p.compare(other) < 0
}

func (p position) compare(other position) int {
	return cmp.Or(cmp.Compare(p.stage, other.stage), cmp.Compare(p.considered, other.considered),
		cmp.Compare(p.number, other.number), cmp.Compare(p.job, other.job))
}

// position returns the position of the last schedule, or of the next one.
func (e *search) position(next int) position {
	p := position{stage: 3, considered: e.considered, number: e.report.Schedules + next, job: e.job.index}
	switch {
	case e.smaller:
		p.stage = 2
	case e.defaultRun == nil:
		p.stage = 1
	}
	return p
}

// A job is one of the searches that share the work.
type job struct {
	team   *team
	index  int
	cancel context.CancelFunc
	runs   []countedRun // of the job's schedules, the default order only in the first job

	repeated Report   // the runs of the default order that do not count
	progress Report   // guarded by team.mu: of the runs so far
	found    position // guarded by team.mu: of the failure that the job shrinks; zero: none

	// set when the search has ended
	report   Report
	graph    *historyGraph // nil: none
	err      error
	end      position // of the failure or error; zero: none
	failures map[*Failure]position
}

// A countedRun is the run of one schedule.
type countedRun struct {
	position
	steps   int
	states  int    // before it
	history uint64 // its hash
	stopped bool

	conditions []trace.Condition
}

// searchJobs searches with several jobs.
func searchJobs(ctx context.Context, s *scenario.Scenario, cfg Config) (Report, error) {
	if s.OnlyInGo() {
		return Report{}, fmt.Errorf("scenario %s: %d jobs: it has parts in Go, which the jobs would share: want one job", s.Name, cfg.Jobs)
	}
	if cfg.UntilDry > 0 {
		return Report{}, fmt.Errorf("%d jobs, until dry %d: want one job, which knows all histories", cfg.Jobs, cfg.UntilDry)
	}
	if cfg.Coverage {
		return Report{}, fmt.Errorf("%d jobs with coverage: want one job", cfg.Jobs)
	}
	if cfg.Corpus != "" {
		return Report{}, errCorpus
	}
	t := &team{cfg: cfg, named: s.Sometimes, histories: newHistories()}
	searches := make([]*search, cfg.Jobs)
	for i := range searches {
		j := &job{team: t, index: i, failures: map[*Failure]position{}}
		jobCtx, cancel := context.WithCancel(ctx)
		defer cancel()
		j.cancel = cancel
		e, err := newSearch(jobCtx, s, j.config())
		if err != nil {
			return Report{}, err
		}
		e.job, searches[i], t.jobs = j, e, append(t.jobs, j)
	}
	var running sync.WaitGroup
	for i, e := range searches {
		running.Go(func() { t.jobs[i].search(e) })
	}
	running.Wait()
	return t.merge(ctx)
}

// config returns the configuration of the job.
func (j *job) config() Config {
	cfg := j.team.cfg
	if cfg.Strategy == Exhaustive {
		total := cmp.Or(cfg.Count, SchedulesMax)
		cfg.Count = max(1, (total+cfg.Jobs-1-j.index)/cfg.Jobs)
	}
	if cfg.Progress != nil {
		cfg.Progress = j.reportProgress
	}
	if watch := cfg.Watch; watch != nil {
		cfg.Watch = func(c *cluster.Cluster) {
			j.team.mu.Lock()
			defer j.team.mu.Unlock()
			watch(c)
		}
	}
	return cfg
}

// search searches and, if it fails, stops the jobs that are behind.
func (j *job) search(e *search) {
	j.report, j.err = e.searchAll()
	j.graph = e.graph
	j.team.mu.Lock()
	defer j.team.mu.Unlock()
	switch {
	case j.report.Failure != nil:
		j.end = j.failures[j.report.Failure]
	case j.err != nil:
		j.end = e.position(1)
		if j.found != (position{}) {
			j.end = j.found
		}
		j.team.announce(j.end)
	}
}

// announce makes the jobs stop at a failure. It reports whether it is the first one. The caller holds mu.
func (t *team) announce(at position) bool {
	if t.first != (position{}) && t.first.before(at) {
		return false
	}
	t.first = at
	for _, other := range t.jobs {
		if at.before(other.found) {
			other.cancel() // it shrinks a failure that is not the first
		}
	}
	return true
}

// isOfJob reports whether this job runs a schedule of the shard, from 0.
func (e *search) isOfJob(index int) bool {
	if e.job == nil || index%len(e.job.team.jobs) == e.job.index {
		return true
	}
	e.elsewhere++
	return false
}

// counted returns the number of schedules so far, of all jobs.
func (e *search) counted() int { return e.report.Schedules + e.elsewhere }

// number returns the number of the last schedule in the order of the whole search, from 1.
func (e *search) number() int { return e.earlier + e.counted() }

// isAfterFailure reports whether the next schedule comes after one for which another job has failed.
func (e *search) isAfterFailure() bool {
	if e.job == nil {
		return false
	}
	t := e.job.team
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first != (position{}) && t.first.before(e.position(1))
}

// isFirstFailure reports whether the failure of the last schedule comes before those of other jobs.
func (e *search) isFirstFailure() bool {
	if e.job == nil || e.cfg.KeepGoing {
		return true
	}
	t := e.job.team
	t.mu.Lock()
	defer t.mu.Unlock()
	e.job.found = e.position(0)
	return t.announce(e.job.found)
}

// note records the run of a schedule.
func (e *search) note(r *scenario.Result, history uint64, conditions []trace.Condition) {
	switch j := e.job; {
	case j == nil:
	case e.defaultRun == nil && j.index > 0:
		j.repeated.Schedules++
		j.repeated.Steps += r.Steps
	default:
		run := countedRun{position: e.position(0), steps: r.Steps, history: history, stopped: r.Stopped, conditions: conditions}
		if !e.smaller {
			run.states = e.report.States
		}
		j.runs = append(j.runs, run)
		j.team.mu.Lock()
		defer j.team.mu.Unlock()
		j.team.histories.add(history)
	}
}

// noteFailure records the position of a failure.
func (e *search) noteFailure(f *Failure) {
	if e.job != nil {
		e.job.failures[f] = e.position(0)
	}
}

// reportProgress reports the sums of all jobs.
func (j *job) reportProgress(r Report) {
	r.Schedules -= j.repeated.Schedules
	r.Steps -= j.repeated.Steps
	r.Failures = copies(r.Failures) // the job goes on to count in its own
	t := j.team
	t.mu.Lock()
	defer t.mu.Unlock()
	j.progress = r
	var sum Report
	var failures []*Failure
	for _, other := range t.jobs {
		sum.Schedules += other.progress.Schedules
		sum.Steps += other.progress.Steps
		sum.States += other.progress.States
		failures = append(failures, copies(other.progress.Failures)...)
	}
	sum.setFailures(failures)
	sum.Histories, sum.NewHistories = t.histories.count(), t.histories.fresh
	t.cfg.Progress(sum)
}

func copies(failures []*Failure) []*Failure {
	var all []*Failure
	for _, f := range failures {
		one := *f
		all = append(all, &one)
	}
	return all
}

// setFailures sets the first failure of each rule. It counts the others.
func (r *Report) setFailures(failures []*Failure) {
	slices.SortStableFunc(failures, func(a, b *Failure) int { return cmp.Compare(a.Schedules, b.Schedules) })
	for _, f := range failures {
		i := slices.IndexFunc(r.Failures, func(other *Failure) bool { return other.Scenario.Violates == f.Scenario.Violates })
		if i < 0 {
			r.Failures = append(r.Failures, f)
		} else {
			r.Failures[i].Times += f.Times
		}
	}
	if len(r.Failures) > 0 {
		r.Failure = r.Failures[0]
	}
}

// merge returns the result of all jobs.
func (t *team) merge(ctx context.Context) (Report, error) {
	last, err := t.last(ctx)
	if last != nil && last.report.Schedules == 0 {
		return Report{}, err // nothing has been searched
	}
	runs, complete := t.runs(last)
	if last != nil && !complete { // the failure comes after the bound
		last = nil
	}
	var sum Report
	sum.AddConditions(named(t.named))
	seen := newHistories()
	for _, r := range runs {
		sum.Schedules++
		sum.Steps += r.steps
		sum.AddConditions(r.conditions)
		if r.stage != 2 && !r.stopped {
			seen.add(r.history)
		}
	}
	sum.Histories, sum.NewHistories = seen.count(), seen.fresh
	var failures []*Failure
	for _, j := range t.jobs {
		sum.States += j.statesUntil(runs)
		sum.Left += j.report.Left
		for _, f := range j.report.Failures {
			at := j.failures[f]
			n, found := slices.BinarySearchFunc(runs, at, func(r countedRun, at position) int { return r.compare(at) })
			if found && (last == j || last == nil) {
				f.Schedules = n + 1
				failures = append(failures, f)
			}
		}
	}
	sum.setFailures(failures)
	switch {
	case last != nil:
		sum.Complete = last.report.Complete
	case complete:
		sum.Complete = t.complete()
		sum.countHistories(t.historyGraph())
	}
	return sum, err
}

// runs returns the runs up to the end of the search, in its order. The bool is false if the bound on
// the number of schedules has cut some off: jobs do not know how many schedules the others run.
func (t *team) runs(last *job) ([]countedRun, bool) {
	var all []countedRun
	for _, j := range t.jobs {
		for _, r := range j.runs {
			if last == nil || !last.end.before(r.position) {
				all = append(all, r)
			}
		}
	}
	slices.SortFunc(all, func(a, b countedRun) int { return a.compare(b.position) })
	most := cmp.Or(t.cfg.Count, SchedulesMax)
	small := (most - 1) / smallShare
	inSmall := 0
	all = slices.DeleteFunc(all, func(r countedRun) bool {
		if r.stage == 2 {
			inSmall++
		}
		return r.stage == 2 && inSmall > small
	})
	if len(all) > most {
		return all[:most], false
	}
	return all, true
}

// last returns the job whose failure or error ends the search, and the error; nil if none does.
func (t *team) last(ctx context.Context) (*job, error) {
	var last *job
	for _, j := range t.jobs {
		switch {
		case j.err != nil && ctx.Err() != nil && errors.Is(j.err, ctx.Err()):
			return nil, j.err
		case errors.Is(j.err, context.Canceled), j.err == nil && t.cfg.KeepGoing: // by another job; it goes on
		case j.end != (position{}) && (last == nil || j.end.before(last.end)):
			last = j
		}
	}
	if last == nil {
		return nil, nil
	}
	return last, last.err
}

// historyGraph returns the paths of all jobs; nil: they have none.
func (t *team) historyGraph() *historyGraph {
	all := t.jobs[0].graph
	for _, j := range t.jobs[1:] {
		if all != nil && j.graph != nil {
			all.add(j.graph)
		}
	}
	return all
}

// statesUntil returns the number of states that the job visited in those of its runs that count.
func (j *job) statesUntil(runs []countedRun) int {
	counted := 0
	for _, r := range runs {
		if r.job == j.index {
			counted++
		}
	}
	if counted < len(j.runs) {
		return j.runs[counted].states
	}
	return j.report.States
}

// complete returns what all jobs have searched completely.
func (t *team) complete() string {
	const separator = "; "
	parts := strings.Split(t.jobs[0].report.Complete, separator)
	for _, j := range t.jobs[1:] {
		theirs := strings.Split(j.report.Complete, separator)
		parts = slices.DeleteFunc(parts, func(part string) bool { return !slices.Contains(theirs, part) })
	}
	return strings.Join(parts, separator)
}
