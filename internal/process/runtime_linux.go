//go:build amd64 || arm64

package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/kubelet/container"
)

// logBytes is the default limit of a run's log.
//
// Upstream: KubeletConfiguration containerLogMaxSize (v1.36).
const logBytes = 10 << 20

// A Runtime runs containers as processes. Create one with New.
//
// Upstream: k8s.io/cri-api RuntimeService (v1.36).
type Runtime struct {
	cfg      Config
	root     string // Config.Root without links
	template *template
	groups   *cgroups
	working  sync.WaitGroup // runs and executions that have not ended

	mu       sync.Mutex
	pods     map[types.UID][]*instance // guarded by mu: sorted by container and number; two for each container at most, or those that have not exited
	all      map[*instance]struct{}    // guarded by mu: those whose processes have not ended, removed ones too
	started  int                       // guarded by mu: number of runs
	requests []func()                  // guarded by mu: what the worker does next
	observer func(pod types.UID)       // guarded by mu; nil: none
	down     bool                      // guarded by mu: the process has crashed, or the runtime is closed
}

var _ container.Runtime = (*Runtime)(nil)

// Check returns an error if this machine cannot run containers as processes: without root, or without busybox.
func Check() error {
	if os.Geteuid() != 0 {
		return errors.New("containers as processes need root")
	}
	_, err := findBusybox()
	return err
}

// New returns a runtime without containers. Call it while the process is set up, and Close at the end.
func New(cfg Config) (*Runtime, error) {
	if err := Check(); err != nil {
		return nil, err
	}
	busybox, err := findBusybox()
	if err != nil {
		return nil, err
	}
	cfg.LogBytes = cmp.Or(cfg.LogBytes, logBytes)
	r := &Runtime{cfg: cfg, pods: map[types.UID][]*instance{}, all: map[*instance]struct{}{}}
	if r.root, err = filepath.EvalSymlinks(cfg.Root); err != nil {
		return nil, err
	}
	if r.groups, err = newCgroups(); err != nil {
		return nil, fmt.Errorf("limits of containers: %w", err)
	}
	if r.template, err = newTemplate(busybox); err != nil {
		return nil, errors.Join(err, r.groups.close())
	}
	cfg.Process.Worker("requests", r.hasRequests, r.handleRequest)
	cfg.Process.OnCrash(r.Close)
	return r, nil
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

// notify runs a task, after which the host checks what is waited for.
func (r *Runtime) notify() { r.request(func() {}) }

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
	kept := slices.DeleteFunc(r.pods[c.spec.Pod], func(other *instance) bool {
		return other.spec.Container == c.spec.Container && other.spec.Restarts < c.spec.Restarts-1 && other.state.Exited
	})
	kept = append(kept, c)
	slices.SortFunc(kept, func(a, b *instance) int {
		return cmp.Or(cmp.Compare(a.spec.Container, b.spec.Container), cmp.Compare(a.spec.Restarts, b.spec.Restarts))
	})
	r.pods[c.spec.Pod] = kept
	r.all[c] = struct{}{}
}

// Start implements container.Runtime.
func (r *Runtime) Start(spec container.Spec) {
	r.mu.Lock()
	if r.find(spec.Run) != nil || r.down {
		r.mu.Unlock()
		return
	}
	r.started++
	c := newInstance(r, spec, fmt.Sprint(r.started))
	r.add(c)
	r.working.Add(1)
	r.mu.Unlock()
	go c.run()
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
	r.mu.Lock()
	c := r.find(run)
	r.mu.Unlock()
	if c != nil && !c.hasEnded() {
		r.request(func() { c.stop(grace) })
	}
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

// Remove implements container.Runtime. When the last process of a run has ended, nothing of it is left: its mounts
// and files end with its namespaces.
func (r *Runtime) Remove(pod types.UID) {
	r.mu.Lock()
	removed := r.pods[pod]
	delete(r.pods, pod)
	r.mu.Unlock()
	for _, c := range removed {
		c.kill()
	}
	if len(removed) > 0 {
		r.changed(pod)
	}
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

// closeTimeout bounds how long Close waits. A process in a call that the kernel does not end, such as to a file server that
// does not answer, outlives it.
const closeTimeout = 10 * time.Second

// Close ends all runs and executions by KILL, and returns when nothing of them is left. The runtime starts no
// other.
func (r *Runtime) Close() {
	r.mu.Lock()
	closed := r.down
	r.down, r.requests = true, nil
	var running []*instance
	for c := range r.all { // any order: they are independent
		running = append(running, c)
	}
	r.mu.Unlock()
	for _, c := range running {
		c.kill()
	}
	ended, end := context.WithTimeout(context.Background(), closeTimeout)
	go func() {
		r.working.Wait()
		end()
	}()
	<-ended.Done()
	if !closed {
		r.template.close()
		_ = r.groups.close() // what is left is removed by the next program
	}
}
