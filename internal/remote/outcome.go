package remote

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/sim/trace"
)

// statusError returns the error in an answer, or nil.
func statusError(action trace.Action, code int, body []byte) error {
	if code >= http.StatusOK && code < http.StatusMultipleChoices {
		return nil
	}
	if status, ok := decode(body).(*metav1.Status); ok && status.Status == metav1.StatusFailure {
		return &apierrors.StatusError{ErrStatus: *status}
	}
	resource, name, _ := strings.Cut(action.Object, "/")
	return apierrors.NewGenericServerResponse(code, action.Verb, schema.GroupResource{Resource: resource}, name,
		fmt.Sprintf("%.200s", body), 0, true)
}

// outcomeOf returns the outcome of an answer for the trace. before is the object that an update
// replaced, if known.
func (m *objectMemory) outcomeOf(action trace.Action, before, answer runtime.Object) trace.Outcome {
	if answer == nil {
		return trace.Outcome{}
	}
	if meta.IsListType(answer) {
		detail := strconv.Itoa(meta.LenList(answer)) + " items"
		if head, err := meta.ListAccessor(answer); err == nil && action.Verb == "list" {
			detail += " rv=" + head.GetResourceVersion()
		}
		return trace.Outcome{Detail: detail}
	}
	obj, err := meta.Accessor(answer)
	if err != nil || obj.GetResourceVersion() == "" {
		return trace.Outcome{}
	}
	out := trace.Outcome{Detail: "rv=" + obj.GetResourceVersion()}
	verb, sub, _ := strings.Cut(action.Verb, "/")
	switch {
	case verb == "create" && sub == "":
		out.After = answer
	case before != nil:
		out.Before, out.After = before, answer
	}
	if verb == "create" || verb == "update" || verb == "patch" {
		m.remember(action.Object, answer)
	}
	return out
}

// writesMax is how many writes a process remembers, since its caches may not have seen them yet.
const writesMax = 64

// objectMemory finds the objects that a process's updates replace, so that their records can show
// the change. An update names the revision it is based on. The replaced object is known if a cache
// or a recent write of the process has that revision.
type objectMemory struct {
	lookup func(resource, key string) runtime.Object

	mu     sync.Mutex
	writes []recentWrite // guarded by mu: oldest first
}

// recentWrite is the result of a write.
type recentWrite struct {
	object string // as named in the trace
	after  runtime.Object
}

// before returns the object that an update with sent replaces, or nil if it is unknown.
func (m *objectMemory) before(action trace.Action, sent runtime.Object) runtime.Object {
	verb, _, _ := strings.Cut(action.Verb, "/")
	object, revision := action.Object, revisionOf(sent)
	if verb != "update" || revision == "" {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.writes {
		if w.object == object && revisionOf(w.after) == revision {
			return w.after
		}
	}
	resource, key, _ := strings.Cut(object, "/")
	if seen := m.lookup(resource, key); seen != nil && revisionOf(seen) == revision {
		return seen
	}
	return nil
}

func (m *objectMemory) remember(object string, after runtime.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.writes) >= writesMax {
		m.writes = append(m.writes[:0], m.writes[1:]...)
	}
	m.writes = append(m.writes, recentWrite{object, after})
}

// revisionOf returns an object's resourceVersion, or "".
func revisionOf(obj runtime.Object) string {
	m, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return m.GetResourceVersion()
}
