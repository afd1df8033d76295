package nodelifecycle

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Rates, in nodes per second, and when they apply.
//
// Upstream: cmd/kube-controller-manager/app/options NodeLifecycleControllerOptions (v1.36).
const (
	evictionRate          = 0.1
	secondaryEvictionRate = 0.01 // of a large zone that is partially disrupted
	largeZone             = 50   // a zone with more nodes is large
	unhealthyZone         = 0.55 // part of the nodes that must not be ready
)

// excludedLabel is the label of nodes that do not count for the state of their zone.
//
// Upstream: pkg/controller/nodelifecycle labelNodeDisruptionExclusion (v1.36).
const excludedLabel = "node.kubernetes.io/exclude-disruption"

// A zoneState is how many nodes of a zone are not ready.
//
// Upstream: pkg/controller/nodelifecycle ZoneState (v1.36).
type zoneState int

const (
	zoneUnknown zoneState = iota // it has just been seen
	zoneNormal
	zonePartial // more than two, and at least 55%
	zoneFull    // all
)

// stateOf returns the state of a zone with this many nodes.
//
// Upstream: pkg/controller/nodelifecycle ComputeZoneState (v1.36).
func stateOf(ready, unready int) zoneState {
	switch {
	case ready == 0 && unready > 0:
		return zoneFull
	case unready > 2 && float32(unready)/float32(unready+ready) >= unhealthyZone:
		return zonePartial
	default:
		return zoneNormal
	}
}

// rateOf returns how many nodes a second are tainted in a zone in this state.
//
// Upstream: pkg/controller/nodelifecycle setLimiterInZone, ReducedQPSFunc, HealthyQPSFunc (v1.36).
func rateOf(state zoneState, nodes int) float64 {
	switch {
	case state != zonePartial:
		return evictionRate
	case nodes > largeZone:
		return secondaryEvictionRate
	default:
		return 0
	}
}

// A zone has the nodes to taint, and a token bucket for one.
type zone struct {
	state   zoneState
	rate    float64
	waiting []string  // nodes to taint, in order
	next    time.Time // when the bucket is full. Without a rate it is when it was, or was emptied
}

// limit changes the rate. A bucket that is not full is emptied.
//
// Upstream: pkg/controller/nodelifecycle/scheduler RateLimitedTimedQueue.SwapLimiter (v1.36).
func (z *zone) limit(rate float64, now time.Time) {
	if rate == z.rate {
		return
	}
	empty := z.rate == 0 || now.Before(z.next)
	z.rate = rate
	if empty {
		z.take(now)
	}
}

// take takes the token.
func (z *zone) take(now time.Time) {
	z.next = now
	if z.rate > 0 {
		z.next = now.Add(time.Duration(float64(time.Second) / z.rate))
	}
}

// zoneOf returns the name of a node's zone.
//
// Upstream: component-helpers node/topology GetZoneKey (v1.36).
func zoneOf(node *corev1.Node) string {
	label := func(stable, beta string) string {
		if value, has := node.Labels[stable]; has {
			return value
		}
		return node.Labels[beta]
	}
	return label(corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion) + ":" +
		label(corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone)
}

// zone returns a zone, which may be new.
func (c *controller) zone(name string) *zone {
	z := c.zones[name]
	if z == nil {
		z = &zone{rate: evictionRate}
		c.zones[name] = z
	}
	return z
}

// awaitTaint adds a node to those to taint in its zone.
func (c *controller) awaitTaint(name, zone string) {
	if z := c.zone(zone); !slices.Contains(z.waiting, name) {
		z.waiting = append(z.waiting, name)
		c.zoneQueue.Add(zone)
	}
}

// needsNoTaint removes a node from those to taint.
func (c *controller) needsNoTaint(name string) {
	for _, z := range c.zones {
		z.waiting = slices.DeleteFunc(z.waiting, func(other string) bool { return other == name })
	}
}

// syncZone taints one node of a zone, if its rate permits it.
//
// Differs: a failed write does not use up the token, nor does a node that was deleted while it waited.
//
// Upstream: pkg/controller/nodelifecycle doNoExecuteTaintingPass (v1.36).
func (c *controller) syncZone(ctx context.Context, name string) error {
	z := c.zone(name)
	c.zoneQueue.Cancel(name)
	now := c.process.Now()
	if len(z.waiting) == 0 || z.rate == 0 {
		return nil
	}
	if wait := z.next.Sub(now); wait > 0 {
		c.zoneQueue.AddAfter(name, wait)
		return nil
	}
	first := z.waiting[0]
	if node := c.node(first); node != nil {
		h := health{}
		h.observe(node, now)
		if taint, evicts := evictionTaint(h.ready); evicts {
			if _, err := c.taint(ctx, node, evicting, []taintID{taint}); err != nil {
				return err
			}
			z.take(now)
		}
	}
	z.waiting = slices.DeleteFunc(z.waiting, func(other string) bool { return other == first })
	if len(z.waiting) > 0 {
		c.zoneQueue.Add(name)
	}
	return nil
}

// judgeZones takes in the readiness of all nodes. A rate changes with the state of its zone. If the
// last zone with a ready node loses it, no node is tainted any more, and the taints are removed. If
// that ends, all nodes count as just seen.
//
// Upstream: pkg/controller/nodelifecycle handleDisruption (v1.36).
func (c *controller) judgeZones() {
	now := c.process.Now()
	counts := c.countNodes(now)
	states := map[string]zoneState{}
	allFull, wereFull := true, true // of the zones that count
	for name, n := range counts {
		states[name] = stateOf(n.ready, n.unready)
		allFull = allFull && states[name] == zoneFull
		wereFull = wereFull && c.zone(name).state == zoneFull
	}
	begins, ends := allFull && !wereFull, !allFull && wereFull
	if begins || ends {
		for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
			if begins {
				c.nodes[name].untaint = true
			} else {
				c.nodes[name].probe = now
			}
			c.queue.Add(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.zones)) {
		z := c.zones[name]
		n, counts := counts[name]
		before := z.state
		z.state = states[name]
		rate := z.rate
		switch {
		case !counts && before != zoneUnknown:
			rate, z.next = evictionRate, time.Time{} // as a new zone
		case counts && begins:
			rate = 0
		case counts && (ends || z.state != before):
			rate = rateOf(z.state, n.ready+n.unready)
		}
		if rate != z.rate {
			z.limit(rate, now)
			c.zoneQueue.Add(name)
		}
	}
}

// A count is how many nodes of a zone are ready.
type count struct{ ready, unready int }

// countNodes counts the nodes of each zone. A node that has expired is not ready, also if its status
// has not been written yet: nodes that expire at the same time are judged together.
func (c *controller) countNodes(now time.Time) map[string]count {
	counts := map[string]count{}
	for _, node := range c.all() {
		if _, excluded := node.Labels[excludedLabel]; excluded || !c.isMonitored(node.Name) {
			continue
		}
		zone := zoneOf(node)
		n := counts[zone]
		if ready := condition(node, corev1.NodeReady); ready != nil && ready.Status == corev1.ConditionTrue && !c.hasExpired(node, now) {
			n.ready++
		} else {
			n.unready++
		}
		counts[zone] = n
	}
	return counts
}
