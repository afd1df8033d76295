package page

import (
	"fmt"
	"strings"
	"time"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim/trace"
)

// Live is the World of a cluster that moves by itself.
type Live struct {
	changeNotifier
	cluster *cluster.Cluster
	began   time.Time
}

// NewLive returns the World of a live cluster that has started.
func NewLive(c *cluster.Cluster) *Live {
	l := &Live{cluster: c, began: c.Host().Now()}
	c.Trace().Watch(func(trace.Record) { l.notify() })
	return l
}

// State tells how things are.
func (l *Live) State() State {
	version, _ := l.Changes() // before one looks: what changes meanwhile has another number
	now, server := l.cluster.Host().Now(), l.cluster.Server()
	return State{
		Version: version, Setup: describeSetup(l.cluster), Time: now.Sub(l.began).Truncate(time.Second).String(),
		Objects: objectsOf(server), Events: eventsOf(server, now),
	}
}

// History is what the cluster remembers.
func (l *Live) History() History { return History{Records: l.cluster.Trace().Records()} }

// describeSetup says what a cluster is made of.
func describeSetup(c *cluster.Cluster) string {
	_, why := c.Devices()
	why = strings.TrimSuffix(why, ", as asked")
	nodes := len(c.Server().List("nodes"))
	if nodes == 1 {
		return "1 node; volumes are made of " + why
	}
	return fmt.Sprintf("%d nodes; volumes are made of %s", nodes, why)
}
