package attachdetach

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/executor"
)

// detachVerdict tells whether a volume is detached from a node now, and if not, what that waits for.
type detachVerdict int

// The verdicts about detaching.
const (
	detachNotNeeded    detachVerdict = iota // it is wanted there, or not attached
	detachNow                               //
	detachAfterRunning                      // another operation on the volume runs
	detachAfterBackoff                      // detaching failed a short while ago
	DetachAfterUnmount                      // the node uses it
	detachNoPlugin                          // no plugin of that name can detach
)

// String gives the verdict in a few words.
func (v detachVerdict) String() string {
	return [...]string{
		"no detach needed", "detach", "wait for the running operation", "wait for the back-off",
		"wait for unmount", "no plugin can detach",
	}[v]
}

// attachVerdict tells whether a volume is attached to a node now, and if not, what that waits for.
type attachVerdict int

// The verdicts about attaching.
const (
	attachNotNeeded    attachVerdict = iota // it is attached
	attachNow                               //
	attachAfterRunning                      // another operation on the volume runs
	attachAfterBackoff                      // attaching failed a short while ago
	AttachAfterOthers                       // it is, or may be, attached to another node, and may be to one only
)

// String gives the verdict in a few words.
func (v attachVerdict) String() string {
	return [...]string{
		"no attach needed", "attach", "wait for the running operation", "wait for the back-off",
		"wait for detach from other nodes",
	}[v]
}

// detachFacts is all that the decision to detach depends on.
type detachFacts struct {
	wanted    bool
	canDetach bool
	check     error // the executor's, for the operation
	node      nodeFacts
	requested time.Time // zero: not asked for before
	now       time.Time
	wait      time.Duration // after which a node that is not ready is not waited for; 0: never
}

// detachDecision is a verdict and what goes with it.
type detachDecision struct {
	verdict detachVerdict
	until   time.Time // when time alone may change the verdict; zero: never
	safety  detachSafety
	timeout bool // the wait is over
}

// decideDetach decides in upstream's order: nothing is begun, and no clock started, while another operation is under way.
//
// Upstream: pkg/controller/volume/attachdetach/reconciler reconcile (v1.36).
func decideDetach(f detachFacts) detachDecision {
	var backoff *executor.BackoffError
	switch {
	case f.wanted:
		return detachDecision{verdict: detachNotNeeded}
	case !f.canDetach:
		return detachDecision{verdict: detachNoPlugin}
	case errors.As(f.check, &backoff):
		return detachDecision{verdict: detachAfterBackoff, until: f.now.Add(backoff.Remaining)}
	case f.check != nil:
		return detachDecision{verdict: detachAfterRunning}
	}
	deadline := f.requested.Add(f.wait)
	if f.requested.IsZero() {
		deadline = f.now.Add(f.wait)
	}
	d := detachDecision{verdict: detachNow, timeout: f.wait > 0 && !f.now.Before(deadline)}
	d.safety = decideSafety(f.node, d.timeout)
	if d.safety == safetyInUse {
		d.verdict = DetachAfterUnmount
		if f.wait > 0 && !d.timeout {
			d.until = deadline
		}
	}
	return d
}

// attachFacts is all that the decision to attach depends on.
type attachFacts struct {
	state    attachState
	blockers int   // other nodes it must be detached from first
	check    error // the executor's, for the operation
}

// decideAttach decides in upstream's order: while an operation is under way nobody is told that the volume is attached
// elsewhere.
//
// Upstream: pkg/controller/volume/attachdetach/reconciler attachDesiredVolumes (v1.36).
func decideAttach(f attachFacts) attachVerdict {
	switch {
	case errors.Is(f.check, executor.ErrPending):
		return attachAfterRunning
	case f.state == Attached:
		return attachNotNeeded
	case f.blockers > 0:
		return AttachAfterOthers
	case f.check != nil:
		return attachAfterBackoff
	default:
		return attachNow
	}
}

// syncVolume brings one volume nearer to what is wanted: detaches from the nodes where it is not wanted first, so that a pod
// that moved finds it free, then attaches. What it starts it does not wait for; it is called again when that is done. It
// leaves the component to write node statuses; an error is that of such a write, and the volume is to be tried again.
//
// Upstream: pkg/controller/volume/attachdetach/reconciler reconcile (v1.36).
func (c *Controller) syncVolume(ctx context.Context, volume corev1.UniqueVolumeName) error {
	var errs []error
	for _, a := range c.actual.Attachments(volume) {
		c.recheck(a)
	}
	for _, node := range c.detachOrder(volume) {
		errs = append(errs, c.syncDetach(ctx, volume, node))
	}
	for _, d := range c.desired.Nodes(volume) {
		c.syncAttach(ctx, d)
	}
	if len(c.actual.Attachments(volume)) == 0 && len(c.desired.Nodes(volume)) == 0 {
		delete(c.requeues, volume)
	}
	return errors.Join(errs...)
}

