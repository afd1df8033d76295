package attachdetach_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/internal/casefile"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// askedAgain is after how long a case's attacher asks its driver again that failed.
const askedAgain = time.Second

// caseAttacher is as much of an external-attacher, and of the driver behind it, as the cases need: what a VolumeAttachment is made
// for it attaches, what one is deleted for it detaches. It answers ok at once, unless the case's script has a line for the call:
// "CALL -> ANSWER", the next one that is there for it.
type caseAttacher struct {
	component *sim.Process
	client    kubernetes.Interface
	run       *caseRun
	script    []casefile.Line
	next      map[string]int             // by call: how many of its lines were used
	attached  map[string]map[string]bool // the truth: by volume and node
	busy      map[string]bool            // by name of attachment
	dirty     bool
}

func newCaseAttacher(r *caseRun) *caseAttacher {
	a := &caseAttacher{
		component: r.Host.Process("attacher"), run: r,
		next: map[string]int{}, attached: map[string]map[string]bool{}, busy: map[string]bool{}, dirty: true,
	}
	a.client = r.server.Client(a.component)
	a.component.Worker("watch", func() bool { return a.dirty }, a.look)
	return a
}

// notice has it look at the attachments.
func (a *caseAttacher) notice() {
	a.dirty = true
	a.component.Wake()
}

func (a *caseAttacher) look(context.Context) {
	a.dirty = false
	for _, obj := range a.run.server.List("volumeattachments") {
		attachment := obj.(*storagev1.VolumeAttachment)
		if name := attachment.Name; isPending(attachment) && !a.busy[name] {
			a.busy[name] = true
			a.component.Spawn("answer "+a.run.nameOf(attachment), func(ctx context.Context) {
				a.answer(ctx, name)
				a.busy[name] = false
				a.notice()
			})
		}
	}
}

// isPending reports whether the attachment must still be attached or detached.
func isPending(attachment *storagev1.VolumeAttachment) bool {
	if attachment.DeletionTimestamp != nil {
		return slices.Contains(attachment.Finalizers, caseFinalizer)
	}
	return !attachment.Status.Attached
}

// answer does what the attachment asks for, once.
func (a *caseAttacher) answer(ctx context.Context, name string) {
	obj, found := a.run.server.Get("volumeattachments", "", name)
	if !found {
		return
	}
	attachment := obj.(*storagev1.VolumeAttachment)
	volume, node := a.run.handleOf(attachment), attachment.Spec.NodeName
	if attachment.DeletionTimestamp != nil {
		err := a.call("detach", volume, node)
		if err != nil {
			a.patchStatus(ctx, name, map[string]any{"detachError": volumeError(err)})
			a.component.Sleep(askedAgain)
			return
		}
		a.patch(ctx, name, map[string]any{"metadata": map[string]any{"$deleteFromPrimitiveList/finalizers": []string{caseFinalizer}}})
		return
	}
	if !slices.Contains(attachment.Finalizers, caseFinalizer) {
		a.patch(ctx, name, map[string]any{"metadata": map[string]any{"finalizers": []string{caseFinalizer}}})
	}
	if err := a.call("attach", volume, node); err != nil {
		a.patchStatus(ctx, name, map[string]any{"attachError": volumeError(err)})
		a.component.Sleep(askedAgain)
		return
	}
	a.patchStatus(ctx, name, map[string]any{"attached": true, "attachError": nil})
}

func volumeError(err error) map[string]any { return map[string]any{"message": err.Error()} }

func (a *caseAttacher) patchStatus(ctx context.Context, name string, status map[string]any) {
	a.patch(ctx, name, map[string]any{"status": status}, "status")
}

// patch writes to an attachment. One that is gone needs nothing.
func (a *caseAttacher) patch(ctx context.Context, name string, patch map[string]any, subresources ...string) {
	data, err := json.Marshal(patch)
	if err != nil {
		panic(err)
	}
	_, _ = a.client.StorageV1().VolumeAttachments().Patch(ctx, name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, subresources...)
}

