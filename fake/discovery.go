package fake

import (
	"cmp"
	"errors"
	goruntime "runtime"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
)

// Discovery returns a discovery client. Resources have the order of [Server.Resources].
//
// Differs: OpenAPI is answered with 404, and RESTClient answers 404 to everything. Discovery
// requests are not traced.
func (c *Clientset) Discovery() discovery.DiscoveryInterface {
	return discoveryClient{DiscoveryInterface: c.Interface.Discovery(), server: c.server}
}

// discoveryClient is a discovery client of a server. The embedded client answers 404.
type discoveryClient struct {
	discovery.DiscoveryInterface
	server *Server
}

var _ discovery.AggregatedDiscoveryInterface = discoveryClient{}

// served returns the groups, and the resources of each of their versions, in order.
func (d discoveryClient) served() ([]metav1.APIGroup, []*metav1.APIResourceList) {
	var groups []metav1.APIGroup
	lists := map[schema.GroupVersion]*metav1.APIResourceList{}
	for _, r := range d.server.Resources() {
		gv := schema.GroupVersion{Group: r.Group, Version: r.Version}
		list := lists[gv]
		if list == nil {
			list = &metav1.APIResourceList{
				TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(),
			}
			lists[gv] = list
			groups = withVersion(groups, gv)
		}
		list.APIResources = append(append(list.APIResources, r.APIResource), r.Subresources...)
	}
	var all []*metav1.APIResourceList
	for i := range groups {
		g := &groups[i]
		slices.SortFunc(g.Versions, func(a, b metav1.GroupVersionForDiscovery) int {
			return version.CompareKubeAwareVersionStrings(b.Version, a.Version)
		})
		g.PreferredVersion = g.Versions[0]
		for _, v := range g.Versions {
			list := lists[schema.GroupVersion{Group: g.Name, Version: v.Version}]
			slices.SortFunc(list.APIResources, func(a, b metav1.APIResource) int { return cmp.Compare(a.Name, b.Name) })
			all = append(all, list)
		}
	}
	return groups, all
}

// withVersion adds a version to the groups.
func withVersion(groups []metav1.APIGroup, gv schema.GroupVersion) []metav1.APIGroup {
	i := slices.IndexFunc(groups, func(g metav1.APIGroup) bool { return g.Name == gv.Group })
	if i < 0 {
		i = len(groups)
		groups = append(groups, metav1.APIGroup{Name: gv.Group})
	}
	groups[i].Versions = append(groups[i].Versions,
		metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version})
	return groups
}

// ServerGroups returns the groups.
func (d discoveryClient) ServerGroups() (*metav1.APIGroupList, error) {
	groups, _ := d.served()
	return &metav1.APIGroupList{Groups: groups}, nil
}

// GroupsAndMaybeResources returns the groups and their resources.
func (d discoveryClient) GroupsAndMaybeResources() (*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	groups, all := d.served()
	lists := make(map[schema.GroupVersion]*metav1.APIResourceList, len(all))
	for _, list := range all {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, nil, nil, err
		}
		lists[gv] = list
	}
	return &metav1.APIGroupList{Groups: groups}, lists, nil, nil
}

// ServerResourcesForGroupVersion returns the resources of one version of a group.
func (d discoveryClient) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	if groupVersion == "" {
		return nil, errors.New("groupVersion shouldn't be empty")
	}
	_, all := d.served()
	i := slices.IndexFunc(all, func(list *metav1.APIResourceList) bool { return list.GroupVersion == groupVersion })
	if i < 0 {
		return nil, notFound()
	}
	return all[i], nil
}

// ServerGroupsAndResources returns the groups and the resources of each version.
func (d discoveryClient) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	groups, all := d.served()
	out := make([]*metav1.APIGroup, len(groups))
	for i := range groups {
		out[i] = &groups[i]
	}
	return out, all, nil
}

// ServerPreferredResources returns each resource in its group's preferred version or, if that lacks
// it, in the newest version that has it.
func (d discoveryClient) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	_, all := d.served()
	seen := map[schema.GroupResource]bool{}
	for _, list := range all {
		list.APIResources = slices.DeleteFunc(list.APIResources, func(r metav1.APIResource) bool {
			named := schema.GroupResource{Group: r.Group, Resource: r.Name}
			again := seen[named] || strings.Contains(r.Name, "/")
			seen[named] = true
			return again
		})
	}
	return all, nil
}

// ServerPreferredNamespacedResources returns the namespaced preferred resources.
func (d discoveryClient) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	all, err := d.ServerPreferredResources()
	return discovery.FilteredBy(discovery.ResourcePredicateFunc(func(_ string, r *metav1.APIResource) bool {
		return r.Namespaced
	}), all), err
}

// ServerVersion returns the emulated version of Kubernetes.
func (d discoveryClient) ServerVersion() (*version.Info, error) {
	return &version.Info{
		Major: "1", Minor: "36", EmulationMajor: "1", EmulationMinor: "36",
		MinCompatibilityMajor: "1", MinCompatibilityMinor: "35",
		GitVersion: "v1.36.3", GitTreeState: "clean", BuildDate: "1970-01-01T00:00:00Z",
		GoVersion: goruntime.Version(), Compiler: goruntime.Compiler, Platform: goruntime.GOOS + "/" + goruntime.GOARCH,
	}, nil
}

// WithLegacy returns the same client.
func (d discoveryClient) WithLegacy() discovery.DiscoveryInterface { return d }
