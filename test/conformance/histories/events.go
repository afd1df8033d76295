package histories

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// spamBurst is the number of events about an object that upstream's recorder does not drop.
//
// Upstream: client-go tools/record defaultSpamBurst.
const spamBurst = 25

// Events records the set of events of a world, and names for its UIDs that are the same in other
// worlds. The zero value is empty. It may be used concurrently.
type Events struct {
	mu     sync.Mutex
	names  []string          // guarded by mu: pairs for a strings.Replacer
	counts map[string]int    // guarded by mu: objects of a name
	texts  map[string]bool   // guarded by mu
	burst  map[types.UID]int // guarded by mu: events about an object, less those of elapsed periods
}

// Name names an object. format takes the name and its number among the objects of that name. UIDs
// in the name are replaced.
func (e *Events) Name(uid types.UID, format, name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.counts == nil {
		e.counts = map[string]int{}
	}
	name = strings.NewReplacer(e.names...).Replace(name)
	e.counts[name]++
	e.names = append(e.names, string(uid), fmt.Sprintf(format, name, e.counts[name]))
}

// Add records an event with a text. It reports whether the text is new.
func (e *Events) Add(event *corev1.Event, text string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.texts == nil {
		e.texts, e.burst = map[string]bool{}, map[types.UID]int{}
	}
	e.burst[event.InvolvedObject.UID]++
	known := e.texts[text]
	e.texts[text] = true
	return !known
}

// Refill lets upstream's recorder record one more event about each object.
func (e *Events) Refill() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for uid, n := range e.burst {
		e.burst[uid] = max(0, n-1)
	}
}

// Undecided returns why upstream's recorder may have dropped an event, or "".
func (e *Events) Undecided() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, n := range e.burst {
		if n >= spamBurst-1 {
			return "upstream's recorder may have dropped an event"
		}
	}
	return ""
}

// State returns the lines and the events, with names for UIDs, sorted.
func (e *Events) State(lines []string) State {
	e.mu.Lock()
	defer e.mu.Unlock()
	for text := range e.texts {
		lines = append(lines, text)
	}
	names := strings.NewReplacer(e.names...)
	for i := range lines {
		lines[i] = names.Replace(lines[i])
	}
	slices.Sort(lines)
	return lines
}
