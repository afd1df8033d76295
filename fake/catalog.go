package fake

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A catalog lists what a server serves. It is immutable; adding or removing a custom resource
// replaces it.
type catalog struct {
	rows   []table           // of the built-in resources
	row    map[string]int    // index in rows, by id
	custom map[string]*table // custom resources, by id
	served map[schema.GroupVersionResource]*kind
	kinds  []*kind // in discovery order: as in kinds, then custom resources by id
	// versions are the kinds that show the objects of a table, by the table's id, if there are several; the preferred
	// one first.
	versions map[string][]*kind

	generation int64 // number of catalogs before this one
}

// rowsByID has the index of a built-in resource's table in the rows of a catalog, by id.
var rowsByID = func() map[string]int {
	rows := make(map[string]int, len(kinds))
	for i, k := range kinds {
		if k.base == nil {
			rows[k.id] = i
		}
	}
	for _, k := range kinds {
		if k.base != nil {
			rows[k.id] = rows[k.base.id]
		}
	}
	return rows
}()

// servedBuiltIn has the built-in kinds by the resource that serves them.
var servedBuiltIn = func() map[schema.GroupVersionResource]*kind {
	served := make(map[schema.GroupVersionResource]*kind, len(kinds))
	for _, k := range kinds {
		served[k.gvk.GroupVersion().WithResource(k.resource)] = k
	}
	return served
}()

// versionsBuiltIn has the built-in kinds of which several show the same objects.
var versionsBuiltIn = func() map[string][]*kind {
	versions := map[string][]*kind{}
	for _, k := range kinds {
		id := k.id
		if k.base != nil {
			id = k.base.id
		}
		versions[id] = append(versions[id], k)
	}
	maps.DeleteFunc(versions, func(_ string, all []*kind) bool { return len(all) == 1 })
	return versions
}()

// tableID returns the id of a custom resource's table. The id of a built-in resource is its name,
// except for the events of events.k8s.io, the autoscalers of autoscaling/v1, and mutating policies of v1beta1.
func tableID(group, resource string) string { return resource + "." + group }

// newCatalog returns the catalog of a server without custom resources.
func newCatalog(h history) *catalog {
	c := &catalog{rows: make([]table, len(kinds)), row: rowsByID, served: servedBuiltIn, kinds: kinds, versions: versionsBuiltIn}
	for i, k := range kinds {
		c.rows[i].kind, c.rows[i].log.history = k, h
	}
	return c
}

// table returns the table with an id, or nil.
func (c *catalog) table(id string) *table {
	if i, ok := c.row[id]; ok {
		return &c.rows[i]
	}
	return c.custom[id]
}

// tables returns all tables.
func (c *catalog) tables() []*table {
	all := make([]*table, 0, len(c.rows)+len(c.custom))
	for i := range c.rows {
		all = append(all, &c.rows[i])
	}
	for _, id := range slices.Sorted(maps.Keys(c.custom)) {
		all = append(all, c.custom[id])
	}
	return all
}

// with returns a catalog in which a custom resource has the given kinds: one per version, the
// preferred version first. A version that is not served is not found by its name.
func (c *catalog) with(t *table, versions []*kind) *catalog {
	out := c.without(versions[0].id)
	out.custom[versions[0].id] = t
	served := versions[:len(versions[0].custom.Versions)]
	for _, k := range served {
		out.served[k.gvk.GroupVersion().WithResource(k.resource)] = k
	}
	if len(served) > 1 {
		out.versions[versions[0].id] = served
	}
	out.kinds = append(out.kinds, versions[0])
	slices.SortFunc(out.kinds[len(kinds):], func(a, b *kind) int { return cmp.Compare(a.id, b.id) })
	return out
}

// without returns a catalog without a custom resource.
func (c *catalog) without(id string) *catalog {
	out := &catalog{
		rows: c.rows, row: c.row, custom: make(map[string]*table,
			len(c.custom)+1), served: maps.Clone(c.served), versions: maps.Clone(c.versions), generation: c.generation + 1,
	}
	delete(out.versions, id)
	for i, t := range c.custom {
		if i != id {
			out.custom[i] = t
		}
	}
	maps.DeleteFunc(out.served, func(_ schema.GroupVersionResource, k *kind) bool { return k.id == id })
	for _, k := range c.kinds {
		if k.id != id {
			out.kinds = append(out.kinds, k)
		}
	}
	return out
}

