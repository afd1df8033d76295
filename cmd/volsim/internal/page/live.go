package page

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
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
	targets, _ := targetsOf(l.cluster, l.cluster.Host().Events())
	return State{
		Version: version, Setup: describeSetup(l.cluster), Time: now.Sub(l.began).Truncate(time.Second).String(),
		Objects: objectsOf(server), Events: eventsOf(server, now), Targets: targets,
	}
}

// actTimeout is how long an act may take in a live world.
const actTimeout = 10 * time.Second

// Do injects an event, or performs an act of a user.
func (l *Live) Do(op string) (Result, error) {
	op, err := oneLine(op)
	if err != nil {
		return Result{}, err
	}
	words := strings.Fields(op)
	done := Result{Advanced: true, Message: op}
	if slices.Contains(cluster.EventKinds, words[0]) {
		if !l.cluster.Host().Inject(strings.Join(words, " ")) {
			return Result{}, fmt.Errorf("%s: not possible now", op)
		}
		return done, nil
	}
	act, err := scenario.ParseAct(op)
	if err != nil {
		return Result{}, fmt.Errorf("%w; %w", err, errLive)
	}
	ctx, cancel := context.WithTimeout(context.Background(), actTimeout)
	defer cancel()
	return done, act.Do(ctx, l.cluster, nil)
}

// oneLine returns an operation without the space around it, or an error if it is not one line.
func oneLine(op string) (string, error) {
	op = strings.TrimSpace(op)
	switch {
	case op == "":
		return "", errors.New("no operation: enter one, such as: create claim data 64Mi")
	case strings.ContainsAny(op, "\r\n"):
		return "", errors.New("more than one line: enter one operation at a time")
	}
	return op, nil
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
