package invariant

import (
	"slices"
	"strconv"
	"strings"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about caches and the store.
var cacheRules = []builtIn{
	{"I34", "an object that returns to an older version, in the store or in a cache", beginOrder},
}

// orderedResources are the resources whose commits are checked.
var orderedResources = []string{
	"persistentvolumeclaims", "persistentvolumes", "pods", "nodes", "volumeattachments", "storageclasses", "csinodes",
	"csidrivers", "events",
}

// order is the state of I34: resourceVersions in the store and in caches.
type order struct {
	c        *Checker
	revision int64                  // of the last commit
	stored   map[storedObject]int64 // revisions
	caches   map[cacheOf]int64
}

// A storedObject identifies an object in the store.
type storedObject struct{ resource, namespace, name string }

// String returns "resource/namespace/name", or "resource/name".
func (o storedObject) String() string {
	if o.namespace == "" {
		return o.resource + "/" + o.name
	}
	return o.resource + "/" + o.namespace + "/" + o.name
}

// A cacheOf identifies a component's copy of a resource, in its cache or its metadata watcher.
type cacheOf struct{ component, kind, resource string }

// beginOrder checks that revisions rise from commit to commit, that an object replaces the one
// stored last, and that a cache receives the events of a resource in order. A new list must not be
// older than the cache. A restarted component may begin further back.
func beginOrder(c *Checker) watcher {
	o := &order{c: c, stored: reuse.Map[storedObject, int64](c.Reuse), caches: reuse.Map[cacheOf, int64](c.Reuse)}
	return watcher{
		commits: orderedResources,
		commit:  o.commit,
		deliver: o.deliver,
		event:   func(r trace.Record) { forgetComponent(o.caches, r, func(k cacheOf) string { return k.component }) },
	}
}

func (o *order) commit(e fake.Commit) {
	key := storedObject{e.Resource, e.After.GetNamespace(), e.After.GetName()}
	switch {
	case e.Revision <= o.revision:
		o.c.report("I34", "%s was written as revision %d after revision %d", key, e.Revision, o.revision)
	case e.After.GetResourceVersion() != strconv.FormatInt(e.Revision, 10):
		o.c.report("I34", "%s was stored with resourceVersion %s at revision %d", key,
			e.After.GetResourceVersion(), e.Revision)
	}
	o.revision = max(o.revision, e.Revision)
	if was, ok := o.stored[key]; ok &&
		(e.Before == nil || e.Before.GetResourceVersion() != strconv.FormatInt(was, 10)) {
		o.c.report("I34", "%s was replaced at revision %d by a writer that had not read revision %d, which was stored",
			key, e.Revision, was)
	}
	o.stored[key] = e.Revision
	if e.Type == "DELETED" {
		delete(o.stored, key)
	}
}

func (o *order) deliver(r trace.Record) {
	resource, _, _ := strings.Cut(r.Object, "/")
	component, task, _ := strings.Cut(r.Task, "/")
	kind, _, _ := strings.Cut(task, " ")
	_, number, ok := strings.Cut(r.Detail, "rv=")
	list := r.Verb == "LIST"
	if !ok || list && kind != "cache" {
		return // records of a metadata watcher do not name the resource of its lists
	}
	revision, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return
	}
	key := cacheOf{component, kind, resource}
	if was := o.caches[key]; revision < was || revision == was && !list {
		o.c.report("I34", "%s: its %s of %s went from revision %d to %d, with %s of %s%s",
			component, kind, resource, was, revision, r.Verb, r.Object, o.undone(resource, revision, was))
	}
	o.caches[key] = revision
}

// undone returns, as text, the first object by name that a cache loses when it goes back from one
// revision to another. It returns "" if there is none of this resource, or if it has changed since.
func (o *order) undone(resource string, to, from int64) string {
	var objects []string
	for object, is := range o.stored {
		if object.resource == resource && to < is && is <= from {
			objects = append(objects, object.String())
		}
	}
	if len(objects) == 0 {
		return ""
	}
	return ", from before " + slices.Min(objects) + " became what it is"
}
