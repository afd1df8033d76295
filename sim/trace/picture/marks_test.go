package picture_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/sim/trace/picture"
)

// book writes records as a world does.
type book struct {
	records []trace.Record
	version int
}

func (b *book) add(task string, kind trace.Kind, verb, object string, out trace.Outcome) {
	n := len(b.records) + 1
	b.records = append(b.records, trace.Record{Step: n, HostStep: n, Task: task, Action: trace.Action{Kind: kind, Verb: verb, Object: object}, Outcome: out})
}

// writes records that a task creates a volume or changes its phase, and returns the version.
func (b *book) writes(task, name, was, is string) int {
	b.version++
	volume := func(phase string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PersistentVolumeStatus{Phase: corev1.PersistentVolumePhase(phase)}}
	}
	out := trace.Outcome{Detail: fmt.Sprintf("rv=%d", b.version), After: volume(is)}
	verb := "create"
	if was != "" {
		verb, out.Before = "update/status", volume(was)
	}
	b.add(task, trace.KindAPI, verb, "persistentvolumes/"+name, out)
	return b.version
}

// sees records the delivery of a version.
func (b *book) sees(process, name string, version int) {
	b.add(process+"/cache persistentvolumes", trace.KindDeliver, "MODIFIED", "persistentvolumes/"+name, trace.Outcome{Detail: fmt.Sprintf("rv=%d", version)})
}

func (b *book) lists(process string) {
	b.add(process+"/cache persistentvolumes", trace.KindDeliver, "LIST", "persistentvolumes", trace.Outcome{Detail: fmt.Sprintf("0 items rv=%d", b.version)})
}

// lines returns the number of drawn lines of a class, without the legend.
func lines(d *picture.Drawing, class string) int {
	svg := string(d.SVG())
	if i := strings.LastIndex(svg, `class="lane"`); i >= 0 && strings.Contains(svg[i:], "write or call") {
		svg = svg[:strings.LastIndex(svg[:strings.Index(svg, ">write or call<")], "<line")]
	}
	return len(regexp.MustCompile(`<(line|path) class="`+class+`"`).FindAllString(svg, -1))
}

// begun returns the records of two processes that list, and of a volume that both then see.
func begun() *book {
	b := &book{}
	b.lists("binder")
	b.lists("keeper")
	v := b.writes("alice", "disk", "", "Pending")
	b.sees("binder", "disk", v)
	b.sees("keeper", "disk", v)
	b.writes("keeper/volumes", "other", "", "Pending")
	b.sees("binder", "other", b.version)
	return b
}

func TestTimelyDeliveryIsNotAccented(t *testing.T) {
	b := begun()
	v := b.writes("keeper/volumes", "disk", "Pending", "Available")
	b.sees("binder", "disk", v)
	b.writes("binder/volumes", "disk", "Available", "Bound")
	b.sees("keeper", "disk", b.version)
	d := picture.SpaceTime(b.records, picture.Options{})
	if late, never, news := lines(d, "late"), lines(d, "never"), lines(d, "news"); late+never != 0 || news != 5 {
		t.Errorf("%d lines are late, %d never arrive, %d are in time; want 0, 0 and 5:\n%s", late, never, news, d.Text())
	}
}

func TestLateDeliveryIsAccented(t *testing.T) {
	b := begun()
	v := b.writes("keeper/volumes", "disk", "Pending", "Available")
	b.add("binder/volumes", trace.KindWork, "sync", "disk", trace.Outcome{})
	b.writes("binder/volumes", "another", "", "Pending") // without having seen it
	b.sees("binder", "disk", v)
	d := picture.SpaceTime(b.records, picture.Options{})
	if late, never := lines(d, "late"), lines(d, "never"); late != 1 || never != 0 {
		t.Errorf("%d lines are late, %d never arrive; want 1 and 0:\n%s", late, never, d.Text())
	}
	for _, want := range []string{"cache of binder: volume disk is Pending; actual state: Available", "!3"} {
		if !strings.Contains(d.Text(), want) {
			t.Errorf("the text does not have %q:\n%s", want, d.Text())
		}
	}
	if !strings.Contains(d.Mermaid(), "rv 3 seen late") {
		t.Errorf("Mermaid's text does not say what is late:\n%s", d.Mermaid())
	}
	cut := b.records[:len(b.records)-1]
	d = picture.SpaceTime(cut, picture.Options{})
	if late, never := lines(d, "late"), lines(d, "never"); late != 0 || never != 1 {
		t.Errorf("without the delivery, %d lines are late, %d never arrive; want 0 and 1:\n%s", late, never, d.Text())
	}
	if !strings.Contains(d.Text(), "At the end: cache of binder: volume disk is Pending") {
		t.Errorf("the text does not show the stale cache at the end:\n%s", d.Text())
	}
}

