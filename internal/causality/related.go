package causality

import (
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/sim/trace"
)

// RelatedObjects selects objects: claims, volumes, pods, attachments and snapshots, and the objects of other
// resources that a user or a component of one's own has written, each together with those related to
// it. Objects are named as in an action: "persistentvolumeclaims/default/data". A
// selection to which nothing was added selects all objects. It is not safe for concurrent use.
type RelatedObjects struct {
	selected   map[string]bool     // nil: all objects
	writeOrder []string            // all objects, in the order of their first write
	links      map[string][]string // an object: those related to it
	handles    map[string]string   // the handle of a volume at the driver: its PersistentVolume
	uids       map[string]string   // the UID of a pod, which is in the paths of its mounts: the pod
	own        map[string]bool     // objects of one's own, whatever their resource
}

// NewRelatedObjects finds, in the writes among the records, which objects exist and which are
// related. own reports whether a record writes an object of one's own, of any resource; nil means
// that none does.
func NewRelatedObjects(records []trace.Record, own func(*trace.Record) bool) *RelatedObjects {
	c := &RelatedObjects{links: map[string][]string{}, handles: map[string]string{}, uids: map[string]string{}, own: map[string]bool{}}
	met := map[string]bool{}
	meet := func(key string) {
		if key != "" && !met[key] {
			met[key] = true
			c.writeOrder = append(c.writeOrder, key)
		}
	}
	byUID := map[types.UID]string{}
	for i := range records {
		r := &records[i]
		for _, obj := range []runtime.Object{r.Before, r.After} {
			meet(c.Observe(obj))
		}
		if own == nil || r.Kind != trace.KindAPI || r.After == nil || !own(r) {
			continue
		}
		key := WrittenObject(r)
		c.own[key] = true
		meet(key)
		if o, ok := r.After.(metav1.Object); ok {
			byUID[o.GetUID()] = key
			for _, owner := range o.GetOwnerReferences() {
				if of := byUID[owner.UID]; of != "" {
					c.link(key, of)
				}
			}
		}
	}
	return c
}

// Own returns the objects of one's own, in the order of their first write.
func (c *RelatedObjects) Own() []string {
	return slices.DeleteFunc(slices.Clone(c.writeOrder), func(key string) bool { return !c.own[key] })
}

// Written returns all objects, in the order of their first write.
func (c *RelatedObjects) Written() []string { return slices.Clone(c.writeOrder) }

// IsOther reports whether an object is selected, and neither a claim, a volume, a pod nor an
// attachment.
func (c *RelatedObjects) IsOther(key string) bool {
	resource, _, _ := strings.Cut(key, "/")
	return !relatedResources[resource] && (c.selected[key] || c.selected == nil && (c.own[key] || snapshotResources[resource]))
}

// link records that two objects are related.
func (c *RelatedObjects) link(key, other string) {
	if !slices.Contains(c.links[key], other) {
		c.links[key] = append(c.links[key], other)
		c.links[other] = append(c.links[other], key)
	}
}

// Observe records the relations of an object and returns its name. It returns "" for an object of
// another resource.
func (c *RelatedObjects) Observe(obj runtime.Object) string {
	key := ""
	link := func(other string) { c.link(key, other) }
	switch o := obj.(type) {
	case *corev1.PersistentVolumeClaim:
		key = "persistentvolumeclaims/" + o.Namespace + "/" + o.Name
		if o.Spec.VolumeName != "" {
			link("persistentvolumes/" + o.Spec.VolumeName)
		}
		c.linkSource(key, o)
	case *corev1.PersistentVolume:
		key = "persistentvolumes/" + o.Name
		if ref := o.Spec.ClaimRef; ref != nil {
			link("persistentvolumeclaims/" + ref.Namespace + "/" + ref.Name)
		}
		if o.Spec.CSI != nil {
			c.handles[o.Spec.CSI.VolumeHandle] = key
		}
		if o.Spec.HostPath != nil {
			c.handles["host-path/"+o.Name] = key // as in calls of the plugin
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
	case nil:
	default:
		key = c.observeSnapshot(o)
	}
	return key
}

// Add selects an object and all objects related to it.
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

// Selected returns the selected objects that were written, in the order of their first write; nil
// if all are selected.
func (c *RelatedObjects) Selected() []string {
	if c.selected == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.writeOrder), func(key string) bool { return !c.selected[key] })
}

// NamedIn returns the objects that a sentence mentions: by name, by the handle of a volume, or by
// the UID of a pod.
func (c *RelatedObjects) NamedIn(words string) []string {
	said := map[string]bool{}
	for key := range wordsOf(words) {
		said[key] = true
	}
	named := map[string]bool{}
	for handle, key := range c.handles { // any order: they only enter a set
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

// wordsOf returns the words of a sentence. A name in it, or in a path of it, is one word.
func wordsOf(sentence string) func(yield func(string) bool) {
	return strings.FieldsFuncSeq(sentence, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '.' && r != '_'
	})
}

// ObjectsOf returns the objects that a record concerns, selected or not.
func (c *RelatedObjects) ObjectsOf(r *trace.Record) []string {
	if r.Kind == trace.KindDriver {
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
	return []string{WrittenObject(r)}
}

// Matches reports whether a record concerns a selected object. Records of a node match if they
// mention a selected volume or no volume. A driver call that names no volume, such as CreateVolume,
// always matches.
func (c *RelatedObjects) Matches(r *trace.Record) bool {
	resource, name, _ := strings.Cut(r.Object, "/")
	switch {
	case r.Kind == trace.KindDriver:
		return c.selected == nil || c.handles[name] == "" || c.selected[c.handles[name]]
	case resource == "events":
		return false
	case resource == "nodes":
		return c.matchesNode(r)
	case resource == "storageclasses":
		return true
	case c.selected == nil:
		return relatedResources[resource] || snapshotResources[resource] || c.own[WrittenObject(r)]
	}
	return slices.ContainsFunc(c.ObjectsOf(r), func(key string) bool { return c.selected[key] })
}

// relatedResources holds the resources whose objects are selected.
var relatedResources = map[string]bool{
	"persistentvolumeclaims": true, "persistentvolumes": true,
	"pods": true, "volumeattachments": true,
}

func (c *RelatedObjects) matchesNode(r *trace.Record) bool {
	words, told := trace.Describe(*r)
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
