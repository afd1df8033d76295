package casefile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/internal/casefile"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var runGrammar = casefile.Grammar{
	Setup:    regexp.MustCompile(`^(before|(fail|lose|when|while) .+)$`),
	Act:      regexp.MustCompile(`^(request .+|add .+)$`),
	Outcomes: []string{"effects", "events", "requests"},
}

// runWorld is a World whose controller sends the requests of the case. Its state is the list of the
// requests that took effect and of the acts.
type runWorld struct {
	casefile.Run
	caller  sim.Caller
	effects []string
}

func (w *runWorld) SetUp(p *casefile.Paragraph) error {
	for _, line := range p.Body {
		w.effects = append(w.effects, line.Text)
	}
	return nil
}

func (w *runWorld) Start() error {
	w.caller = w.Intercept(w.Process)
	return nil
}

func (w *runWorld) Step(s *casefile.Step, quiet bool) ([]casefile.Section, error) {
	verb, rest, _ := strings.Cut(s.Act.Head, " ")
	if verb == "add" {
		if err := w.Do(rest); quiet || err != nil {
			return nil, err
		}
	} else {
		w.Process.Spawn("work", func(context.Context) { w.request(rest) })
		w.StepWhile(func(task string) bool { return strings.HasPrefix(task, "controller/work") })
	}
	sections := s.Select([]casefile.Section{
		{Head: "effects", Lines: slices.Clone(w.effects)},
		{Head: "events", Lines: w.TakeEvents()},
		{Head: "requests", Lines: w.requests()},
	}, "requests")
	w.Host.SetTime(w.Host.Now().Add(time.Second))
	return sections, nil
}

// request sends one request. Its failure is an event.
func (w *runWorld) request(object string) {
	out := w.caller.Call(trace.Action{Kind: trace.KindAPI, Verb: "get", Object: object}, func() trace.Outcome {
		w.effects = append(w.effects, object)
		return trace.Outcome{}
	})
	if out.Err != nil {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: object}}
		casefile.Recorder(w.event).AnnotatedEventf(pod, nil, corev1.EventTypeWarning, "Failed", "%v", out.Err)
	}
}

func (w *runWorld) event(object runtime.Object, eventType, reason, message string) {
	w.AddEvent(fmt.Sprintf("%s: %s %s: %s", object.(*corev1.Pod).Name, eventType, reason, message))
}

func (w *runWorld) requests() []string {
	var lines []string
	for after, record := range w.NewRecords() {
		if record.Kind == trace.KindAPI {
			lines = append(lines, after+w.Request(record.Action))
		}
	}
	return lines
}

func (w *runWorld) Do(act string) error {
	if act == "nothing" {
		return errors.New("nothing to do")
	}
	w.effects = append(w.effects, act)
	return nil
}

func (w *runWorld) Request(a trace.Action) string { return a.Verb + " " + a.Object }

func (w *runWorld) Fault(_, text string) error { return errors.New(text) }

func runIn(f *casefile.File, c *casefile.Case) (casefile.Outcome, error) {
	w := &runWorld{}
	w.Host = sim.NewStepped(sim.SteppedConfig{StepsMax: 1000})
	defer w.Host.Close()
	w.Process = w.Host.Process("controller")
	err := w.Execute(f, c, w, "request")
	w.Outcome.Trace = w.Host.Log()
	return w.Outcome, err
}

const runText = `always
  it

=== 1 faults and triggers
fail get a 2 times: refused
lose get b
while get b
  early
when get b
  late
request a
effects
  it
events
  a: Warning Failed: refused
request a
effects
  it
events
  a: Warning Failed: refused
requests
  after 1s: get a
request a
effects
  it
  a
request b
effects
  it
  a
  early
  late
  b
events
  b: Warning Failed: no answer

=== 2 each request
fail get a always: refused
add act
request a
effects
  it
  act
events
  a: Warning Failed: refused
requests
  get a
`