// A delivery between a decision and its action comes too late for the action, but it does come.
func TestDeliveryBetweenDecisionAndActionIsLate(t *testing.T) {
	b := begun()
	v := b.writes("keeper/volumes", "disk", "Pending", "Available")
	b.add("binder/volumes", trace.KindWork, "sync", "disk", trace.Outcome{})
	b.sees("binder", "disk", v)
	b.writes("binder/volumes", "another", "", "Pending") // was decided before
	d := picture.SpaceTime(b.records, picture.Options{})
	if late, never := lines(d, "late"), lines(d, "never"); late != 1 || never != 0 {
		t.Errorf("%d lines are late, %d never arrive; want 1 and 0:\n%s", late, never, d.Text())
	}
	for i := range b.records { // the same on a live host, where the decision may be later
		b.records[i].HostStep = 0
	}
	d = picture.SpaceTime(b.records, picture.Options{})
	if late, never := lines(d, "late"), lines(d, "never"); late != 0 || never != 0 || strings.Contains(d.Text(), "actual state") {
		t.Errorf("on a live host %d lines are late, %d never arrive; want none:\n%s", late, never, d.Text())
	}
}

func TestConflictIsADashedLine(t *testing.T) {
	b := begun()
	resource := schema.GroupResource{Resource: "persistentvolumes"}
	b.add("binder/volumes", trace.KindAPI, "update", "persistentvolumes/disk", trace.Outcome{Err: apierrors.NewConflict(resource, "disk", errors.New("changed"))})
	for _, draw := range []func([]trace.Record, picture.Options) *picture.Drawing{picture.SpaceTime, picture.Sequence} {
		d := draw(b.records, picture.Options{})
		if refused, crosses := lines(d, "refused"), lines(d, "mark"); refused != 1 || crosses != 1 {
			t.Errorf("%d dashed lines and %d crosses, want one of each:\n%s", refused, crosses, d.Text())
		}
	}
}

func TestCrashIsAGapAndClearsTheCache(t *testing.T) {
	b := begun()
	b.add("world", trace.KindEvent, "crash", "binder", trace.Outcome{})
	b.writes("keeper/volumes", "disk", "Pending", "Available")
	b.lists("binder")
	b.writes("binder/volumes", "disk", "Available", "Bound")
	d := picture.SpaceTime(b.records, picture.Options{})
	if down, late := lines(d, "down"), lines(d, "late"); down != 1 || late != 0 {
		t.Errorf("%d gaps and %d late lines, want 1 and 0:\n%s", down, late, d.Text())
	}
	crashed := regexp.MustCompile(`(?m)^.*:.* \d+  keeper marks volume disk Available`)
	if !crashed.MatchString(d.Text()) {
		t.Errorf("the text does not show that binder is down:\n%s", d.Text())
	}
}

func TestRepetitionsAreFolded(t *testing.T) {
	b := begun()
	for range 15 {
		b.writes("binder/volumes", "disk", "Pending", "Available")
		b.writes("keeper/volumes", "disk", "Available", "Pending")
	}
	for name, draw := range map[string]func([]trace.Record, picture.Options) *picture.Drawing{"space-time": picture.SpaceTime, "sequence": picture.Sequence} {
		text := draw(b.records, picture.Options{}).Text()
		if n := strings.Count(text, "marks volume disk Available"); n != 1 || !strings.Contains(text, "these 2 steps 14 more times") {
			t.Errorf("%s: the repeated row occurs %d times, and is not folded into one round:\n%s", name, n, text)
		}
	}
}

