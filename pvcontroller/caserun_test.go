package pvcontroller

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/casefile"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// deletedAt is when objects that are being deleted from the start were deleted.
var deletedAt = sim.Epoch.Add(-time.Hour)

// A caseRun is one run of a case in a stepped world with only an API server and the controller.
type caseRun struct {
	host      *sim.Stepped
	server    *fake.Server
	component *sim.Process
	control   *Controller
	script    *script
	faults    []*fault
	meetings  []*meeting
	hidden    []string // objects that the controller is not told of
	cfg       Config
	since     int           // how many records of the trace were told of
	told      time.Duration // when, since the world began
	events    []string
	out       outcome
}

// fault lets requests fail, without effect.
type fault struct {
	request string
	times   int
	err     error
	at      string
}

// A meeting is an act just before a request takes effect.
type meeting struct {
	request string
	acts    []casefile.Line
	at      string
}

// grammar tells the paragraphs of these cases apart.
var grammar = casefile.Grammar{
	Setup: regexp.MustCompile(`^(before|migration( \S+)+|no provisioning|plugin( that only provisions)?|` +
		`fail \S+ \S+ \S+( \d+ times)?: .+|when \S+ \S+ \S+)$`),
	Act:      regexp.MustCompile(`^(sync (claim|volume) \S+|settle|delete (claim|volume) \S+|(add|set) .+)$`),
	Outcomes: []string{"error", "after", "events", "requests"},
}

// An outcome is the result of a case.
type outcome struct {
	steps    [][]casefile.Section
	problems []string
	trace    string
}

// run lets a case happen once. The error is of a case that cannot be read.
func run(f *casefile.File, c *casefile.Case) (outcome, error) {
	r := &caseRun{host: sim.NewStepped(sim.SteppedConfig{StepsMax: 20_000})}
	defer r.host.Close()
	r.server = fake.NewServer(fake.Config{Now: r.host.Now})
	r.component = r.host.Process("pvcontroller")
	for _, b := range slices.Concat(f.Always, c.Setup) {
		if err := r.setUp(b); err != nil {
			return r.out, fmt.Errorf("%s: %w", b.At, err)
		}
	}
	if err := r.start(); err != nil {
		return r.out, fmt.Errorf("%s: %w", c.At, err)
	}
	for i, s := range c.Steps {
		came, err := r.step(s, i+1 < len(c.Steps) && isUsers(s.Act))
		if err != nil {
			return r.out, fmt.Errorf("%s: %w", s.Act.At, err)
		}
		r.out.steps = append(r.out.steps, came)
	}
	r.checkLeftOvers()
	if r.script == nil { // a plugin would be asked for more than the case tells of
		if err := r.host.Run(); err != nil {
			r.problem("it never comes to rest: %v", err)
		}
	}
	r.out.trace = r.host.Log().Text()
	return r.out, nil
}

func (r *caseRun) problem(format string, args ...any) {
	r.out.problems = append(r.out.problems, fmt.Sprintf(format, args...))
}

var faultHead = regexp.MustCompile(`^fail (\S+ \S+ \S+?)( (\d+) times)?: (.+)$`)

// setUp takes in a block of what is there before.
func (r *caseRun) setUp(b *casefile.Paragraph) error {
	verb, rest, _ := strings.Cut(b.Head, " ")
	switch verb {
	case "always", "before":
		return r.takeObjects(b)
	case "migration":
		r.cfg.Migration = plugins.Migration{}
		for pair := range strings.FieldsSeq(rest) {
			if plugin, driver, found := strings.Cut(pair, "="); found {
				r.cfg.Migration[plugin] = driver
			}
		}
	case "no":
		r.cfg.NoProvisioning = true
	case "plugin":
		r.script = &script{component: r.component, lines: b.Body, problem: r.problem}
		r.cfg.Plugins = &plugins.Manager{}
		var plugin plugins.Plugin = wholePlugin{provisionOnly{r.script}}
		if rest != "" {
			plugin = provisionOnly{r.script}
		}
		if err := r.script.checkLines(); err != nil {
			return err
		}
		return r.cfg.Plugins.Register(plugin)
	case "fail":
		m := faultHead.FindStringSubmatch(b.Head)
		times, err := strconv.Atoi(m[3])
		if err != nil {
			times = 1
		}
		r.faults = append(r.faults, &fault{request: m[1], times: times, err: faultOf(m[1], m[4]), at: b.At})
	case "when":
		r.meetings = append(r.meetings, &meeting{request: rest, acts: b.Body, at: b.At})
	}
	return nil
}

