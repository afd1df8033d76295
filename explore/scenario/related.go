package scenario

import (
	"errors"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/causality"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim/trace"
)

// relatedObjects returns the objects that a failure mentions and those related to them, with all
// objects of the test's own. For a violation that mentions none, it returns those written last.
func relatedObjects(s *Scenario, records []trace.Record, failure error) *causality.RelatedObjects {
	c := causality.NewRelatedObjects(records, s.writesOwn)
	named := namedObjects(c, records, failure)
	if len(named) == 0 && errors.As(failure, new(*invariant.Violation)) {
		named = lastWritten(c, records)
	}
	for _, key := range named {
		c.Add(key)
	}
	if c.Selected() != nil {
		for _, key := range c.Own() {
			c.Add(key)
		}
	}
	if c.Selected() != nil && !errors.As(failure, new(*invariant.Violation)) {
		addCandidateVolumes(c, records)
	}
	return c
}

// lastWrittenMax is the number of objects that stand for the violation of a rule that mentions none.
const lastWrittenMax = 3

// lastWritten returns the objects written last: what a violation is about whose rule mentions none.
func lastWritten(c *causality.RelatedObjects, records []trace.Record) []string {
	var last []string
	known := c.Written()
	for i := range slices.Backward(records) {
		if records[i].After == nil {
			continue
		}
		for _, key := range c.ObjectsOf(&records[i]) {
			if slices.Contains(known, key) && !slices.Contains(last, key) {
				last = append(last, key)
			}
		}
		if len(last) >= lastWrittenMax {
			break
		}
	}
	return last
}

// writesOwn reports whether a record is a write of the test's own: any by a component of its own or
// by a script, and one by a user's act to an object of another resource than those of the control
// plane.
func (s *Scenario) writesOwn(r *trace.Record) bool {
	process, resource := trace.Process(r.Task), r.Resource()
	if r.Kind != trace.KindAPI || resource == "events" {
		return false
	}
	if s.isOwn(process) {
		return true
	}
	byUser := slices.ContainsFunc(s.Users, func(u User) bool { return u.Name == process })
	return byUser && !failureResources[resource] && resource != "nodes" && resource != "storageclasses"
}

// isOwn reports whether a process is a component of the test's own or a user with a script.
func (s *Scenario) isOwn(process string) bool {
	process, _, _ = strings.Cut(process, "#") // a replica
	return slices.ContainsFunc(s.Extra, func(c cluster.Component) bool { return c.Name == process }) ||
		slices.ContainsFunc(s.Users, func(u User) bool { return u.Name == process && u.Script != nil })
}

// addCandidateVolumes adds the volumes that an unbound claim could have: those of its class that
// are large enough.
func addCandidateVolumes(c *causality.RelatedObjects, records []trace.Record) {
	bound := map[string]bool{}
	claims := map[string]*corev1.PersistentVolumeClaim{}
	volumes := map[string]*corev1.PersistentVolume{}
	for i := range records {
		switch o := records[i].After.(type) {
		case *corev1.PersistentVolumeClaim:
			key := c.Observe(o)
			bound[key] = bound[key] || o.Spec.VolumeName != ""
			claims[key] = o
		case *corev1.PersistentVolume:
			volumes[c.Observe(o)] = o
		}
	}
	about := c.Selected()
	for _, key := range slices.Sorted(maps.Keys(claims)) {
		if !slices.Contains(about, key) || bound[key] {
			continue
		}
		claim := claims[key]
		for _, name := range slices.Sorted(maps.Keys(volumes)) {
			size, room := claim.Spec.Resources.Requests.Storage(), volumes[name].Spec.Capacity.Storage()
			class := claim.Spec.StorageClassName
			if class != nil && *class == volumes[name].Spec.StorageClassName && room.Cmp(*size) >= 0 {
				c.Add(name)
			}
		}
	}
}

// namedObjects returns the objects that a failure mentions, and the object of the action at which
// it was detected.
func namedObjects(c *causality.RelatedObjects, records []trace.Record, failure error) []string {
	var violation *invariant.Violation
	var livelock *Livelock
	var touched []string
	switch {
	case failure == nil:
		return nil
	case errors.As(failure, &violation):
		for i := range records {
			if r := &records[i]; r.Step == violation.Step && (r.Kind == trace.KindAPI || r.Kind == trace.KindDriver) {
				touched = append(touched, c.ObjectsOf(r)...)
			}
		}
		return append(touched, c.NamedIn(violation.Message)...)
	case errors.As(failure, &livelock):
		for i := range livelock.Cycle {
			touched = append(touched, c.ObjectsOf(&livelock.Cycle[i])...)
		}
		return touched
	default:
		return c.NamedIn(failure.Error())
	}
}

// failureResources holds the resources that failures concern.
var failureResources = map[string]bool{
	"persistentvolumeclaims": true, "persistentvolumes": true,
	"pods": true, "volumeattachments": true,
}
