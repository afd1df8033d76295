package trace

import (
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// RelatedObjects are the objects that somebody tells about: claims, volumes, pods and attachments, and with each of them those that
// have to do with it. Objects are named as in an action: "persistentvolumeclaims/default/data". A cast that nobody has
// entered is of all objects. Not for several goroutines at once.
type RelatedObjects struct {
	selected   map[string]bool     // nil: all objects
	writeOrder []string            // in the order of their first write
	links      map[string][]string // an object: those that it has to do with
	handles    map[string]string   // the handle of a volume at the driver: its PersistentVolume
	uids       map[string]string   // the UID of a pod, which is in the paths of its mounts: the pod
}

// NewRelatedObjects learns from the writes among the records which objects there are, and which have to do with which.
func NewRelatedObjects(records []Record) *RelatedObjects {
	c := &RelatedObjects{links: map[string][]string{}, handles: map[string]string{}, uids: map[string]string{}}
	met := map[string]bool{}
	for i := range records {
		for _, obj := range []runtime.Object{records[i].Before, records[i].After} {
			if key := c.Observe(obj); key != "" && !met[key] {
				met[key] = true
				c.writeOrder = append(c.writeOrder, key)
			}
		}
	}
	return c
}

// Observe notes what an object has to do with, and returns its name; "" for one that casts are not of.
func (c *RelatedObjects) Observe(obj runtime.Object) string {
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

// Add takes in an object, and all that have to do with it.
func (c *RelatedObjects) Add(key string) {
	if c.selected == nil {
		c.selected = map[string]bool{}
	}
	if c.selected[key] {
		return
	}
	c.selected[key] = true
	for _, other := range c.links[key] {
		c.Add(other)
	}
}

// Selected are the objects of the cast that were written, in the order of their first write; nil if it is of all.
func (c *RelatedObjects) Selected() []string {
	if c.selected == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.writeOrder), func(key string) bool { return !c.selected[key] })
}

// NamedIn are the objects that a sentence names, by their names, by the handle of a volume in it, or by the UID of a pod.
func (c *RelatedObjects) NamedIn(words string) []string {
	said := map[string]bool{}
	for key := range wordsOf(words) {
		said[key] = true
	}
	named := map[string]bool{}
	for handle, key := range c.handles { // in any order: they only enter a set
		if said[handle[strings.LastIndex(handle, "/")+1:]] {
			named[key] = true
		}
	}
	for uid, key := range c.uids {
		if said[uid] {
			named[key] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(c.writeOrder), func(key string) bool {
		return !named[key] && !said[key[strings.LastIndex(key, "/")+1:]]
	})
}

// wordsOf are the words of a sentence; a name in it, or in a path of it, is one.
func wordsOf(sentence string) func(yield func(string) bool) {
	return strings.FieldsFuncSeq(sentence, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '.' && r != '_'
	})
}

// ObjectsOf are the objects that a record is about, whether they are of the cast or not.
func (c *RelatedObjects) ObjectsOf(r *Record) []string {
	if r.Kind == KindDriver {
		_, handle, _ := strings.Cut(r.Object, "/")
		var keys []string
		if key := c.handles[handle]; key != "" {
			keys = append(keys, key)
		}
		return keys
	}
	if key := c.Observe(r.After); key != "" {
		return []string{key}
	}
	return []string{r.Object}
}

// Matches tells whether a record is about one of the objects. Of a node only what is said of their volumes is, and what
// users do; of a driver call that names no volume, such as one that makes it, all is.
func (c *RelatedObjects) Matches(r *Record) bool {
	resource, name, _ := strings.Cut(r.Object, "/")
	switch {
	case r.Kind == KindDriver:
		return c.selected == nil || c.handles[name] == "" || c.selected[c.handles[name]]
	case resource == "events":
		return false
	case resource == "nodes":
		return c.matchesNode(r)
	case resource == "storageclasses":
		return true
	case c.selected == nil:
		return relatedResources[resource]
	}
	return slices.ContainsFunc(c.ObjectsOf(r), func(key string) bool { return c.selected[key] })
}

// relatedResources are the resources that casts are of.
var relatedResources = map[string]bool{"persistentvolumeclaims": true, "persistentvolumes": true, "pods": true, "volumeattachments": true}

func (c *RelatedObjects) matchesNode(r *Record) bool {
	words, told := Describe(*r)
	if !told {
		return false
	}
	said := map[string]bool{}
	for word := range wordsOf(words) {
		said[word] = true
	}
	volumes := false
	for handle, key := range c.handles {
		if said[handle[strings.LastIndex(handle, "/")+1:]] {
			volumes = true
			if c.selected == nil || c.selected[key] {
				return true
			}
		}
	}
	return !volumes
}