// faultOf is the error that a text stands for, as an answer to a request such as "update claim c".
func faultOf(request, text string) error {
	words := strings.Fields(request)
	resource, _ := resourceOf(words[1])
	of := schema.GroupResource{Resource: resource}
	switch text {
	case "conflict":
		return apierrors.NewConflict(of, words[2], errors.New("somebody else wrote"))
	case "already exists":
		return apierrors.NewAlreadyExists(of, words[2])
	default:
		return errors.New(text)
	}
}

func (r *caseRun) takeObjects(b *casefile.Paragraph) error {
	for _, line := range b.Body {
		if text, found := strings.CutPrefix(line.Text, "hidden "); found {
			r.hidden = append(r.hidden, text)
			continue
		}
		obj, err := readObject(line.Text)
		if err != nil {
			return fmt.Errorf("%s: %w", line.At, err)
		}
		if err := r.server.Add(obj); err != nil {
			return fmt.Errorf("%s: %w", line.At, err)
		}
	}
	return nil
}

// start makes the controller and lets it list what is there; then comes what it is not told of.
func (r *caseRun) start() error {
	r.cfg.Process = r.component
	r.cfg.Client = r.server.Client(between{r.component, r})
	r.cfg.Informers = r.server.Informers(r.component)
	r.cfg.Recorder = recorder{r}
	r.control = New(r.cfg)
	r.moveWhile(func(actor string) bool { return strings.HasPrefix(actor, "pvcontroller/cache ") })
	for _, line := range r.hidden {
		obj, err := readObject(line)
		if err != nil {
			return err
		}
		if c, ok := obj.(*corev1.PersistentVolumeClaim); ok && r.isThere("claim", c.Name) {
			if err := r.remove("persistentvolumeclaims", "default", c.Name); err != nil {
				return err
			}
		}
		if err := r.server.Add(obj); err != nil {
			return err
		}
	}
	r.since = len(r.host.Log().Records())
	return nil
}

// moveWhile moves actors of those that may, in the ordinary order, until none of them has anything to do.
func (r *caseRun) moveWhile(may func(actor string) bool) {
	for range 1000 {
		i := slices.IndexFunc(r.host.Enabled(), may)
		if i < 0 {
			return
		}
		actor, _, _ := strings.Cut(r.host.Enabled()[i], ": ")
		if err := r.host.StepTask(actor); err != nil {
			panic(err)
		}
	}
	r.problem("it comes to no end")
}

// isUsers reports whether an act happens outside the controller, which does not react yet.
func isUsers(act *casefile.Paragraph) bool {
	verb, _, _ := strings.Cut(act.Head, " ")
	return verb != "sync" && verb != "settle"
}

// step executes one step and returns its sections; none for an act that another step follows.
func (r *caseRun) step(s *casefile.Step, quiet bool) ([]casefile.Section, error) {
	var failed, err error
	verb, rest, _ := strings.Cut(s.Act.Head, " ")
	switch verb {
	case "sync":
		kind, name, _ := strings.Cut(rest, " ")
		failed = r.sync(kind, name)
	case "settle":
		err = r.host.Run()
	default:
		err = r.do(s.Act.Head)
	}
	if quiet {
		return nil, err
	}
	var sections []casefile.Section
	if failed != nil {
		sections = append(sections, casefile.Section{Head: "error", Lines: []string{failed.Error()}})
	}
	sections = append(sections, casefile.Section{Head: "after", Lines: r.state()})
	if len(r.events) > 0 {
		sections = append(sections, casefile.Section{Head: "events", Lines: r.events})
	}
	r.events = nil
	if requests := r.requests(); slices.Contains(s.Outcomes, "requests") {
		sections = append(sections, casefile.Section{Head: "requests", Lines: requests})
	}
	return sections, err
}

