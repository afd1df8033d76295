package attachdetach_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/casefile"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// grammar defines the paragraphs of these cases.
var grammar = casefile.Grammar{
	Setup: regexp.MustCompile(`^(before|attacher|no force|wait for unmount \S+|fail .+: .+|(lose|when|while) .+)$`),
	Act: regexp.MustCompile(`^(settle|recover|wait \S+|restart( \w+=\d+)*|relist \S+|(add|set) .+|fail .+: .+|(lose|when|while) .+|` +
		`delete ((node|volume|claim|pod|attachment) .+|driver))$`),
	Outcomes: []string{"after", "state", "events", "calls", "requests"},
}

// controlTask is the prefix of the names of the controller's tasks, except those of its caches.
var (
	controlTask = regexp.MustCompile(`^attachdetach/(recover|volumes|nodestatus|volume_\S+|attach|detach)`)
	cacheTask   = regexp.MustCompile(`^attachdetach/cache `)
)

// A caseRun is one run of a case in a stepped world with an API server, the controller with the CSI
// plugin and an attacher. The case itself acts for kubelets and users.
type caseRun struct {
	casefile.Run
	server   *fake.Server
	control  *attachdetach.Controller
	attacher *caseAttacher
	cfg      attachdetach.Config // as set by the case
	objects  []casefile.Line
	nodes    []string          // all that ever existed
	handles  []string          // of all volumes that ever existed
	called   map[string]string // the cases' names of attachments, "VOLUME NODE", by object name
	crash    crash
	last     string // the task that ran last
	turns    int    // steps of the controller's tasks and the attacher's
}

// An outcome is the result of a case.
type outcome struct {
	casefile.Outcome
	rest  []string // the state at rest, after all faults
	turns int      // steps of the controller's tasks and the attacher's
}

// runCase executes a case once. An error means that the case is malformed.
func runCase(f *casefile.File, c *casefile.Case, crash crash) (outcome, error) {
	r := &caseRun{called: map[string]string{}, crash: crash}
	r.Host = sim.NewStepped(sim.SteppedConfig{StepsMax: 20_000, Strategy: r, Pool: crash.pool})
	defer r.Host.Close()
	r.OnStep = func(task string) {
		r.last = task
		r.moved()
	}
	r.server = fake.NewServer(fake.Config{Now: r.Host.Now})
	r.attacher = newCaseAttacher(r)
	r.server.OnCommit(func(c fake.Commit) {
		if c.Resource == "volumeattachments" {
			r.attacher.notice()
		}
	})
	err := r.Execute(f, c, r, "settle", "recover", "wait")
	if err != nil {
		return outcome{Outcome: r.Outcome}, err
	}
	for _, line := range r.attacher.unused() {
		r.Problem("%s: the attacher did not make this call", line.At)
	}
	rest := r.rest()
	r.Outcome.Trace = r.Host.Log()
	return outcome{r.Outcome, rest, r.turns}, nil
}

// Decide takes the default order and records the scheduled task.
func (r *caseRun) Decide(d *sim.Decision) sim.Move {
	r.last = d.Task(0).Name()
	return sim.Move{}
}

// SetUp executes a paragraph of the setup.
func (r *caseRun) SetUp(p *casefile.Paragraph) error {
	verb, rest, _ := strings.Cut(p.Head, " ")
	switch verb {
	case "always", "before":
		r.objects = append(r.objects, p.Body...)
	case "attacher":
		return r.attacher.read(p.Body)
	case "no":
		r.cfg.DisableForceDetach = true
	case "wait":
		limit, err := time.ParseDuration(strings.TrimPrefix(rest, "for unmount "))
		r.cfg.MaxWaitForUnmount = limit
		return err
	}
	return nil
}

// Start adds the objects and starts the controller.
func (r *caseRun) Start() error {
	for _, line := range r.objects {
		if err := r.Do("add " + line.Text); err != nil {
			return fmt.Errorf("%s: %w", line.At, err)
		}
	}
	r.start()
	r.StepWhile(cacheTask.MatchString)
	return nil
}

