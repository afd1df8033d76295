package invariant

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/sim/trace"
)

// What a rule may hold against a component depends on what the component could know. Its caches may be behind, and
// between its decision and its write the world goes on. The functions of this file read from the log what it had seen.

// controllers are the components that have a cache. A rule about what controllers do does not bind users, who have none.
type controllers map[string]bool

// observe takes in a delivery.
func (c controllers) observe(r trace.Record) {
	if r.Verb == "LIST" {
		c[componentOf(r.Task)] = true
	}
}

// includes tells whether a record is a controller's.
func (c controllers) includes(r trace.Record) bool { return c[componentOf(r.Task)] }

// componentOf is the component of an actor: "pvcontroller" of "pvcontroller/claims".
func componentOf(actor string) string {
	name, _, _ := strings.Cut(actor, "/")
	return name
}

// knew tells whether the component that made a record had in its cache, when it took up the key in whose sync it made it,
// the given revision of an object or a newer one. object is as deliveries name it: "persistentvolumes/data"; a resource
// alone means the last that happened to any object of it. What cannot be told counts as not known.
//
// It reads the log backwards, and is for what seldom happens.
func (c *Checker) knew(r trace.Record, key, object string, revision int64) bool {
	records := recordsUntilSync(c.Log.Records(), r.Task, key)
	i := lastDelivery(records, componentOf(r.Task), object)
	return i >= 0 && revisionInDetail(records[i].Detail) >= revision
}

// knewFromSync is knew for a component that, like the PersistentVolume controller, does not believe its informers before it has
// taken up the object's own key, named as the object, or any key for the first time.
func (c *Checker) knewFromSync(r trace.Record, key, object string, revision int64) bool {
	records := recordsUntilSync(c.Log.Records(), r.Task, key)
	component := componentOf(r.Task)
	i := lastDelivery(records, component, object)
	if i < 0 || revisionInDetail(records[i].Detail) < revision {
		return false
	}
	_, name, _ := strings.Cut(object, "/")
	works := func(s trace.Record) bool { return s.Kind == trace.KindWork && componentOf(s.Task) == component }
	after := slices.ContainsFunc(records[i:], func(s trace.Record) bool { return works(s) && s.Object == name })
	return after || !slices.ContainsFunc(records[:i], works)
}

// recordsUntilSync are the records of this life of an actor's component, up to where the actor last took up a key; none where it did
// not.
func recordsUntilSync(records []trace.Record, actor, key string) []trace.Record {
	end := 0
	for i, s := range slices.Backward(records) {
		switch {
		case end == 0 && startsSync(s, actor, key):
			end = i
		case endsProcess(s, componentOf(actor)):
			return records[min(i, end):end]
		}
	}
	return records[:end]
}

// endsProcess tells whether a record says that a component was killed or begins anew: what it knew, it knows no more.
func endsProcess(r trace.Record, component string) bool {
	if r.Kind != trace.KindEvent || r.Verb != "crash" && r.Verb != "stop" && r.Verb != "start" && r.Verb != "retire" {
		return false
	}
	return r.Object == component || strings.HasPrefix(r.Object, component+" ")
}

// lastDelivery is where a component was last told of an object, by a list or an event, in this life of it; -1 where it was not.
func lastDelivery(records []trace.Record, component, object string) int {
	resource, _, one := strings.Cut(object, "/")
	for i, s := range slices.Backward(records) {
		switch {
		case endsProcess(s, component):
			return -1
		case s.Kind != trace.KindDeliver || componentOf(s.Task) != component:
		case s.Object == object, s.Object == resource, !one && strings.HasPrefix(s.Object, resource+"/"):
			return i
		}
	}
	return -1
}

// startsSync tells whether a record is of an actor taking up a key.
func startsSync(r trace.Record, actor, key string) bool {
	return r.Kind == trace.KindWork && r.Task == actor && (r.Object == key || strings.HasPrefix(r.Object, key+"/"))
}

// hadListed tells whether the component that made a record had a list of a resource in this life of it. It counts as so
// when that cannot be told any more.
func (c *Checker) hadListed(r trace.Record, resource string) bool {
	records := c.Log.Records()
	return lastDelivery(records, componentOf(r.Task), resource) >= 0 || len(records) < c.Log.Steps()
}

// revisionInDetail is the revision that a record's detail gives, as in "rv=12" or "3 items rv=12".
func revisionInDetail(detail string) int64 {
	_, rv, _ := strings.Cut(detail, "rv=")
	rv, _, _ = strings.Cut(rv, " ")
	return revisionOf(rv)
}

// revisionOf is a resourceVersion as a number; 0 where it is none.
func revisionOf(resourceVersion string) int64 {
	n, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// claimOfRef is the claim that a claimRef means by its UID; nil when it is not there.
func (c *Checker) claimOfRef(ref *corev1.ObjectReference) *corev1.PersistentVolumeClaim {
	if ref == nil || ref.UID == "" {
		return nil
	}
	obj, ok := c.API.Get("persistentvolumeclaims", ref.Namespace, ref.Name)
	if !ok || obj.GetUID() != ref.UID {
		return nil
	}
	return obj.(*corev1.PersistentVolumeClaim)
}

// volumeNamed is the PersistentVolume of a name; nil when it is not there.
func (c *Checker) volumeNamed(name string) *corev1.PersistentVolume {
	if name == "" {
		return nil
	}
	obj, ok := c.API.Get("persistentvolumes", "", name)
	if !ok {
		return nil
	}
	return obj.(*corev1.PersistentVolume)
}
