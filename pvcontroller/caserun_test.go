package pvcontroller

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
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
	casefile.Run
	server  *fake.Server
	control *Controller
	script  *script
	hidden  []casefile.Line // objects that the controller's caches do not receive
	cfg     Config
}

// grammar defines the paragraphs of these cases.
var grammar = casefile.Grammar{
	Setup: regexp.MustCompile(`^(before|migration( \S+)+|no provisioning|plugin( that only provisions)?|` +
		`fail \S+ \S+ \S+( \d+ times)?: .+|when \S+ \S+ \S+)$`),
	Act:      regexp.MustCompile(`^(sync (claim|volume) \S+|settle|delete (claim|volume) \S+|(add|set) .+)$`),
	Outcomes: []string{"error", "after", "events", "requests"},
}

// runCase executes a case once. An error means that the case is malformed.
func runCase(f *casefile.File, c *casefile.Case) (casefile.Outcome, error) {
	r := &caseRun{}
	r.Host = sim.NewStepped(sim.SteppedConfig{StepsMax: 20_000})
	defer r.Host.Close()
	r.server = fake.NewServer(fake.Config{Now: r.Host.Now})
	r.Process = r.Host.Process("pvcontroller")
	if err := r.Execute(f, c, r, "sync", "settle"); err != nil {
		return r.Outcome, err
	}
	if r.script != nil {
		for _, line := range r.script.lines[r.script.next:] {
			r.Problem("%s: the plugin was not called", line.At)
		}
	} else if err := r.Host.Run(); err != nil { // a plugin would be called more often than the case states
		r.Problem("no quiescence: %v", err)
	}
	r.Outcome.Trace = r.Host.Log()
	return r.Outcome, nil
}

// SetUp executes a paragraph of the setup.
func (r *caseRun) SetUp(b *casefile.Paragraph) error {
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
		r.script = &script{component: r.Process, lines: b.Body, problem: r.Problem}
		r.cfg.Plugins = &plugins.Manager{}
		var plugin plugins.Plugin = wholePlugin{provisionOnly{r.script}}
		if rest != "" {
			plugin = provisionOnly{r.script}
		}
		if err := r.script.checkLines(); err != nil {
			return err
		}
		return r.cfg.Plugins.Register(plugin)
	}
	return nil
}

// Fault returns the error for a text, as an answer to a request such as "update claim c".
func (r *caseRun) Fault(request, text string) error {
	words := strings.Fields(request)
	resource, _ := resourceOf(words[1])
	of := schema.GroupResource{Resource: resource}
	switch text {
	case "conflict":
		return apierrors.NewConflict(of, words[2], errors.New("changed by another client"))
	case "already exists":
		return apierrors.NewAlreadyExists(of, words[2])
	default:
		return errors.New(text)
	}
}