// start starts the controller. lags are the numbers of events by which its first lists are stale,
// by resource.
func (r *caseRun) start(lags ...lag) {
	r.Process = r.Host.Process("attachdetach")
	cfg := r.cfg
	cfg.Process = r.Process
	cfg.Client = r.server.Client(judged{r.Intercept(r.Process), r})
	cfg.Informers = r.server.Informers(r.Process)
	cfg.Recorder = casefile.Recorder(r.event)
	cfg.Plugins = &plugins.Manager{}
	for _, l := range lags {
		r.server.DelayCache(r.Process, l.resource, l.events)
	}
	if err := cfg.Plugins.Register(csi.New(csi.Config{
		Process: r.Process, Client: cfg.Client,
		CSIDrivers:        cfg.Informers.Storage().V1().CSIDrivers(),
		Attachments:       cfg.Informers.Storage().V1().VolumeAttachments(),
		PersistentVolumes: cfg.Informers.Core().V1().PersistentVolumes(),
	})); err != nil {
		panic(err)
	}
	r.control = attachdetach.New(cfg)
}

// restart crashes the controller and restarts it.
func (r *caseRun) restart(lags ...lag) {
	r.Host.Crash(r.Process)
	r.server.RemoveComponent(r.Process)
	r.start(lags...)
}

// runUntil runs the world until nothing is left to do, or done reports true.
func (r *caseRun) runUntil(done func() bool) error {
	for !done() && r.Host.Step() {
		r.moved()
		if r.Host.Steps() > 20_000 {
			return sim.ErrSteps
		}
	}
	return nil
}

// moved counts the steps and crashes the controller when it is due.
func (r *caseRun) moved() {
	if !controlTask.MatchString(r.last) && !strings.HasPrefix(r.last, "attacher/") {
		return
	}
	if r.turns++; r.crash.due(r.turns) {
		r.restart(r.crash.lags...)
	}
}

// Step executes one step and returns its sections. It returns none if only the final state matters.
func (r *caseRun) Step(s *casefile.Step, quiet bool) ([]casefile.Section, error) {
	err := r.act(s.Act)
	if quiet || r.crash.after > 0 {
		return nil, err
	}
	calls, requests := r.calls()
	return append([]casefile.Section{{Head: "after", Lines: r.state(nothing)}}, s.Select([]casefile.Section{
		{Head: "state", Lines: r.statesOfWorld(true)},
		{Head: "events", Lines: r.TakeEvents()},
		{Head: "calls", Lines: calls},
		{Head: "requests", Lines: requests},
	}, "state", "requests")...), err
}

func (r *caseRun) act(p *casefile.Paragraph) error {
	if r.Script(p) {
		return nil
	}
	verb, rest, _ := strings.Cut(p.Head, " ")
	switch verb {
	case "settle":
		return r.runUntil(func() bool { return false })
	case "recover":
		r.StepWhile(func(actor string) bool { return strings.HasPrefix(actor, "attachdetach/recover") })
	case "wait":
		limit, err := time.ParseDuration(rest)
		if err != nil {
			return err
		}
		return r.wait(limit)
	case "restart":
		r.restart(lagsOf(rest)...)
	case "relist":
		if !r.server.BreakWatch(r.Process, rest) && r.crash.after == 0 {
			return fmt.Errorf("the cache of %s is not stale", rest)
		}
	default:
		return r.Do(p.Head)
	}
	return nil
}

// lagsOf parses "RESOURCE=EVENTS …".
func lagsOf(text string) []lag {
	var lags []lag
	for word := range strings.FieldsSeq(text) {
		resource, events, _ := strings.Cut(word, "=")
		n, _ := strconv.Atoi(events)
		lags = append(lags, lag{resource, n})
	}
	return lags
}

// wait runs the world for a time, including everything that is due at its end.
func (r *caseRun) wait(limit time.Duration) error {
	over := false
	clock := r.Host.Process("clock")
	clock.Spawn("wait", func(context.Context) {
		clock.Sleep(limit)
		over = true
	})
	if err := r.runUntil(func() bool { return over }); err != nil {
		return err
	}
	return r.runUntil(func() bool { return !r.Host.Busy() })
}

// rest ends all faults, runs the world until nothing is left to do, and returns its state.
func (r *caseRun) rest() []string {
	r.ClearScript()
	r.attacher.script = nil
	if err := r.runUntil(func() bool { return false }); err != nil {
		r.Problem("no quiescence: %v", err)
	}
	return slices.Concat(r.state(r.kept), r.statesOfWorld(false))
}

