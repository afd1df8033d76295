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

// retryAfter is the time after which a case's attacher retries a failed driver call.
const retryAfter = time.Second

// caseAttacher is a simple external-attacher with its driver. It attaches when a VolumeAttachment
// is created and detaches when it is deleted. Calls succeed immediately, unless the case's script
// has a line for the call: "CALL -> ANSWER". Each line is used once, in order.
type caseAttacher struct {
	component *sim.Process
	client    kubernetes.Interface
	run       *caseRun
	script    []casefile.Line
	next      map[string]int             // number of used lines by call
	attached  map[string]map[string]bool // actual attachments by volume and node
	busy      map[string]bool            // by the attachment's name
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

// notice syncs the attachments.
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

// answer attaches or detaches as the attachment requires, once.
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
			a.component.Sleep(retryAfter)
			return
		}
		a.patch(ctx, name,
			map[string]any{"metadata": map[string]any{"$deleteFromPrimitiveList/finalizers": []string{caseFinalizer}}})
		return
	}
	if !slices.Contains(attachment.Finalizers, caseFinalizer) {
		a.patch(ctx, name, map[string]any{"metadata": map[string]any{"finalizers": []string{caseFinalizer}}})
	}
	if err := a.call("attach", volume, node); err != nil {
		a.patchStatus(ctx, name, map[string]any{"attachError": volumeError(err)})
		a.component.Sleep(retryAfter)
		return
	}
	a.patchStatus(ctx, name, map[string]any{"attached": true, "attachError": nil})
}

func volumeError(err error) map[string]any { return map[string]any{"message": err.Error()} }

func (a *caseAttacher) patchStatus(ctx context.Context, name string, status map[string]any) {
	a.patch(ctx, name, map[string]any{"status": status}, "status")
}

// patch updates an attachment. It ignores one that no longer exists.
func (a *caseAttacher) patch(ctx context.Context, name string, patch map[string]any, subresources ...string) {
	data, err := json.Marshal(patch)
	if err != nil {
		panic(err)
	}
	_, _ = a.client.StorageV1().VolumeAttachments().Patch(ctx, name, types.StrategicMergePatchType, data,
		metav1.PatchOptions{}, subresources...)
}

// call is one call of the driver. It leaves the process twice: when it begins, and when it is
// answered.
func (a *caseAttacher) call(verb, volume, node string) error {
	call := verb + " " + volume + " " + node
	answer := a.answerTo(call)
	a.component.Call(trace.Action{
		Kind: trace.KindDriver, Verb: verb,
		Object: volume + " " + node,
	}, func() trace.Outcome {
		if answer.err == nil || answer.done {
			a.happen(verb, volume, node)
		}
		return trace.Outcome{Err: answer.err}
	})
	a.component.Sleep(answer.delay)
	return answer.err
}

// happen applies the effect of a call.
func (a *caseAttacher) happen(verb, volume, node string) {
	if verb == "detach" {
		delete(a.attached[volume], node)
		return
	}
	for other := range a.attached[volume] { // one at most in a correct run
		if other != node && a.run.exclusive(volume) {
			a.run.Problem("%s is attached to %s while it is attached to %s", volume, node, other)
		}
	}
	a.begin(volume, node)
}

// begin attaches the volume to the node initially.
func (a *caseAttacher) begin(volume, node string) {
	if a.attached[volume] == nil {
		a.attached[volume] = map[string]bool{}
	}
	a.attached[volume][node] = true
}

// answer is the result of a call.
type answer struct {
	err   error
	done  bool // it took effect although it failed
	delay time.Duration

	always bool // the line applies to all following calls
}

// answerTo returns the next line of the script for a call, or immediate success.
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

// readAnswer parses "ok", "ok after 10s", `error "text"`, `error "text" done`; a trailing "always"
// applies the answer to all following calls.
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
		return answer{}, fmt.Errorf("%q: want ok, ok after DURATION, or error with a text in quotes, optionally with done", text)
	}
	return answer{err: errors.New(message), done: done}, nil
}

// read parses the script of a case.
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
