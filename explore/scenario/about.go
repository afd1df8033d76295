package scenario

import (
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim/trace"
)

// castOf finds what a failure is about: the objects that its sentence names, and those that have to do with them.
func castOf(records []trace.Record, failure error) *trace.Cast {
	c := trace.NewCast(records)
	for _, key := range named(c, records, failure) {
		c.Enter(key)
	}
	if c.About() != nil && !errors.As(failure, new(*invariant.Violation)) {
		enterRivals(c, records)
	}
	return c
}

// enterRivals lets those volumes be told of that a claim waits for in vain: those of its class that are large enough.
func enterRivals(c *trace.Cast, records []trace.Record) {
	bound := map[string]bool{}
	claims := map[string]*corev1.PersistentVolumeClaim{}
	volumes := map[string]*corev1.PersistentVolume{}
	for i := range records {
		switch o := records[i].After.(type) {
		case *corev1.PersistentVolumeClaim:
			key := c.Meet(o)
			bound[key] = bound[key] || o.Spec.VolumeName != ""
			claims[key] = o
		case *corev1.PersistentVolume:
			volumes[c.Meet(o)] = o
		}
	}
	about := c.About()
	for _, key := range slices.Sorted(maps.Keys(claims)) {
		if !slices.Contains(about, key) || bound[key] {
			continue
		}
		claim := claims[key]
		for _, name := range slices.Sorted(maps.Keys(volumes)) {
			size, room := claim.Spec.Resources.Requests.Storage(), volumes[name].Spec.Capacity.Storage()
			class := claim.Spec.StorageClassName
			if class != nil && *class == volumes[name].Spec.StorageClassName && room.Cmp(*size) >= 0 {
				c.Enter(name)
			}
		}
	}
}

// named are the objects that a failure's sentence names, and the one that was touched when it was seen.
func named(c *trace.Cast, records []trace.Record, failure error) []string {
	var violation *invariant.Violation
	var livelock *Livelock
	var touched []string
	switch {
	case failure == nil:
		return nil
	case errors.As(failure, &violation):
		for i := range records {
			if r := &records[i]; r.Step == violation.Step && (r.Kind == trace.KindAPI || r.Kind == trace.KindDriver) {
				touched = append(touched, c.Of(r)...)
			}
		}
		return append(touched, c.Named(violation.What)...)
	case errors.As(failure, &livelock):
		for i := range livelock.Cycle {
			touched = append(touched, c.Of(&livelock.Cycle[i])...)
		}
		return touched
	default:
		return c.Named(failure.Error())
	}
}

// watched are the resources that failures are about.
var watched = map[string]bool{"persistentvolumeclaims": true, "persistentvolumes": true, "pods": true, "volumeattachments": true}
