package sim

import (
	"fmt"
	"slices"
	"strconv"
)

// A StateWriter takes the state of a stepped world in parts. The order of the parts makes no difference.
type StateWriter interface {
	// Part begins a part of the state of a process.
	Part(process, name string)
	// Text adds a word to the part.
	Text(word string)
	// Version adds an object of the API server as it was at a resourceVersion.
	Version(object, resourceVersion string)
	// Unknown says that the process keeps more in memory than it writes.
	Unknown()
}

// Remembers says that write writes all that the process keeps in memory, except its caches, its
// queues, and the parts with a name of their own. Two processes that write the same continue in the same
// way. nil: the process keeps nothing. A task that reads an object of these and keeps it while it waits for a
// call must say so by TouchVersion.
func (p *Process) Remembers(write func(StateWriter)) { p.remembers, p.memory = true, write }

// WriteState writes what the processes know, apart from their caches: which tasks are suspended at
// which call, queues, timers, and what they remember. The memory of a process without Remembers is
// Unknown.
func (s *Stepped) WriteState(w StateWriter) {
	for _, t := range s.tasks {
		s.writeTask(w, t)
	}
	for _, p := range s.processes {
		if p.dead {
			continue
		}
		for _, q := range p.queues {
			q.writeState(w)
		}
		switch {
		case !p.remembers:
			w.Part(p.name, MemoryPart)
			w.Unknown()
		case p.memory != nil:
			w.Part(p.name, MemoryPart)
			p.memory(w)
		}
	}
}

// writeTask writes what a task waits for.
func (s *Stepped) writeTask(w StateWriter, t *Task) {
	switch t.state {
	case stateIdle:
		if cache, is := t.source.(interface{ HasSynced() bool }); is && !cache.HasSynced() {
			w.Part(t.process.name, t.name)
			w.Text("not synced")
		}
		if t.timer == nil || !t.timer.armed {
			return
		}
		w.Part(t.process.name, "timer "+t.name)
		w.Text(t.timer.deadline.Sub(Epoch).String())
		w.Text(strconv.FormatBool(t.timer.background && t.timer.changesSeen == s.changes))
	case stateSuspended, stateWaiting, stateSleeping:
		w.Part(t.process.name, "task "+t.name)
		w.Text(t.pendingCall.String())
		if !t.wakeAt.IsZero() && t.state != stateSuspended {
			w.Text(t.wakeAt.Sub(Epoch).String())
		}
	}
}

// queueState is a queue of any key.
type queueState interface{ writeState(w StateWriter) }

// writeState writes the keys of the queue.
func (q *Queue[K]) writeState(w StateWriter) {
	if q.waiting()+len(q.working)+len(q.failures)+len(q.later) == 0 {
		return
	}
	w.Part(q.process.name, "queue "+q.cfg.Name)
	for _, key := range q.order[q.first:] {
		w.Text(keyText(key))
	}
	for _, key := range sortedTexts(q.working) {
		w.Text("working " + key)
	}
	for _, key := range sortedTexts(q.dirty) {
		w.Text("dirty " + key)
	}
	var words []string
	for key, n := range q.failures {
		words = append(words, fmt.Sprintf("failed %d times %s", n, keyText(key)))
	}
	for _, d := range q.later {
		words = append(words, fmt.Sprintf("at %s %s", d.at.Sub(Epoch), keyText(d.key)))
	}
	slices.Sort(words)
	for _, word := range words {
		w.Text(word)
	}
}

// sortedTexts returns the texts of keys, sorted.
func sortedTexts[K comparable](keys map[K]struct{}) []string {
	texts := make([]string, 0, len(keys))
	for key := range keys {
		texts = append(texts, keyText(key))
	}
	slices.Sort(texts)
	return texts
}
