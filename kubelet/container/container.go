package container

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ErrNotRunning means that a container does not run, so nothing can be executed in it.
var ErrNotRunning = errors.New("container not running")

// A Run is one run of a container.
type Run struct {
	Pod       types.UID
	Container string
	Restarts  int32 // how often the container was restarted before
}

// A Spec says what a run executes, and what it sees of its node.
type Spec struct {
	Run
	Hostname   string   // the pod's
	Args       []string // command and arguments; empty: it runs until it is stopped, since its image's command is not known
	Env        []string // NAME=VALUE, in the order of their definition; a later one replaces an earlier one
	WorkingDir string   // "" means /
	Mounts     []Mount  // sorted by Path, so that one below another comes later
	Devices    []Device
	ReadOnly   bool // its root directory is read-only
	TTY        bool
	Stdin      *Input // what attached clients write; nil: empty
	Memory     int64  // limit in bytes; 0: none is specified
	Privileged bool   // it may change its node
	User       int64  // of the command; 0 is root
	Group      int64
	Groups     []int64 // further ones
}

// A Mount is a file or directory of the node in a container.
type Mount struct {
	Path     string // in the container, absolute and clean
	Source   string // on the node's disk
	ReadOnly bool
}

// A Device is a block device of the node in a container.
type Device struct {
	Path   string // in the container
	Source string // on the node's disk
}

// A State says how far a run is.
type State struct {
	Started    bool // Start was called for it
	Exited     bool
	Code       int32
	StartedAt  time.Time
	FinishedAt time.Time // if it has exited
	Message    string    // why it could not be executed, such as a command that does not exist; "" otherwise
}

// A Runtime runs containers of one node. Its methods may be called at any time by any goroutine; none
// suspends or blocks.
type Runtime interface {
	// Start starts a run, and returns at once. A run that was started before, or has ended, stays as it is. Runs of the
	// container before the previous one may be forgotten, as by Remove.
	Start(Spec)
	// State returns the state of a run.
	State(Run) State
	// Stop asks the command of a run to end, by TERM, and ends it by KILL after grace. Stopping again can only shorten
	// the grace. A run that has exited stays as it is.
	Stop(r Run, grace time.Duration)
	// Runs returns the runs of a pod that were started and not removed, sorted by container and number.
	Runs(pod types.UID) []Run
	// Remove ends all runs of a pod by KILL, without waiting for them, and forgets them with their logs and root
	// directories.
	Remove(pod types.UID)
	// Log returns the output of a run; nil if it was not started.
	Log(Run) *Output
	// Exec executes a command in a container that runs. The error is ErrNotRunning.
	Exec(r Run, args []string, streams Streams) (*Execution, error)
	// Observe registers a function that is called, by any goroutine, after the state of a run has changed. It replaces
	// that of an earlier kubelet.
	Observe(changed func(pod types.UID))
}
