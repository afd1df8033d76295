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

// grammar tells the paragraphs of these cases apart.
var grammar = casefile.Grammar{
	Setup: regexp.MustCompile(`^(before|attacher|no force|wait for unmount \S+|fail .+: .+|(lose|when|while) .+)$`),
	Act: regexp.MustCompile(`^(settle|recover|wait \S+|restart( \w+=\d+)*|relist \S+|(add|set) .+|fail .+: .+|(lose|when|while) .+|` +
		`delete ((node|volume|claim|pod|attachment) .+|driver))$`),
	Outcomes: []string{"after", "pictures", "events", "calls", "requests"},
}

// controlTask is the prefix of the names of the controller's tasks, except those of its caches.
var (
	controlTask = regexp.MustCompile(`^attachdetach/(recover|volumes|nodestatus|volume_\S+|attach|detach)`)
	cacheTask   = regexp.MustCompile(`^attachdetach/cache `)
)

// A caseRun is one run of a case in a stepped world with an API server, the controller with the CSI
// plugin and an attacher. The case itself acts for kubelets and users.
type caseRun struct {
	host      *sim.Stepped
	server    *fake.Server
	component *sim.Process
	control   *attachdetach.Controller
	attacher  *caseAttacher
	cfg       attachdetach.Config // what the case says of it
	faults    []*caseFault
	meetings  []*caseMeeting
	objects   []casefile.Line
	nodes     []string          // that there are or were
	handles   []string          // of the volumes that there are or were
	called    map[string]string // how attachments are called, "VOLUME NODE", by their names
	since     int               // how many records of the trace were told of
	told      time.Duration     // when, since the world began
	events    []string
	crash     crash
	last      string // the actor that was moved last
	turns     int    // steps of the controller's tasks and the attacher's
	out       outcome
}

// caseFault lets requests go wrong.
type caseFault struct {
	request string
	times   int // -1: always
	text    string
	after   bool // the request takes effect all the same
	at      string
}

// A caseMeeting is an act just before a request takes effect, or when it is sent.
type caseMeeting struct {
	request string
	early   bool // when it was sent: the controller may hear of it before the request takes effect
	acts    []casefile.Line
	at      string
}

// An outcome is the result of a case.
type outcome struct {
	steps    [][]casefile.Section
	rest     []string // the state of things when all faults are over and nothing is left to happen
	problems []string
	trace    *trace.Log
	turns    int // steps of the controller's tasks and the attacher's
}

// runCase lets a case happen once. The error is of a case that cannot be read.
func runCase(f *casefile.File, c *casefile.Case, crash crash) (outcome, error) {
	r := &caseRun{called: map[string]string{}, crash: crash}
	r.host = sim.NewStepped(sim.SteppedConfig{StepsMax: 20_000, Strategy: r, Pool: crash.pool})
	defer r.host.Close()
	r.server = fake.NewServer(fake.Config{Now: r.host.Now})
	r.attacher = newCaseAttacher(r)
	r.server.OnCommit(func(c fake.Commit) {
		if c.Resource == "volumeattachments" {
			r.attacher.notice()
		}
	})
	for _, p := range slices.Concat(f.Always, c.Setup) {
		if err := r.setUp(p); err != nil {
			return r.out, fmt.Errorf("%s: %w", p.At, err)
		}
	}
	if err := r.plant(); err != nil {
		return r.out, err
	}
	r.start()
	r.moveWhile(cacheTask.MatchString)
	r.since = r.host.Log().Len()
	for i, s := range c.Steps {
		came, err := r.step(s, i+1 < len(c.Steps) && isUsers(s.Act))
		if err != nil {
			return r.out, fmt.Errorf("%s: %w", s.Act.At, err)
		}
		r.out.steps = append(r.out.steps, came)
	}
	r.checkLeftOvers()
	r.rest()
	r.out.trace, r.out.turns = r.host.Log(), r.turns
	return r.out, nil
}

func (r *caseRun) problem(format string, args ...any) {
	r.out.problems = append(r.out.problems, fmt.Sprintf(format, args...))
}

// Decide takes the default order and records the scheduled task.
func (r *caseRun) Decide(d *sim.Decision) sim.Move {
	r.last = d.Task(0).Name()
	return sim.Move{}
}