// detachOrder is where the volume is attached, the node tried longest ago first: where nodes share a key and its
// back-off, one that keeps failing must not keep the others from their turn.
func (c *Controller) detachOrder(volume corev1.UniqueVolumeName) []types.NodeName {
	attachments := c.actual.Attachments(volume)
	slices.SortStableFunc(attachments, func(a, b *attachedVolume) int { return a.DetachTried.Compare(b.DetachTried) })
	nodes := make([]types.NodeName, len(attachments))
	for i, a := range attachments {
		nodes[i] = a.Node
	}
	return nodes
}

func (c *Controller) syncDetach(ctx context.Context, volume corev1.UniqueVolumeName, node types.NodeName) error {
	a := c.actual.get(volume, node)
	if a == nil {
		return nil
	}
	d := c.decideDetach(a)
	if log := logr.FromContextOrDiscard(ctx).V(4); log.Enabled() {
		log.Info("detach", "volume", volume, "node", node, "verdict", d.verdict.String())
	}
	c.requeueAt(volume, d.until)
	switch d.verdict {
	case DetachAfterUnmount:
		c.requestDetach(a)
	case detachNow:
		c.requestDetach(a)
		return c.detach(ctx, a)
	}
	return nil
}

// requestDetach starts the clock of an attachment that is not wanted any more, once.
func (c *Controller) requestDetach(a *attachedVolume) {
	if a.DetachRequested.IsZero() {
		a.DetachRequested = c.cfg.Process.Now()
	}
}

func (c *Controller) syncAttach(ctx context.Context, d *desiredVolume) {
	if a := c.actual.get(d.Volume, d.Node); a != nil {
		// Differs: upstream resets the clock of attached volumes only; one that is uncertain and was wanted again
		// meanwhile may lose its six minutes.
		a.DetachRequested = time.Time{}
	}
	verdict, blockers, until := c.decideAttach(d)
	if log := logr.FromContextOrDiscard(ctx).V(4); log.Enabled() {
		log.Info("attach", "volume", d.Volume, "node", d.Node, "verdict", verdict.String())
	}
	c.requeueAt(d.Volume, until)
	switch verdict {
	case AttachAfterOthers:
		c.reportMultiAttach(d, blockers)
	case attachNow:
		c.attach(d)
	}
}

// decideDetach gathers the facts about an attachment and decides.
func (c *Controller) decideDetach(a *attachedVolume) detachDecision {
	if c.desired.Get(a.Volume, a.Node) != nil {
		return decideDetach(detachFacts{wanted: true}) // which is most of them, and for which nothing else matters
	}
	_, err := c.detacher(a.Volume)
	node, _ := c.nodes.Get(string(a.Node))
	return decideDetach(detachFacts{
		canDetach: err == nil,
		check:     c.executor.Check(operationKey(a.Volume, a.Spec, a.Node), executor.Detach),
		node:      nodeFactsOf(node, c.actual.InUse(a.Volume, a.Node)),
		requested: a.DetachRequested,
		now:       c.cfg.Process.Now(),
		wait:      c.forceDetachAfter(),
	})
}

// decideAttach gathers the facts about a wanted volume and decides.
func (c *Controller) decideAttach(d *desiredVolume) (attachVerdict, []*attachedVolume, time.Time) {
	blockers := c.blockers(d)
	check := c.executor.Check(operationKey(d.Volume, d.Spec, d.Node), executor.Attach)
	verdict := decideAttach(attachFacts{
		state:    c.actual.State(d.Volume, d.Node),
		blockers: len(blockers),
		check:    check,
	})
	var until time.Time
	var backoff *executor.BackoffError
	if verdict == attachAfterBackoff && errors.As(check, &backoff) {
		until = c.cfg.Process.Now().Add(backoff.Remaining)
	}
	return verdict, blockers, until
}

// forceDetachAfter is how long a node that is not ready is waited for; 0: for ever.
func (c *Controller) forceDetachAfter() time.Duration {
	if c.cfg.DisableForceDetach {
		return 0
	}
	return cmp.Or(c.cfg.MaxWaitForUnmount, maxWaitForUnmount)
}

// requeueAt has the volume looked at again at a time, unless that is to happen before anyway. Zero is never.
func (c *Controller) requeueAt(volume corev1.UniqueVolumeName, at time.Time) {
	now := c.cfg.Process.Now()
	if at.IsZero() {
		return
	}
	if next, ok := c.requeues[volume]; ok && next.After(now) && !next.After(at) {
		return
	}
	c.requeues[volume] = at
	c.volumes.AddAfter(volume, at.Sub(now))
}
