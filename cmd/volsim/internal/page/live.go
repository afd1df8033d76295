package page

import (
	"fmt"
	"strings"
	"time"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim/trace"
)

// Live is the World of a cluster that runs by itself.
type Live struct {
	changeNotifier
	cluster *cluster.Cluster
	began   time.Time
}

// NewLive returns the World of a started cluster.
func NewLive(c *cluster.Cluster) *Live {
	l := &Live{cluster: c, began: c.Host().Now()}
	c.Trace().Watch(func(trace.Record) { l.notify() })
	return l
}

// State returns the current state.
func (l *Live) State() State {
	version, _ := l.Changes() // read first: later changes get another version
	now, server := l.cluster.Host().Now(), l.cluster.Server()
	return State{
		Version: version, Setup: describeSetup(l.cluster), Time: now.Sub(l.began).Truncate(time.Second).String(),
		Objects: objectsOf(server), Events: eventsOf(server, now),
	}
}

// History returns the records that the cluster keeps.
func (l *Live) History() History { return History{Records: l.cluster.Trace().Records()} }

// describeSetup describes the nodes and the volume backend of a cluster.
func describeSetup(c *cluster.Cluster) string {
	_, why := c.Devices()
	why = strings.TrimSuffix(why, ", as asked")
	nodes := len(c.Server().List("nodes"))
	if nodes == 1 {
		return "1 node; volumes on " + why
	}
	return fmt.Sprintf("%d nodes; volumes on %s", nodes, why)
}