// sync lets the controller look at one claim or volume, and finish what it starts about it, waits included. Nothing is
// delivered to its caches meanwhile, and it looks at nothing else.
func (r *caseRun) sync(kind, name string) error {
	var err error
	r.component.Spawn("sync", func(ctx context.Context) {
		r.component.Record(trace.Action{Kind: trace.KindWork, Verb: "sync", Object: kind + " " + name}, trace.Outcome{})
		if kind == "claim" {
			err = r.control.syncClaimKey(ctx, "default/"+name)
		} else {
			err = r.control.syncVolumeKey(ctx, name)
		}
	})
	for range 100 {
		r.moveWhile(isOfSync)
		if len(r.control.unsaved) == 0 {
			return err
		}
		for _, u := range r.control.unsaved { // there is one at most
			r.host.SetTime(u.due)
		}
	}
	r.problem("a volume that was made is never saved")
	return err
}

var ofSync = regexp.MustCompile(`^pvcontroller/(sync|save|(provision|save|clean|delete|recycle) \S+)(: .*)?$`)

// isOfSync reports whether a task is a sync or an operation.
func isOfSync(task string) bool { return ofSync.MatchString(task) }

// do executes an act of another program at once.
func (r *caseRun) do(text string) error {
	verb, rest, _ := strings.Cut(text, " ")
	if verb == "delete" {
		kind, name, _ := strings.Cut(rest, " ")
		resource, namespace := resourceOf(kind)
		return r.remove(resource, namespace, name)
	}
	obj, err := readObject(rest)
	if err != nil {
		return err
	}
	if verb == "add" {
		return r.server.Add(obj)
	}
	set, ok := obj.(*corev1.PersistentVolume)
	if !ok {
		return fmt.Errorf("%s: only a volume can be set", text)
	}
	r.server.UpdateStored("persistentvolumes", "", set.Name, func(stored fake.Object) fake.Object {
		set.UID, set.CreationTimestamp = stored.GetUID(), stored.GetCreationTimestamp()
		return set
	})
	return nil
}

// remove deletes an object, whatever protects it.
func (r *caseRun) remove(resource, namespace, name string) error {
	r.server.UpdateStored(resource, namespace, name, func(stored fake.Object) fake.Object {
		if len(stored.GetFinalizers()) == 0 {
			return nil
		}
		obj := stored.DeepCopyObject().(fake.Object)
		obj.SetFinalizers(nil)
		return obj
	})
	user := r.server.Client(atOnce{r.host}).CoreV1()
	if namespace != "" {
		return user.PersistentVolumeClaims(namespace).Delete(context.Background(), name, metav1.DeleteOptions{})
	}
	return user.PersistentVolumes().Delete(context.Background(), name, metav1.DeleteOptions{})
}

// atOnce is a caller whose requests take no step.
type atOnce struct{ host sim.Host }

func (a atOnce) Call(_ trace.Action, effect func() trace.Outcome) trace.Outcome { return effect() }
func (a atOnce) Now() time.Time                                                 { return a.host.Now() }

func (r *caseRun) isThere(kind, name string) bool {
	resource, namespace := resourceOf(kind)
	_, ok := r.server.Get(resource, namespace, name)
	return ok
}

func resourceOf(kind string) (resource, namespace string) {
	if kind == "claim" {
		return "persistentvolumeclaims", "default"
	}
	return "persistentvolumes", ""
}

