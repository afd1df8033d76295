package fake

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Preferred tells the resources that the server serves, in the version that clients are to prefer, as a client's discovery
// finds them: in the order of discovery, the resources of a group together.
func (s *Server) Preferred() []*metav1.APIResourceList {
	var lists []*metav1.APIResourceList
	seen := map[schema.GroupResource]bool{}
	all := s.Resources()
	slices.SortStableFunc(all, func(a, b APIResource) int { return cmp.Compare(a.Group, b.Group) })
	for _, r := range all {
		id := schema.GroupResource{Group: r.Group, Resource: r.Name}
		if seen[id] {
			continue
		}
		seen[id] = true
		gv := schema.GroupVersion{Group: r.Group, Version: r.Version}.String()
		if n := len(lists); n == 0 || lists[n-1].GroupVersion != gv {
			lists = append(lists, &metav1.APIResourceList{GroupVersion: gv})
		}
		last := lists[len(lists)-1]
		last.APIResources = append(last.APIResources, r.APIResource)
	}
	return lists
}
