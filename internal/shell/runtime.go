package shell

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/kubelet/container"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// logBytes is the default limit of a run's log.
//
// Upstream: KubeletConfiguration containerLogMaxSize (v1.36).
const logBytes = 10 << 20

// Config configures New.
type Config struct {
	Process  *sim.Process // of the containers of a node
	FS       nodefs.FS    // the node's disk
	Root     string       // directory on FS with the root directories of the containers
	LogBytes int          // limit of a run's log; 0 means 10 MiB
}

// A Runtime runs containers whose commands exist only in memory. Create one with New.
//
// Upstream: k8s.io/cri-api RuntimeService (v1.36).
type Runtime struct {
	cfg  Config
	disk sync.Mutex // held during an access to the disk, so that it is atomic on both hosts

	mu       sync.Mutex
	pods     map[types.UID][]*instance // guarded by mu: sorted by container and number; two for each container at most, or those that have not exited
	requests []func()                  // guarded by mu: what the worker does next
	observer func(pod types.UID)       // guarded by mu; nil: none
	execs    map[*execution]struct{}   // guarded by mu: those that have not ended
	down     bool                      // guarded by mu: the process has crashed
}

var _ container.Runtime = (*Runtime)(nil)

// New returns a runtime without containers. Call it while the process is set up.
func New(cfg Config) *Runtime {
	cfg.LogBytes = cmp.Or(cfg.LogBytes, logBytes)
	r := &Runtime{cfg: cfg, pods: map[types.UID][]*instance{}, execs: map[*execution]struct{}{}}
	cfg.Process.Worker("requests", r.hasRequests, r.handleRequest)
	cfg.Process.OnCrash(r.crashed)
	return r
}

func (r *Runtime) hasRequests() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.requests) > 0
}

// handleRequest does what a method of the Runtime has requested.
func (r *Runtime) handleRequest(context.Context) {
	r.mu.Lock()
	if len(r.requests) == 0 {
		r.mu.Unlock()
		return
	}
	next := r.requests[0]
	r.requests = r.requests[1:]
	r.mu.Unlock()
	next()
}

// request lets the worker do something in the process. The caller does not hold mu.
func (r *Runtime) request(do func()) {
	r.mu.Lock()
	if r.down {
		r.mu.Unlock()
		return
	}
	r.requests = append(r.requests, do)
	r.mu.Unlock()
	r.cfg.Process.Wake()
}

// find returns a run, or nil. The caller holds mu.
func (r *Runtime) find(run container.Run) *instance {
	for _, c := range r.pods[run.Pod] {
		if c.spec.Run == run {
			return c
		}
	}
	return nil
}

// add adds a run, and forgets those of the container before the last one, with their logs. The caller holds mu.
//
// Upstream: pkg/kubelet/config, MaxPerPodContainerCount (v1.36).
func (r *Runtime) add(c *instance) {
	all := slices.DeleteFunc(r.pods[c.spec.Pod], func(other *instance) bool {
		return other.spec.Container == c.spec.Container && other.spec.Restarts < c.spec.Restarts-1 && other.state.Exited
	})
	all = append(all, c)
	slices.SortFunc(all, func(a, b *instance) int {
		return cmp.Or(cmp.Compare(a.spec.Container, b.spec.Container), cmp.Compare(a.spec.Restarts, b.spec.Restarts))
	})
	r.pods[c.spec.Pod] = all
}

// Start implements container.Runtime.
func (r *Runtime) Start(spec container.Spec) {
	r.mu.Lock()
	if r.find(spec.Run) != nil || r.down {
		r.mu.Unlock()
		return
	}
	c := newInstance(r, spec)
	r.add(c)
	r.requests = append(r.requests, c.launch) // at once, so that nothing is requested of the run before
	r.mu.Unlock()
	r.cfg.Process.Wake()
	r.changed(spec.Pod)
}

// State implements container.Runtime.
func (r *Runtime) State(run container.Run) container.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.find(run); c != nil {
		return c.state
	}
	return container.State{}
}

// Stop implements container.Runtime.
func (r *Runtime) Stop(run container.Run, grace time.Duration) {
	if c := r.running(run); c != nil {
		r.request(func() { c.stop(grace) })
	}
}

// running returns a run that has not exited, or nil.
func (r *Runtime) running(run container.Run) *instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.find(run); c != nil && !c.state.Exited {
		return c
	}
	return nil
}

// Runs implements container.Runtime.
func (r *Runtime) Runs(pod types.UID) []container.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	var runs []container.Run
	for _, c := range r.pods[pod] {
		runs = append(runs, c.spec.Run)
	}
	return runs
}

// Remove implements container.Runtime.
func (r *Runtime) Remove(pod types.UID) {
	r.mu.Lock()
	removed := r.pods[pod]
	delete(r.pods, pod)
	r.mu.Unlock()
	if len(removed) == 0 {
		return
	}
	r.request(func() { r.clean(pod, removed) })
	r.changed(pod)
}

// clean ends the runs of a pod, and removes their root directories when all have ended.
func (r *Runtime) clean(pod types.UID, runs []*instance) {
	for _, c := range runs {
		c.kill()
	}
	r.cfg.Process.Spawn(string(pod)+"/remove", func(context.Context) {
		for _, c := range runs {
			r.cfg.Process.WaitOn(&c.changed, "end of "+c.name(), 0, c.ended)
		}
		for _, c := range runs {
			c.removeRoot()
		}
	})
}

// Log implements container.Runtime.
func (r *Runtime) Log(run container.Run) *container.Output {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.find(run); c != nil {
		return c.log
	}
	return nil
}

// Observe implements container.Runtime.
func (r *Runtime) Observe(changed func(pod types.UID)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observer = changed
}

// changed calls the observer. The caller does not hold mu.
func (r *Runtime) changed(pod types.UID) {
	r.mu.Lock()
	observe := r.observer
	r.mu.Unlock()
	if observe != nil {
		observe(pod)
	}
}

// setState changes the state of a run, and calls the observer.
func (r *Runtime) setState(c *instance, change func(*container.State)) {
	r.mu.Lock()
	change(&c.state)
	r.mu.Unlock()
	r.changed(c.spec.Pod)
}

// crashed ends all runs and executions: the node is down.
func (r *Runtime) crashed() {
	r.mu.Lock()
	r.down, r.requests = true, nil
	var pods []types.UID
	for pod, runs := range r.pods { // any order: the pods are sorted
		for _, c := range runs {
			if !c.state.Exited {
				c.state.Exited, c.state.Code, c.state.FinishedAt = true, exitKilled, r.cfg.Process.Now()
				pods = append(pods, pod)
			}
			c.log.Close()
		}
	}
	executions := r.execs
	r.execs = nil
	r.mu.Unlock()
	for e := range executions { // any order: their clients are independent
		e.end(exitKilled)
	}
	slices.Sort(pods)
	for _, pod := range slices.Compact(pods) {
		r.changed(pod)
	}
}

// name returns the name of a run, such as UID/CONTAINER/0.
func (c *instance) name() string {
	return fmt.Sprintf("%s/%s/%d", c.spec.Pod, c.spec.Container, c.spec.Restarts)
}