var faultHead = regexp.MustCompile(`^(.+?)( (\d+) times| always)?: (.+)$`)

// setUp takes in a paragraph of what is there before.
func (r *caseRun) setUp(p *casefile.Paragraph) error {
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
	case "fail":
		m := faultHead.FindStringSubmatch(rest)
		fault := &caseFault{request: m[1], times: 1, text: m[4], at: p.At}
		switch {
		case m[2] == " always":
			fault.times = -1
		case m[3] != "":
			fault.times, _ = strconv.Atoi(m[3])
		}
		r.faults = append(r.faults, fault)
	case "lose":
		r.faults = append(r.faults, &caseFault{request: rest, times: 1, text: "no answer", after: true, at: p.At})
	case "when", "while":
		r.meetings = append(r.meetings, &caseMeeting{request: rest, early: verb == "while", acts: p.Body, at: p.At})
	}
	return nil
}

// plant puts into the world what is there before.
func (r *caseRun) plant() error {
	for _, line := range r.objects {
		if err := r.do("add " + line.Text); err != nil {
			return fmt.Errorf("%s: %w", line.At, err)
		}
	}
	return nil
}

// start makes the controller. lags are how many events old its first lists are, by resource.
func (r *caseRun) start(lags ...lag) {
	r.component = r.host.Process("attachdetach")
	cfg := r.cfg
	cfg.Process = r.component
	cfg.Client = r.server.Client(between{r.component, r})
	cfg.Informers = r.server.Informers(r.component)
	cfg.Recorder = caseRecorder{r}
	cfg.Plugins = &plugins.Manager{}
	for _, l := range lags {
		r.server.DelayCache(r.component, l.resource, l.events)
	}
	if err := cfg.Plugins.Register(csi.New(csi.Config{
		Process: r.component, Client: cfg.Client,
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
	r.host.Crash(r.component)
	r.server.RemoveComponent(r.component)
	r.start(lags...)
}

// moveWhile moves actors of those that may, in the ordinary order, until none of them has anything to do.
func (r *caseRun) moveWhile(may func(actor string) bool) {
	for range 1000 {
		enabled := r.host.Enabled()
		i := slices.IndexFunc(enabled, may)
		if i < 0 {
			return
		}
		r.last, _, _ = strings.Cut(enabled[i], ": ")
		if err := r.host.StepTask(r.last); err != nil {
			panic(err)
		}
		r.moved()
	}
	r.problem("it comes to no end")
}

// runUntil lets the world go on until nothing is left to happen, or it is done.
func (r *caseRun) runUntil(done func() bool) error {
	for !done() && r.host.Step() {
		r.moved()
		if r.host.Steps() > 20_000 {
			return sim.ErrSteps
		}
	}
	return nil
}

// moved looks at who was moved: after some turns the controller crashes.
func (r *caseRun) moved() {
	if !controlTask.MatchString(r.last) && !strings.HasPrefix(r.last, "attacher/") {
		return
	}
	if r.turns++; r.crash.due(r.turns) {
		r.restart(r.crash.lags...)
	}
}

// isUsers reports whether an act happens outside the controller, which does not react yet.
func isUsers(act *casefile.Paragraph) bool {
	verb, _, _ := strings.Cut(act.Head, " ")
	return !slices.Contains([]string{"settle", "recover", "wait"}, verb)
}

// step executes one step and returns its sections. It returns none for an act that another step
// follows, nor where only the end matters.
func (r *caseRun) step(s *casefile.Step, quiet bool) ([]casefile.Section, error) {
	err := r.act(s.Act)
	if quiet || r.crash.after > 0 {
		return nil, err
	}
	sections := []casefile.Section{{Head: "after", Lines: r.state(nothing)}}
	calls, requests := r.records()
	for _, section := range []casefile.Section{
		{Head: "pictures", Lines: r.pictures(true)}, {Head: "events", Lines: r.events}, {Head: "calls", Lines: calls}, {Head: "requests", Lines: requests},
	} {
		asked := section.Head == "pictures" || section.Head == "requests"
		if asked && slices.Contains(s.Outcomes, section.Head) || !asked && len(section.Lines) > 0 {
			sections = append(sections, section)
		}
	}
	r.events = nil
	return sections, err
}

func (r *caseRun) act(p *casefile.Paragraph) error {
	verb, rest, _ := strings.Cut(p.Head, " ")
	switch verb {
	case "settle":
		return r.runUntil(func() bool { return false })
	case "recover":
		r.moveWhile(func(actor string) bool { return strings.HasPrefix(actor, "attachdetach/recover") })
	case "wait":
		limit, err := time.ParseDuration(rest)
		if err != nil {
			return err
		}
		return r.wait(limit)
	case "fail", "lose", "when", "while":
		return r.setUp(p)
	case "restart":
		r.restart(lagsOf(rest)...)
	case "relist":
		if !r.server.BreakWatch(r.component, rest) && r.crash.after == 0 {
			return fmt.Errorf("the cache of %s is not behind", rest)
		}
	default:
		return r.do(p.Head)
	}
	return nil
}

// lagsOf reads "RESOURCE=EVENTS …".
func lagsOf(text string) []lag {
	var lags []lag
	for word := range strings.FieldsSeq(text) {
		resource, events, _ := strings.Cut(word, "=")
		n, _ := strconv.Atoi(events)
		lags = append(lags, lag{resource, n})
	}
	return lags
}

// wait lets the world go on for so long, and everything happen that is due by then.
func (r *caseRun) wait(limit time.Duration) error {
	over := false
	clock := r.host.Process("clock")
	clock.Spawn("wait", func(context.Context) {
		clock.Sleep(limit)
		over = true
	})
	if err := r.runUntil(func() bool { return over }); err != nil {
		return err
	}
	return r.runUntil(func() bool { return !r.host.Busy() })
}

// rest lets all faults be over and nothing be left to happen, and keeps the state of things.
func (r *caseRun) rest() {
	r.faults, r.meetings, r.attacher.script = nil, nil, nil
	if err := r.runUntil(func() bool { return false }); err != nil {
		r.problem("it never comes to rest: %v", err)
	}
	r.out.rest = slices.Concat(r.state(r.kept), r.pictures(false))
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

// pictures tells what the controller wants and believes, and what it owes; or all of it that is the same after a restart.
func (r *caseRun) pictures(all bool) []string {
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

// records tells what the attacher was asked and what the controller asked of the server since it was last told, and when,
// counted from then.
func (r *caseRun) records() (calls, requests []string) {
	records := r.host.Log().Records()
	for _, record := range records[r.since:] {
		line := r.request(record.Action)
		if record.Err != nil {
			line += ": " + r.plain(record.Err.Error())
		} else if n, ok := record.After.(*corev1.Node); ok {
			line += " attached=" + attachedList(n)
		}
		when := ""
		if at := record.At - r.told; at > 0 {
			when = fmt.Sprintf("after %s: ", at)
		}
		switch {
		case record.Kind == trace.KindDriver:
			calls = append(calls, when+line)
			requests = append(requests, when+"attacher: "+line)
		case record.Kind == trace.KindAPI && controlTask.MatchString(record.Task):
			requests = append(requests, when+line)
		case record.Verb == "force-detach":
			requests = append(requests, fmt.Sprintf("%sforce detach of %s %s", when, called(corev1.UniqueVolumeName(record.Object)), record.Detail))
		}
	}
	r.since, r.told = len(records), r.host.Now().Sub(sim.Epoch)
	return calls, requests
}

// request names a request as the cases do, such as "patch/status node n1".
func (r *caseRun) request(a trace.Action) string {
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

// plain calls the attachments in a text as the cases do.
func (r *caseRun) plain(text string) string {
	for name, called := range r.called { // each is another's: no order
		text = strings.ReplaceAll(text, strconv.Quote(name), strconv.Quote(called))
	}
	return text
}

func (r *caseRun) checkLeftOvers() {
	for _, line := range r.attacher.unused() {
		r.problem("%s: the attacher was not asked", line.At)
	}
	for _, f := range r.faults {
		if f.times > 0 {
			r.problem("%s: %d more requests were to go wrong", f.at, f.times)
		}
	}
	for _, m := range r.meetings {
		r.problem("%s: there was no such request", m.at)
	}
}