// call is one call of the driver. It leaves the component twice: when it begins, and when it is answered.
func (a *caseAttacher) call(verb, volume, node string) error {
	call := verb + " " + volume + " " + node
	answer := a.answerTo(call)
	a.component.Call(trace.Action{Kind: trace.KindDriver, Verb: verb, Object: volume + " " + node}, func() trace.Outcome {
		if answer.err == nil || answer.done {
			a.happen(verb, volume, node)
		}
		return trace.Outcome{Err: answer.err}
	})
	a.component.Sleep(answer.delay)
	return answer.err
}

// happen is what the call does.
func (a *caseAttacher) happen(verb, volume, node string) {
	if verb == "detach" {
		delete(a.attached[volume], node)
		return
	}
	for other := range a.attached[volume] { // there is one at most, unless something is wrong
		if other != node && a.run.exclusive(volume) {
			a.run.Problem("%s is attached to %s while it is attached to %s", volume, node, other)
		}
	}
	a.begin(volume, node)
}

// begin has the volume be attached to the node.
func (a *caseAttacher) begin(volume, node string) {
	if a.attached[volume] == nil {
		a.attached[volume] = map[string]bool{}
	}
	a.attached[volume][node] = true
}

// answer is how a call ends.
type answer struct {
	err   error
	done  bool // it has taken effect, although it failed
	delay time.Duration

	always bool // the line is for all calls from here on
}

// answerTo is the next line of the script for a call; without one it is ok at once.
func (a *caseAttacher) answerTo(call string) answer {
	skip := a.next[call]
	for _, line := range a.script {
		of, text, _ := strings.Cut(line.Text, " -> ")
		if of != call {
			continue
		}
		answer, _ := readAnswer(text)
		if skip == 0 || answer.always {
			a.next[call]++
			return answer
		}
		skip--
	}
	return answer{}
}

// readAnswer reads "ok", "ok after 10s", `error "text"`, `error "text" done`; "always" after it is for all calls from here on.
func readAnswer(text string) (answer, error) {
	text, always := strings.CutSuffix(text, " always")
	a, err := readOneAnswer(text)
	a.always = always
	return a, err
}

func readOneAnswer(text string) (answer, error) {
	if after, found := strings.CutPrefix(text, "ok after "); found {
		delay, err := time.ParseDuration(after)
		return answer{delay: delay}, err
	}
	if text == "ok" {
		return answer{}, nil
	}
	quoted, found := strings.CutPrefix(text, "error ")
	quoted, done := strings.CutSuffix(quoted, " done")
	message, err := strconv.Unquote(quoted)
	if !found || err != nil {
		return answer{}, fmt.Errorf("%q: want ok, ok after DURATION, error with a text in quotes, or that and done", text)
	}
	return answer{err: errors.New(message), done: done}, nil
}

// read takes in the script of a case.
func (a *caseAttacher) read(lines []casefile.Line) error {
	for _, line := range lines {
		call, text, found := strings.Cut(line.Text, " -> ")
		verb, _, _ := strings.Cut(call, " ")
		if !found || verb != "attach" && verb != "detach" || len(strings.Fields(call)) != 3 {
			return fmt.Errorf("%s: want attach VOLUME NODE -> ANSWER, or detach", line.At)
		}
		if _, err := readAnswer(text); err != nil {
			return fmt.Errorf("%s: %w", line.At, err)
		}
	}
	a.script = append(a.script, lines...)
	return nil
}

// unused returns the lines of the script that no request used.
func (a *caseAttacher) unused() []casefile.Line {
	var left []casefile.Line
	used := map[string]int{}
	for _, line := range a.script {
		call, _, _ := strings.Cut(line.Text, " -> ")
		if used[call]++; used[call] > a.next[call] {
			left = append(left, line)
		}
	}
	return left
}