// state tells of all volumes and claims there are.
func (r *caseRun) state() []string {
	var lines []string
	tellOf := func(obj runtime.Object, line string) {
		if err := untold(obj); err != nil {
			r.problem("%v", err)
		}
		lines = append(lines, line)
	}
	for _, obj := range r.server.List("persistentvolumes") {
		v := obj.(*corev1.PersistentVolume)
		tellOf(v, tellVolume(v))
	}
	for _, obj := range r.server.List("persistentvolumeclaims") {
		c := obj.(*corev1.PersistentVolumeClaim)
		tellOf(c, tellClaim(c))
	}
	return lines
}

// requests tells what the controller asked of the server and the plugin since it was last told, and when, counted from then.
func (r *caseRun) requests() []string {
	var lines []string
	records := r.host.Log().Records()
	for _, record := range records[r.since:] {
		line := requestOfAction(record.Action)
		switch {
		case record.Kind == trace.KindDriver:
			line = "plugin: " + line
		case record.Kind != trace.KindAPI:
			continue
		}
		if record.Err != nil {
			line += ": " + record.Err.Error()
		}
		if at := record.At - r.told; at > 0 {
			line = fmt.Sprintf("after %s: %s", at, line)
		}
		lines = append(lines, line)
	}
	r.since, r.told = len(records), r.host.Now().Sub(sim.Epoch)
	return lines
}

// requestOfAction names a request as the cases do, such as "update/status claim c".
func requestOfAction(a trace.Action) string {
	object := a.Object
	for _, kind := range []struct{ path, noun string }{
		{"persistentvolumes/", "volume "}, {"persistentvolumeclaims/default/", "claim "}, {"nodes/", "node "},
	} {
		object = strings.Replace(object, kind.path, kind.noun, 1)
	}
	return a.Verb + " " + object
}

func (r *caseRun) checkLeftOvers() {
	if r.script != nil {
		for _, line := range r.script.lines[r.script.next:] {
			r.problem("%s: the plugin was not asked", line.At)
		}
	}
	for _, f := range r.faults {
		if f.times > 0 {
			r.problem("%s: %d more requests were to fail", f.at, f.times)
		}
	}
	for _, m := range r.meetings {
		r.problem("%s: there was no such request", m.at)
	}
}

// before executes the acts scripted just before a request takes effect, and returns its scripted
// error.
func (r *caseRun) before(request string) error {
	if i := slices.IndexFunc(r.meetings, func(m *meeting) bool { return m.request == request }); i >= 0 {
		m := r.meetings[i]
		r.meetings = slices.Delete(r.meetings, i, i+1)
		for _, act := range m.acts {
			if err := r.do(act.Text); err != nil {
				r.problem("%s: %v", act.At, err)
			}
		}
	}
	for _, f := range r.faults {
		if f.request == request && f.times > 0 {
			f.times--
			return f.err
		}
	}
	return nil
}

// between stands between the controller and the server.
type between struct {
	sim.Caller
	run *caseRun
}

func (b between) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return b.Caller.Call(action, func() trace.Outcome {
		if err := b.run.before(requestOfAction(action)); err != nil {
			return trace.Outcome{Err: err}
		}
		return effect()
	})
}

// recorder keeps what the controller tells, in order.
type recorder struct{ run *caseRun }

func (e recorder) Event(about runtime.Object, severity, reason, text string) {
	line := fmt.Sprintf("%s: %s %s: %s", nameOf(about), severity, reason, text)
	e.run.events = append(e.run.events, line)
	e.run.component.Record(trace.Action{Kind: trace.KindWork, Verb: "tell", Object: line}, trace.Outcome{})
}

func (e recorder) Eventf(about runtime.Object, severity, reason, format string, args ...any) {
	e.Event(about, severity, reason, fmt.Sprintf(format, args...))
}

func (e recorder) AnnotatedEventf(
	about runtime.Object, _ map[string]string, severity, reason, format string, args ...any,
) {
	e.Event(about, severity, reason, fmt.Sprintf(format, args...))
}

func nameOf(obj runtime.Object) string {
	switch o := obj.(type) {
	case *corev1.PersistentVolume:
		return "volume " + o.Name
	case *corev1.PersistentVolumeClaim:
		return "claim " + o.Name
	default:
		return reflect.TypeOf(obj).String()
	}
}