func TestLongRunsAreCut(t *testing.T) {
	b := &book{}
	for i := range 1000 {
		b.writes("alice", fmt.Sprint("disk-", i), "", "Pending")
	}
	text := picture.SpaceTime(b.records, picture.Options{}).Text()
	for _, want := range []string{"disk-0 ", "disk-999 ", "… 841 rows omitted"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not have %q", want)
		}
	}
	if n := strings.Count(text, "creates volume"); n != 159 {
		t.Errorf("%d rows, want 159", n)
	}
}

func TestOptions(t *testing.T) {
	b := begun()
	b.writes("keeper/volumes", "disk", "Pending", "Available")
	all := picture.SpaceTime(b.records, picture.Options{}).Text()
	for _, tt := range []struct {
		name    string
		options picture.Options
		has     []string
		hasNot  []string
	}{
		{"objects", picture.Options{Objects: []string{"persistentvolumes/disk"}}, []string{"volume disk"}, []string{"volume other"}},
		{"after", picture.Options{After: 3}, []string{"creates volume other", "marks volume disk Available"}, []string{"creates volume disk"}},
		{"title", picture.Options{Title: "How <it> went"}, []string{"How <it> went"}, []string{"Writes, and"}},
		{"verdict", picture.Options{Verdict: []string{"all is well"}}, []string{"all is well"}, nil},
		{"remark", picture.Options{Remarks: []picture.Remark{{HostStep: 8, Words: "now look"}}}, []string{"now look"}, nil},
		{"strands", picture.Options{TaskLanes: true}, []string{"keeper/volumes"}, []string{"  keeper\n"}},
	} {
		d := picture.SpaceTime(b.records, tt.options)
		for _, want := range tt.has {
			if !strings.Contains(d.Text(), want) {
				t.Errorf("%s: the text does not have %q:\n%s", tt.name, want, d.Text())
			}
		}
		for _, no := range tt.hasNot {
			if !strings.Contains(all, no) && tt.name != "strands" {
				t.Fatalf("%s: %q is not in the default picture", tt.name, no)
			}
			if strings.Contains(d.Text(), no) {
				t.Errorf("%s: the text has %q:\n%s", tt.name, no, d.Text())
			}
		}
		viewBox(t, d.SVG())
	}
}

// A run without records has pictures, too.
func TestNothing(t *testing.T) {
	for kind, draw := range kinds {
		check(t, kind, draw(nil, picture.Options{}))
	}
}

func TestTimelineOfRetries(t *testing.T) {
	b := begun()
	busy := trace.Outcome{Err: errors.New("busy")}
	b.add("attacher/attachments", trace.KindDriver, "ControllerPublishVolume", "a.example.com/vol", busy)
	b.add("attacher/attachments", trace.KindDriver, "ControllerPublishVolume", "a.example.com/vol", busy)
	b.add("attacher/attachments", trace.KindDriver, "ControllerPublishVolume", "a.example.com/vol", trace.Outcome{Detail: "node=node-1"})
	for i := range b.records {
		b.records[i].At = time.Duration(max(0, i-7)) * time.Second
	}
	d := picture.Timeline(b.records, picture.Options{})
	svg := string(d.SVG())
	for what, want := range map[string]int{`<rect class="wait"`: 3, `<path class="mark"`: 3, ">waits 1s<": 2, "vol on node-1": 1} {
		if n := strings.Count(svg, what); n != want { // the first two are also in the legend
			t.Errorf("%s is there %d times, want %d:\n%s", what, n, want, d.Text())
		}
	}
}

func TestStatesNumberThePath(t *testing.T) {
	b := begun()
	b.writes("binder/volumes", "disk", "Pending", "Available")
	b.writes("binder/volumes", "disk", "Available", "Released") // no template has this
	text := picture.States(b.records, picture.Options{}).Text()
	for _, want := range []string{"absent     ──  1 ──> Pending", "Pending    ──  3 ──> Available", "Available  ──  4 ──> Released"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not have %q:\n%s", want, text)
		}
	}
}

