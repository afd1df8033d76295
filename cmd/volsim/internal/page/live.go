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
	news
	cluster *cluster.Cluster
	began   time.Time
}

// NewLive returns the World of a live cluster that has started.
func NewLive(c *cluster.Cluster) *Live {
	l := &Live{cluster: c, began: c.Host().Now()}
	c.Trace().Watch(func(trace.Record) { l.announce() })
	return l
}

// State tells how things are.
func (l *Live) State() State {
	version, _ := l.News() // before one looks: what changes meanwhile has another number
	now, server := l.cluster.Host().Now(), l.cluster.Server()
	return State{
		Version: version, Made: madeOf(l.cluster), Time: now.Sub(l.began).Truncate(time.Second).String(),
		Objects: objectsOf(server), Events: eventsOf(server, now),
	}
}

// Past is what the cluster remembers.
func (l *Live) Past() Past { return Past{Records: l.cluster.Trace().Records()} }

// madeOf says what a cluster is made of.
func madeOf(c *cluster.Cluster) string {
	_, why := c.Devices()
	why = strings.TrimSuffix(why, ", as asked")
	nodes := len(c.Server().List("nodes"))
	if nodes == 1 {
		return "1 node; volumes are made of " + why
	}
	return fmt.Sprintf("%d nodes; volumes are made of %s", nodes, why)
}
