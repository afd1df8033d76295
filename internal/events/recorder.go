package events

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"

	"github.com/volsim/volsim/sim"
)

// knownMax bounds the number of events that a recorder remembers for counting.
//
// Upstream: client-go tools/record maxLruCacheEntries.
const knownMax = 4096

// Config configures New.
type Config struct {
	Process *sim.Process
	Client  kubernetes.Interface
	Source  string // reporting component, such as "persistentvolume-controller"
	Host    string // node name, for a kubelet
	// Periodic says that events are recorded again at each check of a state, which only shows that it
	// has not changed. A stepped world therefore does not check again because of them; see
	// sim.QueueConfig.Heartbeat.
	Periodic bool
}

// Recorder writes the events of one process. Its methods are for the process's tasks.
type Recorder struct {
	cfg     Config
	pending []*corev1.Event
	known   map[key]*corev1.Event // as last written
	queue   *sim.Queue[wake]      // one key; nil unless Config.Periodic
	// makes names unique if the clock stands still; starts at another number for each source
	seq int64
	// number of events that were added to pending, and taken from it
	added, taken int
}

// wake is the only key of a queue.
type wake struct{}

// String returns the key for the trace.
func (wake) String() string { return "events" }

// key identifies events that are repetitions of each other.
type key struct {
	uid                   types.UID
	kind, namespace, name string
	field                 string
	eventType, reason     string
	message               string
}

var _ record.EventRecorder = (*Recorder)(nil)

// New returns a recorder, and adds its writing task to the process.
func New(cfg Config) *Recorder {
	h := fnv.New32a()
	h.Write([]byte(cfg.Source + "/" + cfg.Host))
	r := &Recorder{cfg: cfg, known: map[key]*corev1.Event{}, seq: int64(h.Sum32()%1000) * 1000}
	if !cfg.Periodic {
		cfg.Process.WorkerOf("events", "events", func() bool { return len(r.pending) > 0 }, r.write)
		return r
	}
	r.seq += 500 // a process may have another recorder of the same source
	r.queue = sim.NewQueue[wake](cfg.Process, sim.QueueConfig{Name: "periodic events", Heartbeat: true})
	r.queue.Work(func(ctx context.Context, _ wake) error {
		r.write(ctx)
		r.wakeUp()
		return nil
	})
	return r
}

// wakeUp lets the task of a periodic recorder write the rest of the list.
func (r *Recorder) wakeUp() {
	if r.queue != nil && len(r.pending) > 0 {
		r.queue.Add(wake{})
	}
}

// Event records an event about an object. An object without a kind panics.
func (r *Recorder) Event(object runtime.Object, eventType, reason, message string) {
	ref, err := reference.GetReference(scheme.Scheme, object)
	if err != nil {
		panic(fmt.Sprintf("events: %s: reference to object: %v", reason, err))
	}
	namespace := ref.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	now := r.cfg.Process.Now()
	r.pending = append(r.pending, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:      r.name(ref.Name),
			Namespace: namespace,
		},
		InvolvedObject:      *ref,
		Reason:              reason,
		Message:             message,
		Type:                eventType,
		FirstTimestamp:      metav1.NewTime(now),
		LastTimestamp:       metav1.NewTime(now),
		Count:               1,
		Source:              corev1.EventSource{Component: r.cfg.Source, Host: r.cfg.Host},
		ReportingController: r.cfg.Source,
		ReportingInstance:   r.cfg.Host,
	})
	r.touchList("tail", r.added)
	r.added++
	r.wakeUp()
}

// touchList informs an observer of a use of one end of the list, and of an event in it: to add one and
// to take another make no difference to each other.
func (r *Recorder) touchList(end string, event int) {
	if r.cfg.Process.IsObserved() {
		r.cfg.Process.Touch(sim.AccessWrite, "events "+end)
		r.cfg.Process.Touch(sim.AccessWrite, "events/"+strconv.Itoa(event))
	}
}

// name returns the next name for an event about an object. Like upstream's, it consists of the
// object's name and the time. Here the last microseconds differ between sources, since the clock
// may stand still.
func (r *Recorder) name(object string) string {
	r.seq++
	return object + "." + strconv.FormatInt(r.cfg.Process.Now().UnixNano()+r.seq, 16)
}

// Eventf is Event with a formatted message.
func (r *Recorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	r.Event(object, eventType, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf is Eventf for an event with annotations.
func (r *Recorder) AnnotatedEventf(
	object runtime.Object, annotations map[string]string, eventType, reason, format string, args ...any,
) {
	r.Event(object, eventType, reason, fmt.Sprintf(format, args...))
	r.pending[len(r.pending)-1].Annotations = annotations
}

// write writes the first event of the list.
func (r *Recorder) write(ctx context.Context) {
	event := r.pending[0]
	r.pending = r.pending[1:]
	r.touchList("head", r.taken)
	r.taken++
	k := keyOf(event)
	if known, ok := r.known[k]; ok {
		if r.incrementCount(ctx, k, known, event) {
			return
		}
	}
	written, err := r.cfg.Client.CoreV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		event.Name = r.name(event.InvolvedObject.Name)
		r.pending = append(r.pending, event)
		r.touchList("tail", r.added)
		r.added++
		return
	}
	if err != nil {
		return
	}
	if len(r.known) >= knownMax {
		clear(r.known)
	}
	r.known[k] = written
}

// countPatch is the patch of a repeated event.
type countPatch struct {
	Count         int32       `json:"count"`
	LastTimestamp metav1.Time `json:"lastTimestamp"`
}

// incrementCount increments the count of an event that was written before. It returns false if that
// event no longer exists.
func (r *Recorder) incrementCount(ctx context.Context, k key, known, event *corev1.Event) bool {
	patch, err := json.Marshal(countPatch{known.Count + 1, event.LastTimestamp})
	if err != nil {
		panic(fmt.Sprintf("events: encode patch: %v", err))
	}
	patched, err := r.cfg.Client.CoreV1().Events(known.Namespace).
		Patch(ctx, known.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		delete(r.known, k)
		return false
	}
	if err == nil {
		r.known[k] = patched
	}
	return true
}

func keyOf(e *corev1.Event) key {
	ref := e.InvolvedObject
	return key{
		uid: ref.UID, kind: ref.Kind, namespace: ref.Namespace, name: ref.Name, field: ref.FieldPath,
		eventType: e.Type, reason: e.Reason, message: e.Message,
	}
}
