package shell

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/volsim/volsim/sim/trace"
)

// A task is a process of a container that runs concurrently with the others. Commands in the
// foreground run in the task of their shell.
type task struct {
	c             *instance
	parent        *task // nil: process 1 and executions
	pid           int
	killed        bool
	dying         bool     // unwinds
	interruptible bool     // the wait ends at a signal with a trap
	pending       []string // signals, in the order of arrival
	shell         *shell   // which handles signals; nil: none does
	depth         int      // of programs and evaluations in the foreground
	ticks         int      // commands since the last wait
	pause         time.Duration
	done          bool
	waited        bool // its shell has waited for it; its code is kept until the next job
	code          int
	endedBy       string // signal; "": it has exited
}

// Bounds of the work of a process between two waits. Without them a loop would keep the clock of a
// stepped world from advancing.
const (
	ticksMax = 200
	pauseMin = time.Millisecond
	pauseMax = 100 * time.Millisecond
)

// Bounds of a container, beyond which the kernel would refuse or kill.
const (
	depthMax    = 500
	tasksMax    = 1000
	variableMax = 64 << 20 // bytes of a variable, or of a line that is read
)

// An exit unwinds a process: all frames of the innermost shell, or of the tool.
type exit struct{ code int }

// A death unwinds all frames of a task.
type death struct{ code int }

// signals maps the names of signals to their numbers.
var signals = map[string]int{
	"HUP": 1, "INT": 2, "QUIT": 3, "KILL": 9, "USR1": 10, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15,
	"CHLD": 17, "CONT": 18, "STOP": 19,
}

// ignoredSignals have no effect without a trap. A task is never stopped.
var ignoredSignals = []string{"CHLD", "CONT", "STOP"}

// signalName returns the name of a signal that is given by name or number; "" if there is none.
func signalName(text string) string {
	if n, err := strconv.Atoi(text); err == nil {
		if n == 0 {
			return "EXIT"
		}
		for name, number := range signals { // any order: numbers are unique
			if number == n {
				return name
			}
		}
		return ""
	}
	text = trimSIG(text)
	if _, ok := signals[text]; ok || text == "EXIT" {
		return text
	}
	return ""
}

// spawn starts a process. ended is called when it has exited, and may be nil.
func (c *instance) spawn(parent *task, run func(t *task) int, ended func(code int)) *task {
	c.lastPID++
	t := &task{c: c, parent: parent, pid: c.lastPID, pause: pauseMin}
	c.tasks = append(c.tasks, t)
	c.runtime.cfg.Process.Spawn(c.name()+"/"+strconv.Itoa(t.pid), func(context.Context) {
		code := t.run(run)
		c.tasks = slices.DeleteFunc(c.tasks, func(other *task) bool { return other == t })
		t.done, t.code = true, code
		if ended != nil {
			ended(code)
		}
		c.notify()
	})
	return t
}

// run runs a process until it exits or dies.
func (t *task) run(run func(t *task) int) (code int) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exit:
			code = r.code
		case death:
			code = r.code
		default:
			panic(r)
		}
	}()
	t.check()
	return run(t)
}

// frame runs f, and returns its result, or the exit or death that unwound it. The caller cleans up, and
// continues by a panic unless the unwinding ends here.
func frame(f func() int) (code int, unwinding any) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exit:
			code, unwinding = r.code, r
		case death:
			code, unwinding = r.code, r
		default:
			panic(r)
		}
	}()
	return f(), nil
}

// absorb ends the unwinding of an exit, and continues any other.
func absorb(unwinding any) {
	if _, is := unwinding.(exit); unwinding != nil && !is {
		panic(unwinding)
	}
}

// kill sends KILL.
func (t *task) kill() {
	t.killed = true
	t.c.notify()
}

// signal sends a signal.
func (t *task) signal(name string) {
	if name == "KILL" {
		if t != t.c.init { // process 1 is protected from those of its container
			t.kill()
		}
		return
	}
	t.pending = append(t.pending, name)
	t.c.notify()
}

// check ends the task if it was killed, or has received a signal that ends it. It removes the signals
// that have no effect.
func (t *task) check() {
	if t.dying {
		return
	}
	if t.killed {
		t.die("KILL")
	}
	kept := t.pending[:0]
	for _, name := range t.pending {
		switch action, trapped := t.trapOf(name); {
		case trapped && action != "":
			kept = append(kept, name)
		case trapped || t == t.c.init || slices.Contains(ignoredSignals, name):
		default:
			t.die(name)
		}
	}
	t.pending = kept
}

// die unwinds the task. What it does while it unwinds is not interrupted.
func (t *task) die(signal string) {
	t.dying, t.endedBy = true, signal
	panic(death{128 + signals[signal]})
}

// trapOf returns the action that the shell of the task has set for a signal.
func (t *task) trapOf(name string) (action string, trapped bool) {
	if t.shell == nil {
		return "", false
	}
	action, trapped = t.shell.traps[name]
	return action, trapped
}

// wait waits until cond holds or the limit has passed (0: none), and reports whether cond holds. If the
// task is interruptible, a signal with a trap ends the wait, too.
func (t *task) wait(what string, limit time.Duration, cond func() bool) bool {
	p := t.c.runtime.cfg.Process
	end := p.Now().Add(limit)
	t.ticks, t.pause = 0, pauseMin
	for {
		t.check()
		if cond() {
			return true
		}
		if t.interruptible && len(t.pending) > 0 {
			return false
		}
		left := time.Duration(0)
		if limit > 0 {
			if left = end.Sub(p.Now()); left <= 0 {
				return false
			}
		}
		seen := len(t.pending)
		p.WaitOn(&t.c.changed, what, left, func() bool { return t.killed || len(t.pending) > seen || cond() })
	}
}

// interruptibly runs a wait of the shell that handles the task's signals. A signal with a trap ends it.
func (s *shell) interruptibly(f func()) {
	if s != s.t.shell {
		f()
		return
	}
	s.t.interruptible = true
	defer func() { s.t.interruptible = false }()
	f()
}

// tick counts a command. A process that runs many of them sleeps for a moment.
func (t *task) tick() {
	if t.ticks++; t.ticks < ticksMax {
		t.check()
		return
	}
	t.ticks = 0
	d := t.pause
	t.pause = min(2*d, pauseMax)
	seen := len(t.pending)
	t.c.runtime.cfg.Process.WaitOn(&t.c.changed, "processor", d, func() bool { return t.killed || len(t.pending) > seen })
	t.check()
}

// access is a call that accesses the node's disk. object is the path in the container.
func (t *task) access(verb, object string, f func() error) error {
	r := t.c.runtime
	var err error
	out := r.cfg.Process.Call(trace.Action{Kind: trace.KindWork, Verb: verb, Object: object}, func() trace.Outcome {
		r.disk.Lock()
		defer r.disk.Unlock()
		if err = f(); err != nil {
			return trace.Outcome{Detail: errorText(err)} // an error of the program, not of the control plane
		}
		return trace.Outcome{}
	})
	t.check()
	if err == nil {
		err = out.Err
	}
	return err
}

// idle runs until TERM: it is the image's command, which is unknown.
func (t *task) idle() int {
	t.interruptible = true
	t.wait("stop", 0, func() bool { return false })
	return 0
}

// now returns the time of the world.
func (t *task) now() time.Time { return t.c.runtime.cfg.Process.Now() }

// find returns the running task with a pid, or nil.
func (c *instance) find(pid int) *task {
	for _, t := range c.tasks {
		if t.pid == pid {
			return t
		}
	}
	return nil
}