func TestRunRecordsOutcomes(t *testing.T) {
	f, err := runGrammar.Parse("f.txt", runText)
	if err != nil {
		t.Fatal(err)
	}
	outcomes := map[*casefile.Case][][]casefile.Section{}
	for _, c := range f.Cases {
		out, err := runIn(f, c)
		if err != nil || len(out.Problems) > 0 {
			t.Fatal(err, out.Problems)
		}
		outcomes[c] = out.Steps
	}
	if got := f.Render(outcomes); got != runText {
		t.Errorf("got\n%s\nwant\n%s", got, runText)
	}
}

func TestRunReportsDefects(t *testing.T) {
	casefile.Book{Grammar: runGrammar, Run: runIn}.TestDefects(t, []casefile.Defect{
		{"fault", "=== 1 one\nfail get a 3 times: no\nrequest a\n", "f.txt:2: faults not injected: 2"},
		{"trigger", "=== 1 one\nwhen get b\n  act\nrequest a\n", "f.txt:2: there was no such request"},
		{"act of a trigger", "=== 1 one\nwhen get a\n  nothing\nrequest a\n", "f.txt:3: nothing to do"},
		{"act", "=== 1 one\nadd nothing\n", "f.txt:2: nothing to do"},
		{"paragraph", "=== 1 one\nask\n", `f.txt:2: unexpected paragraph "ask"`},
	})
}

func TestReadObjects(t *testing.T) {
	kinds := []casefile.Kind{
		casefile.NewKind("volume NAME MODES", func(words []casefile.Word) (*corev1.PersistentVolume, error) {
			v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: words[0].Key}}
			v.Spec.AccessModes = casefile.ParseAccessModes(words[1].Key)
			return v, nil
		}, func(v *corev1.PersistentVolume) string {
			return "volume " + v.Name + " " + casefile.FormatAccessModes(v.Spec.AccessModes)
		}),
		casefile.NewKind("node", func([]casefile.Word) (*corev1.Node, error) { return nil, errors.New("no node") }, nil),
	}
	for line, want := range map[string]string{
		"volume v RWO,RWOP": "",
		"volume v RWO x":    `"volume v RWO x": write it as "volume v RWO"`,
		"volume v":          `"volume v": want volume NAME MODES, node`,
		"":                  `"": want volume NAME MODES, node`,
		"node n":            "no node",
		`volume v a="`:      "a: unterminated quote",
	} {
		_, err := casefile.ReadObjects(kinds, line)
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && got != want {
			t.Errorf("%q: %s, want %q", line, got, want)
		}
	}
}

// TestBookWritesOutcomes: with -update a file gets the outcomes of its cases, and the list its rows.
func TestBookWritesOutcomes(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("f.txt", strings.ReplaceAll(runText, "\n  it\n  act\n", "\n  other\n"))
	write("rows", "table x_test.go TestX 2\n1\n2\n")
	const begin, end = "<!-- cases: written by go test ./p -run TestUpstreamLists -update -->\n", "<!-- end of cases of p -->\n"
	write("list.md", begin+end)
	update := true
	book := casefile.Book{
		Grammar: runGrammar, Package: "p", Folder: folder, Markdown: filepath.Join(folder, "list.md"),
		Run:    runIn,
		Diff:   func(want, got []string) string { return cmp.Diff(want, got) },
		Update: &update,
	}
	for _, update = range []bool{true, false} {
		t.Run(fmt.Sprint("update ", update), func(t *testing.T) {
			book.TestCases(t)
			book.TestRows(t)
			book.TestDifferences(t)
			book.TestRowList(t)
		})
	}
	if text, err := os.ReadFile(filepath.Join(folder, "f.txt")); err != nil || string(text) != runText {
		t.Errorf("%v, got\n%s\nwant\n%s", err, text, runText)
	}
	if text, err := os.ReadFile(book.Markdown); err != nil || !strings.Contains(string(text), ": 1, 2 |") {
		t.Errorf("%v, got\n%s", err, text)
	}
}
