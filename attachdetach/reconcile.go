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

// A detachVerdict states whether a volume is detached from a node now, or what the detach waits
// for.
type detachVerdict int

// The verdicts about detaching.
const (
	detachNotNeeded    detachVerdict = iota // wanted there, or not attached
	detachNow                               //
	detachAfterRunning                      // another operation on the volume runs
	detachAfterBackoff                      // detaching failed a short while ago
	detachAfterUnmount                      // the node uses it
	detachNoPlugin                          // no plugin of that name can detach
)

// String returns the verdict in words.
func (v detachVerdict) String() string {
	return [...]string{
		"no detach needed", "detach", "wait for the running operation", "wait for the back-off",
		"wait for unmount", "no plugin can detach",
	}[v]
}

// An attachVerdict states whether a volume is attached to a node now, or what the attach waits for.
type attachVerdict int

// The verdicts about attaching.
const (
	attachNotNeeded    attachVerdict = iota // already attached
	attachNow                               //
	attachAfterRunning                      // another operation on the volume runs
	attachAfterBackoff                      // attaching failed a short while ago
	attachAfterOthers                       // a single-node volume that is, or may be, attached to another node
)

// String returns the verdict in words.
func (v attachVerdict) String() string {
	return [...]string{
		"no attach needed", "attach", "wait for the running operation", "wait for the back-off",
		"wait for detach from other nodes",
	}[v]
}

// detachFacts holds everything that the decision to detach depends on.
type detachFacts struct {
	wanted    bool
	canDetach bool
	check     error // the executor's, for the operation
	node      nodeFacts
	requested time.Time // start of the timeout; zero: not started
	now       time.Time
	wait      time.Duration // unmount timeout on a node that is not ready; 0: none
}

// A detachDecision is a verdict with its details.
type detachDecision struct {
	verdict detachVerdict
	until   time.Time // time at which the verdict may change by itself; zero: never
	safety  detachSafety
	timeout bool // the unmount timeout has passed
}

// decideDetach decides in upstream's order: while another operation is in flight, no detach and no
// timeout starts.
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
		d.verdict = detachAfterUnmount
		if f.wait > 0 && !d.timeout {
			d.until = deadline
		}
	}
	return d
}

// attachFacts holds everything that the decision to attach depends on.
type attachFacts struct {
	state    attachState
	blockers int   // other nodes from which it must be detached first
	check    error // the executor's, for the operation
}

// decideAttach decides in upstream's order: while an operation is in flight, no multi-attach event
// is recorded.
//
// Upstream: pkg/controller/volume/attachdetach/reconciler attachDesiredVolumes (v1.36).
func decideAttach(f attachFacts) attachVerdict {
	switch {
	case errors.Is(f.check, executor.ErrPending):
		return attachAfterRunning
	case f.state == stateAttached:
		return attachNotNeeded
	case f.blockers > 0:
		return attachAfterOthers
	case f.check != nil:
		return attachAfterBackoff
	default:
		return attachNow
	}
}

// syncVolume reconciles one volume. It first detaches from the nodes where the volume is not
// wanted, so that a moved pod finds it free, then attaches. It does not wait for operations; the
// volume is queued again when they end. It leaves the process to write node statuses. An error is
// the error of such a write, and the volume is retried.
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

// detachOrder returns the nodes to which the volume is attached, least recently tried first. Nodes
// may share a key and its back-off; a node whose detach keeps failing must not starve the others.
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
	case detachAfterUnmount:
		c.requestDetach(a)
	case detachNow:
		c.requestDetach(a)
		return c.detach(ctx, a)
	}
	return nil
}

// requestDetach starts the unmount timeout of an unwanted attachment, once.
func (c *Controller) requestDetach(a *attachedVolume) {
	if a.DetachRequested.IsZero() {
		a.DetachRequested = c.cfg.Process.Now()
	}
}

func (c *Controller) syncAttach(ctx context.Context, d *desiredVolume) {
	if a := c.actual.get(d.Volume, d.Node); a != nil {
		// Differs: upstream resets the timeout of attached volumes only. An uncertain one that was
		// wanted again meanwhile may lose its six minutes.
		a.DetachRequested = time.Time{}
	}
	verdict, blockers, until := c.decideAttach(d)
	if log := logr.FromContextOrDiscard(ctx).V(4); log.Enabled() {
		log.Info("attach", "volume", d.Volume, "node", d.Node, "verdict", verdict.String())
	}
	c.requeueAt(d.Volume, until)
	switch verdict {
	case attachAfterOthers:
		c.reportMultiAttach(d, blockers)
	case attachNow:
		c.attach(d)
	}
}

// decideDetach gathers the facts about an attachment and decides.
func (c *Controller) decideDetach(a *attachedVolume) detachDecision {
	if c.desired.Get(a.Volume, a.Node) != nil {
		return decideDetach(detachFacts{wanted: true}) // the common case
	}
	_, err := c.detacher(a.Volume)
	node, _ := c.nodes.Get(string(a.Node))
	return decideDetach(detachFacts{
		canDetach: err == nil,
		check:     c.executor.Check(operationKey(a.Volume, a.Spec, a.Node), opDetach),
		node:      nodeFactsOf(node, c.actual.InUse(a.Volume, a.Node)),
		requested: a.DetachRequested,
		now:       c.cfg.Process.Now(),
		wait:      c.forceDetachAfter(),
	})
}

// decideAttach gathers the facts about a wanted volume and decides.
func (c *Controller) decideAttach(d *desiredVolume) (attachVerdict, []*attachedVolume, time.Time) {
	blockers := c.blockers(d)
	check := c.executor.Check(operationKey(d.Volume, d.Spec, d.Node), opAttach)
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

// forceDetachAfter returns the unmount timeout on a node that is not ready; 0 means none.
func (c *Controller) forceDetachAfter() time.Duration {
	if c.cfg.DisableForceDetach {
		return 0
	}
	return cmp.Or(c.cfg.MaxWaitForUnmount, maxWaitForUnmount)
}

// requeueAt queues the volume at a time, unless it is queued before. A zero time is ignored.
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
