package scenario

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/trace"
)

// cast are the objects that a failure is about: those that its sentence names, and those that have to do with them. Objects
// are named as in an action: "persistentvolumeclaims/default/data".
type cast struct {
	about   map[string]bool     // nil: all objects
	links   map[string][]string // an object: those that it has to do with
	handles map[string]string   // the handle of a volume at the driver: its PersistentVolume
	uids    map[string]string   // the UID of a pod, which is in the paths of its mounts: the pod
}

// castOf finds what a failure is about.
func castOf(records []trace.Record, failure error) *cast {
	c := &cast{links: map[string][]string{}, handles: map[string]string{}, uids: map[string]string{}}
	var keys []string // in the order of their first write
	for i := range records {
		for _, obj := range []runtime.Object{records[i].Before, records[i].After} {
			if key := c.meet(obj); key != "" && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	for _, key := range c.named(keys, records, failure) {
		c.enter(key)
	}
	if c.about != nil && !errors.As(failure, new(*invariant.Violation)) {
		c.enterRivals(records)
	}
	return c
}

// enterRivals lets those volumes be told of that a claim waits for in vain: those of its class that are large enough.
func (c *cast) enterRivals(records []trace.Record) {
	bound := map[string]bool{}
	claims := map[string]*corev1.PersistentVolumeClaim{}
	volumes := map[string]*corev1.PersistentVolume{}
	for i := range records {
		switch o := records[i].After.(type) {
		case *corev1.PersistentVolumeClaim:
			key := c.meet(o)
			bound[key] = bound[key] || o.Spec.VolumeName != ""
			claims[key] = o
		case *corev1.PersistentVolume:
			volumes[c.meet(o)] = o
		}
	}
	for _, key := range slices.Sorted(maps.Keys(claims)) {
		if !c.about[key] || bound[key] {
			continue
		}
		claim := claims[key]
		for _, name := range slices.Sorted(maps.Keys(volumes)) {
			size, room := claim.Spec.Resources.Requests.Storage(), volumes[name].Spec.Capacity.Storage()
			class := claim.Spec.StorageClassName
			if class != nil && *class == volumes[name].Spec.StorageClassName && room.Cmp(*size) >= 0 {
				c.enter(name)
			}
		}
	}
}

// meet notes what an object has to do with, and returns its key; "" for one that is of no interest.
func (c *cast) meet(obj runtime.Object) string {
	key := ""
	link := func(other string) {
		if !slices.Contains(c.links[key], other) {
			c.links[key] = append(c.links[key], other)
			c.links[other] = append(c.links[other], key)
		}
	}
	switch o := obj.(type) {
	case *corev1.PersistentVolumeClaim:
		key = "persistentvolumeclaims/" + o.Namespace + "/" + o.Name
		if o.Spec.VolumeName != "" {
			link("persistentvolumes/" + o.Spec.VolumeName)
		}
	case *corev1.PersistentVolume:
		key = "persistentvolumes/" + o.Name
		if ref := o.Spec.ClaimRef; ref != nil {
			link("persistentvolumeclaims/" + ref.Namespace + "/" + ref.Name)
		}
		if o.Spec.CSI != nil {
			c.handles[o.Spec.CSI.VolumeHandle] = key
		}
		if o.Spec.HostPath != nil {
			c.handles["host-path/"+o.Name] = key // as calls of the plugin name it
		}
	case *corev1.Pod:
		key = "pods/" + o.Namespace + "/" + o.Name
		c.uids[string(o.UID)] = key
		for i := range o.Spec.Volumes {
			if claim := o.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
				link("persistentvolumeclaims/" + o.Namespace + "/" + claim.ClaimName)
			}
		}
	case *storagev1.VolumeAttachment:
		key = "volumeattachments/" + o.Name
		if volume := o.Spec.Source.PersistentVolumeName; volume != nil {
			link("persistentvolumes/" + *volume)
		}
	}
	return key
}

// named are the objects that a failure's sentence names, and the one that was touched when it was seen.
func (c *cast) named(keys []string, records []trace.Record, failure error) []string {
	var violation *invariant.Violation
	var livelock *Livelock
	var named []string
	words := ""
	switch {
	case failure == nil:
		return nil
	case errors.As(failure, &violation):
		words = violation.What
		for i := range records {
			if r := &records[i]; r.Step == violation.Step && (r.Kind == trace.KindAPI || r.Kind == trace.KindDriver) {
				named = append(named, c.keysOf(r)...)
			}
		}
	case errors.As(failure, &livelock):
		for i := range livelock.Cycle {
			named = append(named, c.keysOf(&livelock.Cycle[i])...)
		}
	default:
		words = failure.Error()
	}
	for _, key := range keys {
		if mentions(words, key) {
			named = append(named, key)
		}
	}
	for handle, key := range c.handles { // in any order: they only enter a set
		if mentions(words, "/"+handle) {
			named = append(named, key)
		}
	}
	for uid, key := range c.uids {
		if mentions(words, "/"+uid) {
			named = append(named, key)
		}
	}
	return named
}

// mentions tells whether a sentence has the name of an object as a word of its own, or as a part of a path.
func mentions(words, key string) bool {
	_, name, _ := strings.Cut(key, "/")
	if i := strings.LastIndex(name, "/"); i >= 0 {
		name = name[i+1:]
	}
	return slices.Contains(strings.FieldsFunc(words, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '.' && r != '_'
	}), name)
}

// enter lets an object be told of, and all that have to do with it.
func (c *cast) enter(key string) {
	if c.about == nil {
		c.about = map[string]bool{}
	}
	if c.about[key] {
		return
	}
	c.about[key] = true
	for _, other := range c.links[key] {
		c.enter(other)
	}
}

// keysOf are the objects that a record is about.
func (c *cast) keysOf(r *trace.Record) []string {
	if r.Kind == trace.KindDriver {
		_, handle, _ := strings.Cut(r.Object, "/")
		var keys []string
		if key := c.handles[handle]; key != "" {
			keys = append(keys, key)
		}
		return keys
	}
	if key := c.meet(r.After); key != "" {
		return []string{key}
	}
	return []string{r.Object}
}

// concerns tells whether a record is about one of the objects. Of a node only what is said of their volumes is, and what
// users do; of a driver call that names no volume, such as one that makes it, all is.
func (c *cast) concerns(r *trace.Record) bool {
	resource, name, _ := strings.Cut(r.Object, "/")
	switch {
	case r.Kind == trace.KindDriver:
		return c.about == nil || c.handles[name] == "" || c.about[c.handles[name]]
	case resource == "events":
		return false
	case resource == "nodes":
		return c.concernsNode(r)
	case resource == "storageclasses":
		return true
	case c.about == nil:
		_, known := watched[resource]
		return known
	}
	return slices.ContainsFunc(c.keysOf(r), func(key string) bool { return c.about[key] })
}

// watched are the resources that failures are about.
var watched = map[string]bool{"persistentvolumeclaims": true, "persistentvolumes": true, "pods": true, "volumeattachments": true}

func (c *cast) concernsNode(r *trace.Record) bool {
	words, told := trace.Tell(*r)
	if !told {
		return false
	}
	volumes := false
	for handle, key := range c.handles {
		if mentions(words, "/"+handle) {
			volumes = true
			if c.about == nil || c.about[key] {
				return true
			}
		}
	}
	return !volumes
}
