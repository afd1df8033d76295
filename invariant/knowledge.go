package invariant

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/sim/trace"
)

// A rule may only require of a component what the component could know. Its caches may lag, and the
// world changes between its decision and its write. The functions of this file derive from the log
// what it had seen.

// controllers are the components that have a cache. Rules about controllers do not bind users, who
// have none.
type controllers map[string]bool

// observe handles a delivery.
func (c controllers) observe(r trace.Record) {
	if name := componentOf(r.Task); !c[name] {
		c[name] = true
	}
}

// includes reports whether a record is a controller's.
func (c controllers) includes(r trace.Record) bool { return c[componentOf(r.Task)] }

// componentOf returns the component of a task: "pvcontroller" of "pvcontroller/claims".
func componentOf(actor string) string {
	name, _, _ := strings.Cut(actor, "/")
	return name
}

// knew reports whether the cache of a record's component had the given revision of an object, or a
// newer one, when it took up the key in whose sync it made the record. object is named as in
// deliveries: "persistentvolumes/data". A resource alone means the last delivery of any object of
// it. Unknown counts as false.
//
// It reads the log backwards: use it for rare cases.
func (c *Checker) knew(r trace.Record, key, object string, revision int64) bool {
	records := recordsUntilSync(c.Log.Records(), r.Task, key)
	i := lastDelivery(records, componentOf(r.Task), object)
	return i >= 0 && revisionInDetail(records[i].Detail) >= revision
}

// knewFromSync is knew for a component that, like the PersistentVolume controller, has a second
// cache. That is updated from the informers when it takes up the object's own key, which is the
// object's name, or any key for the first time.
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

// recordsUntilSync returns the records of the current process of a task's component, up to where
// the task last took up the key; none if it did not.
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

// endsProcess reports whether a record says that a component was killed or started. Its knowledge
// is lost then.
func endsProcess(r trace.Record, component string) bool {
	if r.Kind != trace.KindEvent || r.Verb != "crash" && r.Verb != "stop" && r.Verb != "start" && r.Verb != "retire" {
		return false
	}
	return r.Object == component || strings.HasPrefix(r.Object, component+" ")
}

// lastDelivery returns the index of the last delivery of an object, by list or event, to a
// component's current process; -1 if there is none.
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

// startsSync reports whether a task takes up a key in a record.
func startsSync(r trace.Record, actor, key string) bool {
	return r.Kind == trace.KindWork && r.Task == actor && (r.Object == key || strings.HasPrefix(r.Object, key+"/"))
}

// hadListed reports whether the current process of a record's component had listed a resource. It
// returns true if the log does not reach back far enough.
func (c *Checker) hadListed(r trace.Record, resource string) bool {
	records := c.Log.Records()
	return lastDelivery(records, componentOf(r.Task), resource) >= 0 || len(records) < c.Log.Steps()
}

// revisionInDetail returns the revision in a record's detail, such as "rv=12" or "3 items rv=12".
func revisionInDetail(detail string) int64 {
	_, rv, _ := strings.Cut(detail, "rv=")
	rv, _, _ = strings.Cut(rv, " ")
	return revisionOf(rv)
}

// revisionOf returns a resourceVersion as a number; 0 if it is not one.
func revisionOf(resourceVersion string) int64 {
	n, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// claimOfRef returns the claim that a claimRef refers to by its UID; nil if it does not exist.
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

// volumeNamed returns the PersistentVolume of a name; nil if it does not exist.
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
