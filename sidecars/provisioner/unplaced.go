package provisioner

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// This file retries claims for which no request to the driver can be built from the API objects: the
// VolumeAttributesClass, the data source or the topology of a node does not exist or does not fit.

// An unplaced claim waits until its request can be built.
type unplaced struct {
	key       claimKey
	failures  int
	message   string // of the last failure
	scheduled bool   // a retry is scheduled
}

// waitForPlacement retries an attempt with back-off, and reports the failure unless it is the same
// as the last one. The retries are in the background: a world in which they all fail is at rest.
//
// Differs: upstream reports the failure of each retry, and so increments the count of its event.
//
// Upstream: external-provisioner pkg/controller prepareProvision (6.3.0),
// sig-storage-lib-external-provisioner processNextClaimWorkItem (v13.0.0).
func (c *Controller) waitForPlacement(a *attempt, err error) {
	u := c.unplaced[a.key.uid]
	if u == nil {
		u = &unplaced{key: a.key}
		c.unplaced[a.key.uid] = u
	}
	if u.message != err.Error() {
		u.message = err.Error()
		c.reportBegin(a)
		c.reportFailed(a, finished, err)
	}
	if !u.scheduled {
		u.scheduled = true
		c.unplacedQueue.AddAfter(a.key, doubled(c.cfg.BackoffMin, u.failures, c.cfg.BackoffMax))
		u.failures++
	}
}

// doubled returns a delay that is doubled a number of times, up to a limit.
func doubled(delay time.Duration, times int, limit time.Duration) time.Duration {
	for range times {
		if delay >= limit {
			break
		}
		delay *= 2
	}
	return min(delay, limit)
}

// retryPlacement queues a claim whose back-off has passed.
func (c *Controller) retryPlacement(_ context.Context, key claimKey) error {
	if u := c.unplaced[key.uid]; u != nil {
		u.scheduled = false
		c.claimQueue.Add(key)
	}
	return nil
}

// requeueUnplaced queues the unplaced claims for which match returns true. It is called when a cache
// has changed from which requests are built: a retry may have run before.
func (c *Controller) requeueUnplaced(match func(claim *corev1.PersistentVolumeClaim) bool) {
	var keys []claimKey
	for _, u := range c.unplaced {
		if claim := c.claim(u.key); claim != nil && match(claim) {
			keys = append(keys, u.key)
		}
	}
	slices.SortFunc(keys, func(a, b claimKey) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		c.claimQueue.Add(key)
	}
}

// topologyChanged queues the unplaced claims.
func (c *Controller) topologyChanged() {
	c.requeueUnplaced(func(*corev1.PersistentVolumeClaim) bool { return true })
}

// requeueClones queues the unplaced clones of a claim.
func (c *Controller) requeueClones(source *corev1.PersistentVolumeClaim) {
	c.requeueUnplaced(func(claim *corev1.PersistentVolumeClaim) bool {
		return isFrom(claim, claimKind, source.Namespace, source.Name)
	})
}