// Actions before the first step of a stepped world have no number.
func TestActionsBeforeTheFirstStepHaveNoNumber(t *testing.T) {
	for turn, want := range map[int]string{0: "       alice creates volume disk", 7: "7  alice creates volume disk"} {
		b := &book{}
		b.lists("binder")
		b.writes("alice", "disk", "", "Pending")
		b.records[0].HostStep, b.records[1].HostStep = 5, turn
		if got := picture.SpaceTime(b.records, picture.Options{After: 1}).Text(); !strings.Contains(got, want) {
			t.Errorf("host step %d: there is no %q in\n%s", turn, want, got)
		}
	}
	live := &book{}
	live.lists("binder")
	live.writes("alice", "disk", "", "Pending")
	live.records[0].HostStep, live.records[1].HostStep = 0, 0
	if got := picture.SpaceTime(live.records, picture.Options{After: 1}).Text(); !strings.Contains(got, "2  alice creates volume disk") {
		t.Errorf("records of a live world are not numbered by their place in the log:\n%s", got)
	}
}

// A reader in the middle of a long picture sees which lane is which.
func TestLongPicturesRepeatTheirLaneNames(t *testing.T) {
	for _, tt := range []struct{ rows, times int }{{20, 1}, {25, 1}, {26, 2}, {45, 2}, {46, 3}, {160, 8}} {
		b := &book{}
		for i := range tt.rows {
			b.writes("alice", fmt.Sprint("disk-", i), "", "Pending")
		}
		for kind, draw := range map[string]func([]trace.Record, picture.Options) *picture.Drawing{"space-time": picture.SpaceTime, "sequence": picture.Sequence} {
			d := draw(b.records, picture.Options{})
			if n := 1 + len(regexp.MustCompile(`class="halo"[^>]*>API server<`).FindAllString(string(d.SVG()), -1)); n != tt.times {
				t.Errorf("%s of %d rows: %d lines of lane names, want %d", kind, tt.rows, n, tt.times)
			}
			if n := strings.Count(d.Text(), "  API server\n"); n != tt.times {
				t.Errorf("%s of %d rows as text: %d lines of lane names, want %d:\n%s", kind, tt.rows, n, tt.times, d.Text())
			}
			check(t, kind, d)
		}
	}
}

// A picture of the last records has its lanes in the order of the whole run, so that they do not swap
// places while the run goes on.
func TestLanesKeepTheirOrder(t *testing.T) {
	b := &book{}
	b.writes("binder/volumes", "one", "", "Pending")
	b.add("attacher/attachments", trace.KindDriver, "ControllerPublishVolume", "b.example.com/vol", trace.Outcome{Detail: "node=node-1"})
	b.add("keeper/volumes", trace.KindDriver, "ControllerPublishVolume", "a.example.com/vol", trace.Outcome{Detail: "node=node-1"})
	after := len(b.records)
	b.writes("keeper/volumes", "two", "", "Pending")
	b.add("attacher/attachments", trace.KindDriver, "ControllerUnpublishVolume", "a.example.com/vol", trace.Outcome{Detail: "node=node-1"})
	b.writes("binder/volumes", "three", "", "Pending")
	b.add("attacher/attachments", trace.KindDriver, "ControllerUnpublishVolume", "b.example.com/vol", trace.Outcome{Detail: "node=node-1"})
	order := func(text string) (all []string) {
		for line := range strings.Lines(text) {
			name := strings.Trim(line, " │\n")
			if strings.HasSuffix(line, "  "+name+"\n") && !strings.Contains(name, " ") {
				all = append(all, name)
			}
		}
		return all
	}
	for kind, draw := range map[string]func([]trace.Record, picture.Options) *picture.Drawing{"space-time": picture.SpaceTime, "sequence": picture.Sequence} {
		for _, after := range []int{0, after} {
			text := draw(b.records, picture.Options{After: after}).Text()
			want := []string{"binder", "attacher", "keeper", "b.example.com", "a.example.com"}
			if got := order(text); !slices.Equal(got, want) {
				t.Errorf("%s after step %d: lanes %v, want %v:\n%s", kind, after, got, want, text)
			}
		}
	}
}

