package scenario

import (
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/causality"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim/trace"
)

// relatedObjects returns the objects that a failure mentions and those related to them.
func relatedObjects(records []trace.Record, failure error) *causality.RelatedObjects {
	c := causality.NewRelatedObjects(records)
	for _, key := range namedObjects(c, records, failure) {
		c.Add(key)
	}
	if c.Selected() != nil && !errors.As(failure, new(*invariant.Violation)) {
		addCandidateVolumes(c, records)
	}
	return c
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
