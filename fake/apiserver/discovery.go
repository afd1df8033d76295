package apiserver

import (
	"cmp"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/volsim/volsim/fake"
)

// group is a served API group with its versions, the preferred one first.
type group struct {
	name     string
	versions []version
}

// version is a version of a group, with its resources by name.
type version struct {
	name      string
	resources []fake.APIResource
}

// groups returns the served groups in discovery order.
func (h *handler) groups() []group {
	var all []group
	for _, d := range h.server.Resources() {
		i := slices.IndexFunc(all, func(g group) bool { return g.name == d.Group })
		if i < 0 {
			i = len(all)
			all = append(all, group{name: d.Group})
		}
		g := &all[i]
		j := slices.IndexFunc(g.versions, func(v version) bool { return v.name == d.Version })
		if j < 0 {
			j = len(g.versions)
			g.versions = append(g.versions, version{name: d.Version})
		}
		g.versions[j].resources = append(g.versions[j].resources, d)
		if d.Group == "" && d.Name == "pods" {
			last := len(g.versions[j].resources) - 1
			if h.hasKubelets() {
				g.versions[j].resources[last].Subresources = withConnections(d.Subresources)
			}
			g.versions[j].resources = append(g.versions[j].resources, bindingsResource())
		}
	}
	for _, g := range all {
		slices.SortStableFunc(g.versions,
			func(a, b version) int { return apiversion.CompareKubeAwareVersionStrings(b.name, a.name) })
		for _, v := range g.versions {
			slices.SortStableFunc(v.resources, func(a, b fake.APIResource) int { return cmp.Compare(a.Name, b.Name) })
		}
	}
	return all
}

// withConnections returns the subresources of pods with those that kubelets answer, sorted.
//
// Upstream: pkg/registry/core/rest, the storage of pods (v1.36).
func withConnections(subresources []metav1.APIResource) []metav1.APIResource {
	connection := func(name, kind string, verbs ...string) metav1.APIResource {
		return metav1.APIResource{Name: "pods/" + name, Namespaced: true, Version: "v1", Kind: kind, Verbs: verbs}
	}
	all := append(slices.Clone(subresources), connection("attach", "PodAttachOptions", "create", "get"),
		connection("exec", "PodExecOptions", "create", "get"), connection("log", "Pod", "get"))
	slices.SortFunc(all, func(a, b metav1.APIResource) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// bindingsResource returns the resource bindings, the older way to bind a pod.
func bindingsResource() fake.APIResource {
	return fake.APIResource{APIResource: metav1.APIResource{
		Name: "bindings", SingularName: "binding", Namespaced: true, Version: "v1", Kind: "Binding",
		Verbs: metav1.Verbs{"create"},
	}}
}

// discovery answers a discovery request: for /api and /apis with all resources or with the groups,
// for longer paths with one group or one version.
func (r *request) discovery(parts []string) answer {
	if r.Method != http.MethodGet {
		return r.errorAnswer(errMethod())
	}
	if len(parts) == 1 {
		if f, ok := r.aggregatedForm(); ok {
			return r.aggregated(f, parts[0] == "api")
		}
	}
	if err := r.acceptable(false); err != nil {
		return r.errorAnswer(err)
	}
	f, ok := r.form(nil)
	if !ok {
		return r.errorAnswer(errAccept(mediaTypes...))
	}
	out, err := r.unaggregated(parts)
	if err != nil {
		return r.errorAnswer(err)
	}
	if out == nil {
		return pageNotFound()
	}
	a, err := r.encodedAnswer(http.StatusOK, f, out)
	if err != nil {
		return r.errorAnswer(err)
	}
	return a
}

// unaggregated returns the discovery document of the path. It is nil if the group does not exist.
func (r *request) unaggregated(parts []string) (runtime.Object, error) {
	all := r.h.groups()
	core := parts[0] == "api"
	if len(parts) == 1 && core {
		return &metav1.APIVersions{
			TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{
				ClientCIDR: "0.0.0.0/0", ServerAddress: r.Host,
			}},
		}, nil
	}
	if len(parts) == 1 {
		list := &metav1.APIGroupList{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{},
		}
		for _, g := range all {
			if g.name != "" {
				list.Groups = append(list.Groups, g.describe())
			}
		}
		return list, nil
	}
	name, versionName := "", parts[1]
	if !core {
		name, versionName = parts[1], ""
		if len(parts) == 3 {
			versionName = parts[2]
		}
	}
	i := slices.IndexFunc(all, func(g group) bool { return g.name == name })
	if i < 0 || !core && name == "" {
		return nil, nil
	}
	g := all[i]
	if versionName == "" {
		one := g.describe()
		one.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		return &one, nil
	}
	j := slices.IndexFunc(g.versions, func(v version) bool { return v.name == versionName })
	if j < 0 {
		if g.versions[0].resources[0].Custom != nil {
			return nil, nil
		}
		return nil, errPath()
	}
	return g.list(g.versions[j]), nil
}

func (g group) describe() metav1.APIGroup {
	out := metav1.APIGroup{Name: g.name}
	for _, v := range g.versions {
		out.Versions = append(out.Versions, metav1.GroupVersionForDiscovery{
			GroupVersion: g.name + "/" + v.name, Version: v.name,
		})
	}
	out.PreferredVersion = out.Versions[0]
	return out
}

// list returns the resources of a version. An entry names its group and version only if they differ
// from the list's.
func (g group) list(v version) *metav1.APIResourceList {
	out := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	out.GroupVersion = g.name + "/" + v.name
	if g.name == "" {
		out.APIVersion, out.GroupVersion = "", v.name
	}
	add := func(d metav1.APIResource) {
		if d.Group == g.name && d.Version == v.name {
			d.Group, d.Version = "", ""
		}
		out.APIResources = append(out.APIResources, d)
	}
	for _, d := range v.resources {
		add(d.APIResource)
		for _, sub := range d.Subresources {
			add(sub)
		}
	}
	return out
}