func (r *caseRun) takeObjects(b *casefile.Paragraph) error {
	for _, line := range b.Body {
		if text, found := strings.CutPrefix(line.Text, "hidden "); found {
			r.hidden = append(r.hidden, casefile.Line{Text: text, At: line.At})
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

// Start starts the controller and lets it list the objects. Then it adds the hidden ones.
func (r *caseRun) Start() error {
	r.cfg.Process = r.Process
	r.cfg.Client = r.server.Client(r.Intercept(r.Process))
	r.cfg.Informers = r.server.Informers(r.Process)
	r.cfg.Recorder = casefile.Recorder(r.event)
	r.control = New(r.cfg)
	r.StepWhile(func(task string) bool { return strings.HasPrefix(task, "pvcontroller/cache ") })
	for _, line := range r.hidden {
		if err := r.addHidden(line.Text); err != nil {
			return fmt.Errorf("%s: %w", line.At, err)
		}
	}
	return nil
}

func (r *caseRun) addHidden(line string) error {
	obj, err := readObject(line)
	if err != nil {
		return err
	}
	if c, ok := obj.(*corev1.PersistentVolumeClaim); ok && r.isThere("claim", c.Name) {
		if err := r.remove("persistentvolumeclaims", "default", c.Name); err != nil {
			return err
		}
	}
	return r.server.Add(obj)
}

// Step executes one step and returns its sections; none for an act that another step follows.
func (r *caseRun) Step(s *casefile.Step, quiet bool) ([]casefile.Section, error) {
	var failed, err error
	verb, rest, _ := strings.Cut(s.Act.Head, " ")
	switch verb {
	case "sync":
		kind, name, _ := strings.Cut(rest, " ")
		failed = r.sync(kind, name)
	case "settle":
		err = r.Host.Run()
	default:
		err = r.Do(s.Act.Head)
	}
	if quiet {
		return nil, err
	}
	var sections []casefile.Section
	if failed != nil {
		sections = append(sections, casefile.Section{Head: "error", Lines: []string{failed.Error()}})
	}
	sections = append(sections, casefile.Section{Head: "after", Lines: r.state()})
	return append(sections, s.Select([]casefile.Section{
		{Head: "events", Lines: r.TakeEvents()},
		{Head: "requests", Lines: r.requests()},
	}, "requests")...), err
}

// sync runs one sync of a claim or volume, including the operations that it starts and all waits.
// No events are delivered to the caches meanwhile, and no other key is synced.
func (r *caseRun) sync(kind, name string) error {
	var err error
	r.Process.Spawn("sync", func(ctx context.Context) {
		r.Process.Record(trace.Action{Kind: trace.KindWork, Verb: "sync", Object: kind + " " + name}, trace.Outcome{})
		if kind == "claim" {
			err = r.control.syncClaimKey(ctx, "default/"+name)
		} else {
			err = r.control.syncVolumeKey(ctx, name)
		}
	})
	for range 100 {
		r.StepWhile(isOfSync)
		if len(r.control.unsaved) == 0 {
			return err
		}
		for _, u := range r.control.unsaved { // one at most
			r.Host.SetTime(u.due)
		}
	}
	r.Problem("a provisioned volume is never saved")
	return err
}

var ofSync = regexp.MustCompile(`^pvcontroller/(sync|save|(provision|save|clean|delete|recycle) \S+)(: .*)?$`)

// isOfSync reports whether a task is a sync or an operation.
func isOfSync(task string) bool { return ofSync.MatchString(task) }

// Do executes an action of another program immediately.
func (r *caseRun) Do(text string) error {
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

// remove deletes an object and its finalizers.
func (r *caseRun) remove(resource, namespace, name string) error {
	r.server.UpdateStored(resource, namespace, name, func(stored fake.Object) fake.Object {
		if len(stored.GetFinalizers()) == 0 {
			return nil
		}
		obj := stored.DeepCopyObject().(fake.Object)
		obj.SetFinalizers(nil)
		return obj
	})
	user := r.server.Client(r.User()).CoreV1()
	if namespace != "" {
		return user.PersistentVolumeClaims(namespace).Delete(context.Background(), name, metav1.DeleteOptions{})
	}
	return user.PersistentVolumes().Delete(context.Background(), name, metav1.DeleteOptions{})
}

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

// state returns all volumes and claims.
func (r *caseRun) state() []string {
	var lines []string
	tellOf := func(obj runtime.Object, line string) {
		if err := undescribed(obj); err != nil {
			r.Problem("%v", err)
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

// requests returns the requests to the server and the plugin since the previous call.
func (r *caseRun) requests() []string {
	var lines []string
	for after, record := range r.NewRecords() {
		line := r.Request(record.Action)
		switch {
		case record.Kind == trace.KindDriver:
			line = "plugin: " + line
		case record.Kind != trace.KindAPI:
			continue
		}
		if record.Err != nil {
			line += ": " + record.Err.Error()
		}
		lines = append(lines, after+line)
	}
	return lines
}

// Request names a request as the cases do, such as "update/status claim c".
func (r *caseRun) Request(a trace.Action) string {
	object := a.Object
	for _, kind := range []struct{ path, noun string }{
		{"persistentvolumes/", "volume "}, {"persistentvolumeclaims/default/", "claim "}, {"nodes/", "node "},
	} {
		object = strings.Replace(object, kind.path, kind.noun, 1)
	}
	return a.Verb + " " + object
}

// event records an event of the controller.
func (r *caseRun) event(about runtime.Object, severity, reason, text string) {
	r.AddEvent(fmt.Sprintf("%s: %s %s: %s", nameOf(about), severity, reason, text))
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
