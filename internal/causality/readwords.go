package causality

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/sim/trace"
)

// String describes a read, without its subject: "lists the secrets of default in its cache: none
// found (rv 6); it has not seen step 9, where it created secret default/web itself".
func (read CachedRead) String() string {
	r := trace.Record{
		Action:  trace.Action{Kind: trace.KindAPI, Verb: read.Verb, Object: read.Object},
		Outcome: trace.Outcome{Detail: fmt.Sprintf("%d items", read.Items)},
	}
	if read.Verb == "get" && read.Items == 0 {
		r.Err = apierrors.NewNotFound(schema.GroupResource{}, "")
	}
	what, result, has := strings.Cut(trace.DescribeAny(r), ": ")
	words := what + " in its cache"
	if has {
		words += ": " + result
	}
	if read.Shown > 0 && r.Err == nil {
		words += fmt.Sprintf(" (rv %d)", read.Shown)
	}
	if len(read.Missed) > 0 {
		words += "; it has not seen " + describeWrites(trace.Process(read.Task), read.Object, read.Missed)
	}
	return words
}

// Describe says what the task of a write knew of its object: "it had read it in step 3, before step
// 5, where alice changed it".
func (b Base) Describe(r *trace.Record) string {
	verb, from := "read", ""
	if b.Record.After != nil && !b.Cached {
		verb = "written"
	}
	if b.Cached {
		from = " in its cache"
	}
	words := fmt.Sprintf("it had %s it%s in step %d", verb, from, b.Record.HostStep)
	if len(b.Missed) > 0 {
		words += ", without " + Steps(hostSteps(b.Missed))
	}
	if len(b.Since) > 0 {
		words += ", before " + describeWrites(trace.Process(r.Task), WrittenObject(r), b.Since)
	}
	return words
}

func hostSteps(records []*trace.Record) []int {
	steps := make([]int, len(records))
	for i, r := range records {
		steps[i] = r.HostStep
	}
	return steps
}

// writesMax is how many writes are described that a read does not show.
const writesMax = 3

// describeWrites says in which steps what was written. process is the process that did not see it,
// object what it read.
func describeWrites(process, object string, writes []*trace.Record) string {
	if len(writes) > writesMax {
		return Steps(hostSteps(writes))
	}
	words := make([]string, len(writes))
	for i, w := range writes {
		subject, itself := trace.Process(w.Task), ""
		if subject == process {
			subject, itself = "it", " itself"
		}
		what := "it"
		if name := WrittenObject(w); name != object {
			what = trace.ObjectName(name)
		}
		words[i] = fmt.Sprintf("step %d, where %s %s %s%s", w.HostStep, subject, pastVerb(w), what, itself)
	}
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + ", and " + words[last]
}

// pastVerb returns what a write did.
func pastVerb(w *trace.Record) string {
	switch {
	case w.Before == nil:
		return "created"
	case w.Gone, strings.HasPrefix(w.Verb, "delete"):
		return "deleted"
	default:
		return "changed"
	}
}
