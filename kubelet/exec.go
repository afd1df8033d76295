package kubelet

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/volsim/volsim/kubelet/container"
)

// errExitedWith says that a command has failed; its code follows.
var errExitedWith = errors.New("exited with")

// errTimedOut says that a command has not ended in time.
var errTimedOut = errors.New("timed out")

// exec is execute with the first part of the output as text.
func (k *Kubelet) exec(run container.Run, args []string, limit time.Duration) (code int32, output string, err error) {
	code, out, err := k.execute(run, args, limit)
	if err != nil {
		return 0, "", err
	}
	return code, out.Text(""), nil
}

// execute executes a command in a container, in a task of its own, and waits until it has ended; at most limit, unless 0. It
// returns the last part of its output.
//
// Upstream: pkg/kubelet/kuberuntime RunInContainer (v1.36).
func (k *Kubelet) execute(run container.Run, args []string, limit time.Duration) (int32, *container.Output, error) {
	out := container.NewOutput(execOutputMax)
	e, err := k.cfg.Containers.Exec(run, args, container.Streams{Output: out, Ended: k.cfg.Process.Wake})
	if err != nil {
		return 0, nil, err
	}
	if !k.cfg.Process.Wait("command in "+run.Container+" to end", limit, e.Ended) {
		e.Kill()
		return 0, out, fmt.Errorf("command timed out: %q %w after %s", strings.Join(args, " "), errTimedOut, limit)
	}
	return e.Code(), out, nil
}

// execOutputMax is the number of bytes of a command's output that are kept.
//
// Upstream: pkg/probe/exec maxReadLength (v1.36).
const execOutputMax = 10 << 10