// tableOf returns the table that holds the objects of a kind.
func (s *Server) tableOf(k *kind) *table {
	if t := s.catalog.Load().table(k.id); t != nil {
		return t
	}
	return s.newTable(k) // of a custom resource that was removed
}

func (s *Server) newTable(k *kind) *table {
	t := &table{kind: k}
	t.log.history = s.history
	return t
}

// An APIResource is a resource that the server serves, in one version.
type APIResource struct {
	metav1.APIResource                      // with group, version and kind; Verbs excludes subresources
	Subresources       []metav1.APIResource // named like "pods/status", sorted
	Custom             *CustomKind          // nil: built in
}

// Generation returns a number that grows whenever the result of Resources changes.
func (s *Server) Generation() int64 { return s.catalog.Load().generation }

// verbs are the verbs of every resource.
var verbs = metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// subresourceVerbs are the verbs of a subresource that is written, and actionVerbs those of an action.
var (
	subresourceVerbs = metav1.Verbs{"get", "patch", "update"}
	actionVerbs      = metav1.Verbs{"create"}
)

// customVerbs are the verbs of a custom resource, in upstream's order.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver customresource_discovery_controller.go
// sync.
var customVerbs = metav1.Verbs{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}

// Resources returns the served resources in discovery order: the core group, the other groups,
// custom resources. Resources that can only be created have no ResourceClient; see
// Clientset.Review.
func (s *Server) Resources() []APIResource {
	var all []APIResource
	current := s.catalog.Load()
	for _, k := range current.kinds[:len(kinds)] {
		all = append(all, k.describe(k.gvk.Version))
	}
	for _, r := range reviews {
		all = append(all, r.describe())
	}
	for _, k := range current.kinds[len(kinds):] {
		for _, v := range k.custom.Versions {
			r := schema.GroupVersionResource{Group: k.gvk.Group, Version: v, Resource: k.resource}
			all = append(all, current.served[r].describe(v))
		}
	}
	return all
}

// Resource returns a resource in its preferred version. The resource is named as in Commit. The
// bool is false if the server does not have it.
func (s *Server) Resource(resource string) (APIResource, bool) {
	current := s.catalog.Load()
	t := current.table(resource)
	if t == nil {
		return APIResource{}, false
	}
	k := t.kind
	if i := slices.IndexFunc(current.kinds[len(kinds):], func(k *kind) bool { return k.id == resource }); i >= 0 {
		k = current.kinds[len(kinds)+i] // the table may belong to another version
	}
	return k.describe(k.gvk.Version), true
}

// Serves reports whether the server has a resource, which is named as in Commit.
func (s *Server) Serves(resource string) bool { return s.catalog.Load().table(resource) != nil }

func (k *kind) describe(version string) APIResource {
	r := APIResource{Custom: k.custom, APIResource: metav1.APIResource{
		Name: k.resource, SingularName: strings.ToLower(k.gvk.Kind), Namespaced: k.namespaced,
		Group: k.gvk.Group, Version: version, Kind: k.gvk.Kind, Verbs: verbs,
		ShortNames: k.short, Categories: k.categories,
	}}
	if k.custom != nil {
		r.Verbs = customVerbs
		r.SingularName = cmp.Or(k.custom.Singular, r.SingularName)
	}
	sub := func(name string, gvk schema.GroupVersionKind, verbs metav1.Verbs) {
		r.Subresources = append(r.Subresources, metav1.APIResource{
			Name: k.resource + "/" + name, Namespaced: k.namespaced,
			Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Verbs: verbs,
		})
	}
	own := k.gvk.GroupKind().WithVersion(version)
	if k.copyStatus != nil {
		sub("status", own, subresourceVerbs)
	}
	if k.id == "namespaces" {
		r.Verbs = slices.DeleteFunc(slices.Clone(verbs), func(v string) bool { return v == "deletecollection" })
		sub("finalize", own, metav1.Verbs{"update"})
	}
	if k.id == "pods" {
		sub(string(ephemeralSubresource), own, subresourceVerbs)
	}
	if k.scale != nil {
		sub("scale", k.scale.gvk, subresourceVerbs)
	}
	for name, a := range k.actions {
		sub(name, a.gvk, actionVerbs)
	}
	slices.SortFunc(r.Subresources, func(a, b metav1.APIResource) int { return cmp.Compare(a.Name, b.Name) })
	return r
}