// kept reports whether an unwanted attachment stays because its node uses it. A restarted
// controller may be uncertain about it, and then does not report it; no pod on that node mounts it
// again.
func (r *caseRun) kept(volume corev1.UniqueVolumeName, node string) bool {
	name := types.NodeName(node)
	return r.control.Desired().Get(volume, name) == nil && r.control.Actual().InUse(volume, name)
}

func nothing(corev1.UniqueVolumeName, string) bool { return false }

// state returns all nodes and attachments, except the reports of some volumes.
func (r *caseRun) state(but func(volume corev1.UniqueVolumeName, node string) bool) []string {
	var lines []string
	for _, obj := range r.server.List("nodes") {
		n := obj.(*corev1.Node).DeepCopy()
		n.Status.VolumesAttached = slices.DeleteFunc(n.Status.VolumesAttached, func(a corev1.AttachedVolume) bool {
			return but(a.Name, n.Name)
		})
		lines = append(lines, tellNode(n))
	}
	var attachments []string
	for _, obj := range r.server.List("volumeattachments") {
		a := obj.(*storagev1.VolumeAttachment)
		attachments = append(attachments, tellAttachment(a, r.handleOf(a)))
	}
	slices.Sort(attachments)
	return append(lines, attachments...)
}

// statesOfWorld lists the controller's desired and actual state and what is pending, or the part of
// them that is the same after a restart.
func (r *caseRun) statesOfWorld(all bool) []string {
	var lines []string
	for _, d := range r.control.Desired().All() {
		var pods []string
		for _, pod := range d.Pods() {
			pods = append(pods, podName(pod))
		}
		lines = append(lines, fmt.Sprintf("wanted %s on %s by %s", called(d.Volume), d.Node, strings.Join(pods, " ")))
	}
	for _, a := range r.control.Actual().All() {
		line := fmt.Sprintf("%s on %s: %s", called(a.Volume), a.Node, a.State)
		if !all && r.kept(a.Volume, string(a.Node)) {
			line = fmt.Sprintf("%s on %s: kept", called(a.Volume), a.Node)
		} else if a.Reported {
			line += ", reported"
		}
		if r.control.Actual().InUse(a.Volume, a.Node) {
			line += ", in use"
		}
		if all && !a.DetachRequested.IsZero() {
			line += ", not wanted since " + a.DetachRequested.Sub(sim.Epoch).String()
		}
		lines = append(lines, line)
	}
	for _, pending := range r.control.Pending() {
		line := "pending: " + short(pending.String())
		if all && !pending.Until.IsZero() {
			line += ", until " + pending.Until.Sub(sim.Epoch).String()
		}
		lines = append(lines, line)
	}
	return lines
}

func podName(pod *corev1.Pod) string {
	if pod.Namespace != "default" {
		return pod.Namespace + "/" + pod.Name
	}
	return pod.Name
}

// calls returns the attacher's calls of its driver, and those with the requests of the controller,
// since the previous call.
func (r *caseRun) calls() (calls, requests []string) {
	for after, record := range r.NewRecords() {
		line := r.Request(record.Action)
		if record.Err != nil {
			line += ": " + r.plain(record.Err.Error())
		} else if n, ok := record.After.(*corev1.Node); ok {
			line += " attached=" + attachedList(n)
		}
		switch {
		case record.Kind == trace.KindDriver:
			calls = append(calls, after+line)
			requests = append(requests, after+"attacher: "+line)
		case record.Kind == trace.KindAPI && controlTask.MatchString(record.Task):
			requests = append(requests, after+line)
		case record.Verb == "force-detach":
			requests = append(requests, fmt.Sprintf("%sforce detach of %s %s", after,
				called(corev1.UniqueVolumeName(record.Object)), record.Detail))
		}
	}
	return calls, requests
}

// Request names a request as the cases do, such as "patch/status node n1".
func (r *caseRun) Request(a trace.Action) string {
	kind, name, found := strings.Cut(a.Object, "/")
	switch {
	case !found:
		return a.Verb + " " + a.Object
	case kind == "nodes":
		return a.Verb + " node " + name
	case kind == "volumeattachments":
		return a.Verb + " attachment " + r.called[name]
	default:
		return a.Verb + " " + a.Object
	}
}

// plain replaces attachments in a text by their names in the cases.
func (r *caseRun) plain(text string) string {
	for name, called := range r.called { // independent: order does not matter
		text = strings.ReplaceAll(text, strconv.Quote(name), strconv.Quote(called))
	}
	return text
}