// A picture of the latest records also has the lanes that have no event in them, except for those of
// the set-up and of tasks.
func TestLanesStay(t *testing.T) {
	b := &book{}
	b.writes("creator/volumes", "zero", "", "Pending")
	setUp := len(b.records)
	b.writes("alice", "one", "", "Pending")
	b.writes("kubelet(node-1)/volumes", "one", "Pending", "Available")
	b.add("attacher/attachments", trace.KindDriver, "ControllerPublishVolume", "a.example.com/vol", trace.Outcome{Detail: "node=node-1"})
	b.writes("keeper/volumes", "one", "Available", "Bound")
	b.writes("bob", "two", "", "Pending")
	b.writes("keeper/volumes", "two", "Pending", "Available")
	lanes := func(o picture.Options) (all []string) {
		t.Helper()
		o.After = setUp
		d := picture.SpaceTime(b.records, o)
		check(t, "lanes", d)
		for _, name := range []string{"alice", "bob", "API server", "creator", "attacher", "keeper", "kubelet(node-1)", "driver", "keeper/volumes", "a.example.com", "b.example.com"} {
			if strings.Contains(string(d.SVG()), ">"+name+"<") {
				all = append(all, name)
			}
		}
		return all
	}
	whole := []string{"alice", "bob", "API server", "attacher", "keeper", "kubelet(node-1)", "driver"}
	for _, latest := range []int{0, 1, 2, 4, 100} {
		if got := lanes(picture.Options{Latest: latest}); !slices.Equal(got, whole) {
			t.Errorf("the latest %d records: lanes %v, want %v", latest, got, whole)
		}
	}
	if got, want := lanes(picture.Options{Latest: 1, TaskLanes: true}), []string{"API server", "keeper/volumes"}; !slices.Equal(got, want) {
		t.Errorf("the latest record with a lane for each task: %v, want %v", got, want)
	}
	b.add("attacher/attachments", trace.KindDriver, "ControllerPublishVolume", "b.example.com/vol", trace.Outcome{Detail: "node=node-1"})
	if got, want := lanes(picture.Options{Latest: 1}), append(whole[:6:6], "a.example.com", "b.example.com"); !slices.Equal(got, want) {
		t.Errorf("two drivers: lanes %v, want %v", got, want)
	}
}

// Pods have states, too, and a key says what shapes and numbers mean.
func TestStatesHavePodsAndAKey(t *testing.T) {
	b := begun()
	pod := func(phase corev1.PodPhase, node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase}}
	}
	b.add("alice", trace.KindAPI, "create", "pods/default/web", trace.Outcome{Detail: "rv=20", After: pod("", "")})
	b.add("scheduler/pods", trace.KindAPI, "create/binding", "pods/default/web", trace.Outcome{Detail: "rv=21", Before: pod("", ""), After: pod("", "node-1")})
	b.add("kubelet(node-1)/pods", trace.KindAPI, "patch/status", "pods/default/web", trace.Outcome{Detail: "rv=22", Before: pod("", "node-1"), After: pod("Running", "node-1")})
	d := picture.States(b.records, picture.Options{})
	lines := regexp.MustCompile(`(?m)^Pod default/web\n  absent     ──  \d ──> Pending\n  Pending    ──  \d ──> starting\n  starting   ──  \d ──> Running$`)
	if !lines.MatchString(d.Text()) {
		t.Errorf("the text does not show the states of the pod:\n%s", d.Text())
	}
	if !strings.Contains(d.Text(), "──  4 ──> transition") {
		t.Errorf("the text has no key:\n%s", d.Text())
	}
	for _, want := range []string{">Pod default/web<", ">current state<", ">earlier state<", ">not reached<", ">possible transition<", ">transition, with the numbers of its changes<"} {
		if !strings.Contains(string(d.SVG()), want) {
			t.Errorf("the picture does not have %s", want)
		}
	}
	check(t, "states", d)
}

// In a narrow picture the words of all rows are in view without scrolling.
func TestNarrowPicturesHaveTheirWordsBelow(t *testing.T) {
	for name, r := range runs(t) {
		for _, width := range []int{320, 400, 600, 1400} {
			r.options.Width = width
			d := picture.SpaceTime(r.records, r.options)
			check(t, name, d)
			texts, all := d.Layout()
			for _, text := range texts {
				if right := text.Box.Max.X - all.Min.X; right > width && strings.Contains(text.Words, " ") {
					t.Errorf("%s, %d pixels wide: %q reaches to %d", name, width, text.Words, right)
				}
			}
		}
		wide := r.options
		wide.Width = 0
		if a, b := picture.SpaceTime(r.records, r.options).Text(), picture.SpaceTime(r.records, wide).Text(); a != b {
			t.Errorf("%s: the text depends on the width", name)
		}
	}
}
